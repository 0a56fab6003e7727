{{- define "bigfleet.coordinator" -}}
{{ .Values.nameOverride }}-coordinator
{{- end }}

{{- define "bigfleet.shard" -}}
{{ .Values.nameOverride }}-shard
{{- end }}

{{- define "bigfleet.shard.headless" -}}
{{ .Values.nameOverride }}-shard-headless
{{- end }}

{{- define "bigfleet.dashboard" -}}
{{ .Values.nameOverride }}-dashboard
{{- end }}

{{- define "bigfleet.coordinator.address" -}}
{{- if .Values.shard.coordinatorAddress -}}
{{ .Values.shard.coordinatorAddress }}
{{- else if .Values.coordinator.enabled -}}
{{ include "bigfleet.coordinator" . }}.{{ include "bigfleet.namespace" . }}.svc:{{ int .Values.coordinator.service.grpcPort }}
{{- end }}
{{- end }}

{{- define "bigfleet.raftSecret" -}}
{{ .Values.coordinator.raftSecret.existingSecret | default (printf "%s-raft" .Values.nameOverride) }}
{{- end }}

{{- /* The Secret of the coordinator's certificate; empty without TLS. */ -}}
{{- define "bigfleet.coordinator.tls" -}}
{{- if not .Values.insecure -}}
{{ .Values.coordinator.tls.secretName | default (printf "%s-tls" (include "bigfleet.coordinator" .)) }}
{{- end }}
{{- end }}

{{- /* How shards get their certificates: csi, pattern, secret, or nothing for plaintext. */ -}}
{{- define "bigfleet.shard.tls.mode" -}}
{{- if .Values.insecure -}}
{{- else if .Values.shard.tls.csi.enabled -}}
csi
{{- else if .Values.shard.tls.secretName -}}
secret
{{- else -}}
pattern
{{- end }}
{{- end }}

{{- define "bigfleet.shard.tls.pattern" -}}
{{ .Values.shard.tls.secretNamePattern | default (printf "%s-%%d-tls" (include "bigfleet.shard" .)) }}
{{- end }}

{{- define "bigfleet.dashboard.tls" -}}
{{- if not .Values.insecure -}}
{{ .Values.dashboard.tls.secretName | default (printf "%s-tls" (include "bigfleet.dashboard" .)) }}
{{- end }}
{{- end }}

{{- define "bigfleet.dashboard.token" -}}
{{ .Values.dashboard.tokenSecret | default (printf "%s-token" (include "bigfleet.dashboard" .)) }}
{{- end }}

{{- /* A Secret with one random text that is made once and kept; takes root, component, name and key. */ -}}
{{- define "bigfleet.keptSecret" -}}
{{- $found := lookup "v1" "Secret" (include "bigfleet.namespace" .root) .name }}
apiVersion: v1
kind: Secret
metadata:
  {{- include "bigfleet.metadata" . | nindent 2 }}
  annotations:
    # Another text would shut out those that know this one, so it outlives the release.
    helm.sh/resource-policy: keep
type: Opaque
data:
  {{- if and $found $found.data (hasKey $found.data .key) }}
  {{ .key }}: {{ index $found.data .key }}
  {{- else }}
  {{ .key }}: {{ randAlphaNum 48 | b64enc }}
  {{- end }}
{{- end }}

{{- /* Whether shards differ in more than their name, so that each needs a file of its own. */ -}}
{{- define "bigfleet.shard.files" -}}
{{- if or .Values.shard.providerAddrs .Values.shard.external.hostnamePattern }}yes{{ end }}
{{- end }}
