{{- /* Made by `make charts` from charts/generate; do not edit. */ -}}
{{- define "bigfleet.rules.cluster" -}}
- apiGroups: ['']
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [bigfleet.lucy.sh]
  resources: [capacityrequests]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [bigfleet.lucy.sh]
  resources: [capacityrequests/status]
  verbs: [patch]
{{- if .Values.podEvents }}
- apiGroups: [bigfleet.lucy.sh]
  resources: [upcomingnodes]
  verbs: [list, watch]
{{- end }}
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
