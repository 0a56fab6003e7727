{{- /* Values that contradict each other; called once. */ -}}
{{- define "bigfleet.refusals" -}}
{{- include "bigfleet.values.checks" . }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElect) }}
{{- fail (printf "replicas: found %d without leaderElect, allowed is 1, as two controllers would write the same requests" (int .Values.replicas)) }}
{{- end }}
{{- end }}
