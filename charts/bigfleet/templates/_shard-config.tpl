{{- /* One file per shard with what differs by ordinal; the arguments are the same for all of them. */ -}}
{{- define "bigfleet.shard.config" -}}
{{- $s := .Values.shard }}
{{- $name := include "bigfleet.shard" . }}
{{- range $ordinal := until (int $s.replicas) }}
{{ $name }}-{{ $ordinal }}.yaml: |
  {{- with $s.providerAddrs }}
  provider-addr: {{ index . $ordinal | quote }}
  {{- end }}
  {{- with $s.external.hostnamePattern }}
  advertise-addr: {{ printf "%s:%d" (printf . $ordinal) (int $s.service.grpcPort) | quote }}
  {{- end }}
{{- end }}
{{- end }}
