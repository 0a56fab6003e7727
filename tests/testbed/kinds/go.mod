// Pins the modules whose archives hold the kinds of other projects that our charts make objects of. Nothing here is compiled.
module kinds

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
