{{- /* Made by `make charts` from charts/generate; do not edit. */ -}}
{{- define "bigfleet.values.checks" -}}
{{- include "bigfleet.check.digest" (dict "name" "image.digest" "value" .Values.image.digest) }}
{{- include "bigfleet.check.name" (dict "name" "nameOverride" "value" .Values.nameOverride) }}
{{- include "bigfleet.check.duration" (dict "name" "coordinator.snapshotExport.interval" "value" .Values.coordinator.snapshotExport.interval) }}
{{- include "bigfleet.check.duration" (dict "name" "coordinator.rebalanceInterval" "value" .Values.coordinator.rebalanceInterval) }}
{{- include "bigfleet.check.duration" (dict "name" "coordinator.shutdownGrace" "value" .Values.coordinator.shutdownGrace) }}
{{- include "bigfleet.check.address" (dict "name" "shard.provider.addr" "value" .Values.shard.provider.addr) }}
{{- include "bigfleet.check.bytes" (dict "name" "shard.auditMaxBytes" "value" .Values.shard.auditMaxBytes) }}
{{- include "bigfleet.check.duration" (dict "name" "shard.cycleInterval" "value" .Values.shard.cycleInterval) }}
{{- include "bigfleet.check.duration" (dict "name" "shard.coordinatorHeartbeatInterval" "value" .Values.shard.coordinatorHeartbeatInterval) }}
{{- include "bigfleet.check.address" (dict "name" "shard.coordinatorAddress" "value" .Values.shard.coordinatorAddress) }}
{{- include "bigfleet.check.duration" (dict "name" "shard.shutdownGrace" "value" .Values.shard.shutdownGrace) }}
{{- include "bigfleet.check.pattern" (dict "name" "shard.tls.secretNamePattern" "value" .Values.shard.tls.secretNamePattern) }}
{{- include "bigfleet.check.pattern" (dict "name" "shard.external.hostnamePattern" "value" .Values.shard.external.hostnamePattern) }}
{{- include "bigfleet.check.duration" (dict "name" "certManager.duration" "value" .Values.certManager.duration) }}
{{- include "bigfleet.check.duration" (dict "name" "certManager.renewBefore" "value" .Values.certManager.renewBefore) }}
{{- include "bigfleet.check.duration" (dict "name" "podMonitor.interval" "value" .Values.podMonitor.interval) }}
{{- end }}
