// Pins the oldest Kubernetes that the charts are for, whose archive holds the API's own description, and the project that has the
// schema of compose files. Nothing here is compiled.
module schemas

go 1.26.0

require (
	github.com/compose-spec/compose-go/v2 v2.16.2
	k8s.io/kubernetes v1.31.0
)
