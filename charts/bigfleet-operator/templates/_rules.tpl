{{- /* Made by `make charts` from charts/generate; do not edit. */ -}}
{{- define "bigfleet.rules.cluster" -}}
- apiGroups: [bigfleet.lucy.sh]
  resources: [capacityrequests]
  verbs: [list, watch]
- apiGroups: [bigfleet.lucy.sh]
  resources: [capacityrequests/status]
  verbs: [patch]
- apiGroups: [bigfleet.lucy.sh]
  resources: [upcomingnodes, availablecapacities]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [bigfleet.lucy.sh]
  resources: [upcomingnodes/status]
  verbs: [patch]
- apiGroups: ['']
  resources: [nodes]
  verbs: [list, watch, patch]
- apiGroups: ['']
  resources: [pods]
  verbs: [list]
{{- if .Values.watchPods }}
- apiGroups: ['']
  resources: [pods]
  verbs: [watch]
{{- end }}
- apiGroups: ['']
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: ['']
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- define "bigfleet.rules.namespace" -}}
{{- if .Values.leaderElect }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update]
{{- end }}
{{- end }}
