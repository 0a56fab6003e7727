{{- /* Values that contradict each other; called once. */ -}}
{{- define "bigfleet.refusals" -}}
{{- include "bigfleet.values.checks" . }}
{{- if and .Values.bootstrapTemplate .Values.bootstrapTemplateSecret.name }}
{{- fail "bootstrapTemplate, bootstrapTemplateSecret.name: found both, allowed is one of them" }}
{{- end }}
{{- if not (or .Values.tls.secretName .Values.insecure) }}
{{- fail (printf "tls.secretName: missing, allowed is the Secret with the certificate of this cluster, bigfleet://cluster/%s; the notes of the chart bigfleet say how to get one; a shard without TLS needs insecure: true" .Values.clusterID) }}
{{- end }}
{{- if and .Values.tls.secretName .Values.insecure }}
{{- fail (printf "insecure: found true with tls.secretName %q, allowed is one of them" .Values.tls.secretName) }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElect) }}
{{- fail (printf "replicas: found %d without leaderElect, allowed is 1, as two sessions of one cluster would fight" (int .Values.replicas)) }}
{{- end }}
{{- end }}
