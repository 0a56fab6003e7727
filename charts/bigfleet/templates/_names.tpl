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
{{- if .Values.certManager.enabled -}}
{{ include "bigfleet.coordinator" . }}-tls
{{- else -}}
{{ .Values.coordinator.tls.secretName }}
{{- end }}
{{- end }}

{{- /* How shards get their certificates: csi, pattern, secret, or nothing for plaintext. */ -}}
{{- define "bigfleet.shard.tls.mode" -}}
{{- if .Values.shard.tls.csi.enabled -}}
csi
{{- else if or .Values.certManager.enabled .Values.shard.tls.secretNamePattern -}}
pattern
{{- else if .Values.shard.tls.secretName -}}
secret
{{- end }}
{{- end }}

{{- define "bigfleet.shard.tls.pattern" -}}
{{- if and .Values.certManager.enabled (not .Values.shard.tls.secretNamePattern) -}}
{{ include "bigfleet.shard" . }}-%d-tls
{{- else -}}
{{ .Values.shard.tls.secretNamePattern }}
{{- end }}
{{- end }}

{{- define "bigfleet.dashboard.tls" -}}
{{- if .Values.certManager.enabled -}}
{{ include "bigfleet.dashboard" . }}-tls
{{- else -}}
{{ .Values.dashboard.tls.secretName }}
{{- end }}
{{- end }}

{{- /* Whether shards differ in more than their name, so that each needs a file of its own. */ -}}
{{- define "bigfleet.shard.files" -}}
{{- if or .Values.shard.providerAddrs .Values.shard.external.hostnamePattern }}yes{{ end }}
{{- end }}

{{- /* Values that contradict each other; called once. */ -}}
{{- define "bigfleet.refusals" -}}
{{- include "bigfleet.values.checks" . }}
{{- $shard := .Values.shard }}
{{- $count := int $shard.replicas }}
{{- if and $shard.tls.secretName (gt $count 1) }}
{{- fail (printf "shard.tls.secretName: found %q with shard.replicas %d, allowed is one shard only, as a certificate names its shard; for more set shard.tls.secretNamePattern, shard.tls.csi.enabled or certManager.enabled" $shard.tls.secretName $count) }}
{{- end }}
{{- if and $shard.tls.secretName $shard.tls.secretNamePattern }}
{{- fail "shard.tls.secretName, shard.tls.secretNamePattern: found both, allowed is one of them" }}
{{- end }}
{{- if and $shard.tls.csi.enabled (not $shard.tls.csi.issuerName) }}
{{- fail "shard.tls.csi.issuerName: missing, allowed is the issuer that the CSI driver asks" }}
{{- end }}
{{- if and .Values.certManager.enabled (not .Values.certManager.issuerRef.name) }}
{{- fail "certManager.issuerRef.name: missing, allowed is the issuer of the Certificates" }}
{{- end }}
{{- with $shard.providerAddrs }}
{{- if ne (len .) $count }}
{{- fail (printf "shard.providerAddrs: found %d, allowed are as many as shard.replicas, %d" (len .) $count) }}
{{- end }}
{{- range $number, $given := . }}
{{- include "bigfleet.check.address" (dict "name" (printf "shard.providerAddrs[%d]" $number) "value" $given) }}
{{- end }}
{{- end }}
{{- if and $shard.enabled $shard.coordinatorAddress .Values.coordinator.enabled }}
{{- fail "shard.coordinatorAddress: found with coordinator.enabled, allowed is one of them: shards report to one coordinator" }}
{{- end }}
{{- if and $shard.external.hostnamePattern (not $shard.external.enabled) }}
{{- fail "shard.external.hostnamePattern: found without shard.external.enabled, allowed is together with it" }}
{{- end }}
{{- if and .Values.coordinator.enabled $shard.enabled (ne (empty (include "bigfleet.coordinator.tls" .)) (empty (include "bigfleet.shard.tls.mode" .))) }}
{{- fail "coordinator.tls, shard.tls: found certificates for one of them, allowed is both or none, as they speak to each other" }}
{{- end }}
{{- $board := .Values.dashboard }}
{{- if and $board.enabled $board.ingress.enabled (not $board.tokenSecret) }}
{{- fail "dashboard.ingress.enabled: found without dashboard.tokenSecret, allowed is with one, as an Ingress opens the fleet to everybody who reaches it" }}
{{- end }}
{{- if not (or .Values.coordinator.enabled $shard.enabled $board.enabled) }}
{{- fail "coordinator.enabled, shard.enabled, dashboard.enabled: found all off, allowed is at least one of them on" }}
{{- end }}
{{- end }}
