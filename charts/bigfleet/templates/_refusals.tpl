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
{{- include "bigfleet.refusals.certificates" . }}
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
{{- $board := .Values.dashboard }}
{{- $entry := $board.ingress }}
{{- if and $board.enabled $entry.enabled (not (or $entry.tlsSecretName $entry.annotations .Values.insecure)) }}
{{- fail "dashboard.ingress.tlsSecretName: missing with dashboard.ingress.enabled, allowed is the Secret of the Ingress's certificate, or dashboard.ingress.annotations by which its controller gets one; without either the token would cross the network in plaintext, which needs insecure: true" }}
{{- end }}
{{- if not (or .Values.coordinator.enabled $shard.enabled .Values.dashboard.enabled) }}
{{- fail "coordinator.enabled, shard.enabled, dashboard.enabled: found all off, allowed is at least one of them on" }}
{{- end }}
{{- end }}

{{- /* What certificates need so that every part trusts every other. */ -}}
{{- define "bigfleet.refusals.certificates" -}}
{{- $c := .Values.certificates }}
{{- $source := include "bigfleet.tls.source" . }}
{{- $named := include "bigfleet.tls.named" . | fromYamlArray }}
{{- if and .Values.insecure (or $named (eq (toString .Values.certManager.enabled) "true") $c.clusters $c.further) }}
{{- $other := first (concat $named (list (ternary "certManager.enabled" "certificates" (eq (toString .Values.certManager.enabled) "true")))) }}
{{- fail (printf "insecure: found true with %s, allowed is one of them: insecure is without any certificate" $other) }}
{{- end }}
{{- if eq $source "secrets" }}
{{- $from := first $named }}
{{- $why := printf "missing with %s, allowed is a Secret for every part once one is named, as one authority must sign them all" $from }}
{{- if and .Values.coordinator.enabled (not .Values.coordinator.tls.secretName) }}{{ fail (printf "coordinator.tls.secretName: %s" $why) }}{{ end }}
{{- if and .Values.shard.enabled (not (or .Values.shard.tls.secretName .Values.shard.tls.secretNamePattern .Values.shard.tls.csi.enabled)) }}{{ fail (printf "shard.tls.secretName, shard.tls.secretNamePattern, shard.tls.csi.enabled: %s" $why) }}{{ end }}
{{- if and .Values.dashboard.enabled (not .Values.dashboard.tls.secretName) }}{{ fail (printf "dashboard.tls.secretName: %s" $why) }}{{ end }}
{{- if or $c.clusters $c.further }}{{ fail (printf "certificates.clusters, certificates.further: found with %s, allowed is without, as the chart then signs nothing" $from) }}{{ end }}
{{- end }}
{{- if and (eq $source "cert-manager") $named (not .Values.certManager.issuerRef.name) (not (deepEqual $named (list "shard.tls.secretNamePattern"))) }}
{{- fail (printf "certManager.issuerRef.name: missing with %s, allowed is the issuer whose authority signed that Secret too" (first $named)) }}
{{- end }}
{{- if and $c.authoritySecret .Values.certManager.issuerRef.name }}
{{- fail "certificates.authoritySecret: found with certManager.issuerRef.name, allowed is one of them" }}
{{- end }}
{{- if and .Values.shard.coordinatorAddress (not .Values.coordinator.enabled) (include "bigfleet.tls.own" .) (not $c.authoritySecret) }}
{{- fail "shard.coordinatorAddress: found with an authority that this release makes and a coordinator elsewhere does not know; allowed is with certificates.authoritySecret, certManager.issuerRef.name, Secrets of your own or insecure: true" }}
{{- end }}
{{- if and (eq $source "job") (not .Values.rbac.create) (or .Values.serviceAccount.create (not .Values.serviceAccount.name)) }}
{{- fail "rbac.create: found false, allowed is with serviceAccount.create false and serviceAccount.name, an account that may get, create and patch the Secrets of the certificates; or certificates by cert-manager or in Secrets of your own" }}
{{- end }}
{{- if ge (int $c.renewBeforeDays) (int $c.days) }}
{{- fail (printf "certificates.renewBeforeDays: found %d, allowed is less than certificates.days, %d" (int $c.renewBeforeDays) (int $c.days)) }}
{{- end }}
{{- range $number, $id := $c.clusters }}
{{- if not (regexMatch "^[a-z0-9]([a-z0-9.-]{0,198}[a-z0-9])?$" $id) }}
{{- fail (printf "certificates.clusters[%d]: found %q, allowed are ids that can be part of a Secret's name: up to 200 small letters, digits and the characters . -; for others use certificates.further" $number $id) }}
{{- end }}
{{- end }}
{{- range $number, $given := $c.further }}
{{- if not (regexMatch "^bigfleet://((cluster|shard)/[A-Za-z0-9._-]+|admin|readonly)$" $given.uri) }}
{{- fail (printf "certificates.further[%d].uri: found %q, allowed is bigfleet://cluster/ID, bigfleet://shard/ID, bigfleet://admin or bigfleet://readonly" $number $given.uri) }}
{{- end }}
{{- end }}
{{- if and .Release.IsUpgrade (eq (toString .Values.certManager.enabled) "auto") (has $source (list "job" "cert-manager")) }}
{{- range list (include "bigfleet.coordinator" .) (include "bigfleet.shard" .) }}
{{- with lookup "apps/v1" "StatefulSet" (include "bigfleet.namespace" $) . }}
{{- if not (contains "--tls-cert=" (toJson .spec.template.spec.containers)) }}
{{- fail (printf "insecure: %s runs without TLS, and an upgrade to TLS shuts out operators and providers that have no certificate yet; allowed is insecure: true to leave it so, or certManager.enabled true or false to change now" .metadata.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
