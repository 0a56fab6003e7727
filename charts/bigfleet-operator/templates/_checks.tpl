{{- /* Made by `make charts` from charts/generate; do not edit. */ -}}
{{- define "bigfleet.values.checks" -}}
{{- include "bigfleet.check.clusterID" (dict "name" "clusterID" "value" .Values.clusterID) }}
{{- include "bigfleet.check.needed.address" (dict "name" "shardAddress" "value" .Values.shardAddress) }}
{{- include "bigfleet.check.duration" (dict "name" "rollupInterval" "value" .Values.rollupInterval) }}
{{- include "bigfleet.check.duration" (dict "name" "cacheSyncTimeout" "value" .Values.cacheSyncTimeout) }}
{{- include "bigfleet.check.duration" (dict "name" "stuckAfter" "value" .Values.stuckAfter) }}
{{- include "bigfleet.check.duration" (dict "name" "shutdownGrace" "value" .Values.shutdownGrace) }}
{{- include "bigfleet.check.digest" (dict "name" "image.digest" "value" .Values.image.digest) }}
{{- include "bigfleet.check.name" (dict "name" "nameOverride" "value" .Values.nameOverride) }}
{{- include "bigfleet.check.duration" (dict "name" "podMonitor.interval" "value" .Values.podMonitor.interval) }}
{{- end }}
