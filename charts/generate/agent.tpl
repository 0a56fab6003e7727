{{- /* Copied into the charts of operator and pod controller by `make charts` from charts/generate/agent.tpl; do not edit the copies. */ -}}

{{- /* Role and binding for the whole cluster, and for the own namespace where a Lease is held; takes root and component. */ -}}
{{- define "bigfleet.roles" -}}
{{- $account := include "bigfleet.account" .root }}
{{- $ns := include "bigfleet.namespace" .root }}
{{- $subject := dict "kind" "ServiceAccount" "name" $account "namespace" $ns }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $account }}
  labels:
    {{- include "bigfleet.labels" . | nindent 4 }}
rules:
  {{- include "bigfleet.rules.cluster" .root | trim | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $account }}
  labels:
    {{- include "bigfleet.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $account }}
subjects:
  - {{- toYaml $subject | nindent 4 }}
{{- with include "bigfleet.rules.namespace" .root | trim }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "bigfleet.metadata" (merge (dict "name" $account) $) | nindent 2 }}
rules:
  {{- . | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "bigfleet.metadata" (merge (dict "name" $account) $) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $account }}
subjects:
  - {{- toYaml $subject | nindent 4 }}
{{- end }}
{{- end }}

{{- /* Takes root, component, name, and the ports that are dialled besides DNS and the API server. */ -}}
{{- define "bigfleet.agent.networkPolicy" -}}
{{- $p := .root.Values.networkPolicy }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "bigfleet.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "bigfleet.selector" . | nindent 6 }}
  policyTypes: [Ingress{{ if $p.egress.enabled }}, Egress{{ end }}]
  ingress:
    {{- include "bigfleet.ingress" (dict "port" .root.Values.metricsPort "from" $p.metricsFrom) | nindent 4 }}
  {{- if $p.egress.enabled }}
  egress:
    {{- include "bigfleet.egress.dns" .root | nindent 4 }}
    - ports:
        # The API server, behind its Service or at its own port.
        - {port: 443, protocol: TCP}
        - {port: 6443, protocol: TCP}
        {{- range .dials }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
    {{- with $p.egress.extra }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- end }}
{{- end }}
