{{- /* Made by `make charts` from charts/generate; do not edit. */ -}}
{{- define "bigfleet.values.checks" -}}
{{- include "bigfleet.check.duration" (dict "name" "resyncInterval" "value" .Values.resyncInterval) }}
{{- include "bigfleet.check.duration" (dict "name" "shutdownGrace" "value" .Values.shutdownGrace) }}
{{- include "bigfleet.check.digest" (dict "name" "image.digest" "value" .Values.image.digest) }}
{{- include "bigfleet.check.name" (dict "name" "nameOverride" "value" .Values.nameOverride) }}
{{- include "bigfleet.check.duration" (dict "name" "podMonitor.interval" "value" .Values.podMonitor.interval) }}
{{- end }}
