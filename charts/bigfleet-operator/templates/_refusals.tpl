{{- /* Values that contradict each other; called once. */ -}}
{{- define "bigfleet.refusals" -}}
{{- include "bigfleet.values.checks" . }}
{{- if and .Values.bootstrapTemplate .Values.bootstrapTemplateSecret.name }}
{{- fail "bootstrapTemplate, bootstrapTemplateSecret.name: found both, allowed is one of them" }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElect) }}
{{- fail (printf "replicas: found %d without leaderElect, allowed is 1, as two sessions of one cluster would fight" (int .Values.replicas)) }}
{{- end }}
{{- end }}
