// Pins the oldest Kubernetes that the charts are for; its archive holds the API's own description. Nothing here is compiled.
module schemas

go 1.26.0

require k8s.io/kubernetes v1.31.0
