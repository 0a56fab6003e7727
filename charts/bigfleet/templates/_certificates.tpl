{{- /* Where certificates come from: none, secrets, cert-manager or job. What a value names is used; then what the cluster has. */ -}}
{{- define "bigfleet.tls.source" -}}
{{- $asked := toString .Values.certManager.enabled }}
{{- if .Values.insecure -}}
none
{{- else if eq $asked "true" -}}
cert-manager
{{- else if include "bigfleet.tls.named" . | fromYamlArray -}}
secrets
{{- else if eq $asked "false" -}}
job
{{- else if .Values.certManager.issuerRef.name -}}
cert-manager
{{- else if include "bigfleet.tls.made" . -}}
job
{{- else if and (.Capabilities.APIVersions.Has "cert-manager.io/v1/Certificate") (.Capabilities.APIVersions.Has "cert-manager.io/v1/Issuer") -}}
cert-manager
{{- else -}}
job
{{- end }}
{{- end }}

{{- /* The values that name certificates of somebody else, as a list. */ -}}
{{- define "bigfleet.tls.named" -}}
{{- $found := list }}
{{- if .Values.coordinator.tls.secretName }}{{ $found = append $found "coordinator.tls.secretName" }}{{ end }}
{{- if .Values.shard.tls.secretName }}{{ $found = append $found "shard.tls.secretName" }}{{ end }}
{{- if .Values.shard.tls.secretNamePattern }}{{ $found = append $found "shard.tls.secretNamePattern" }}{{ end }}
{{- if .Values.shard.tls.csi.enabled }}{{ $found = append $found "shard.tls.csi.enabled" }}{{ end }}
{{- if .Values.dashboard.tls.secretName }}{{ $found = append $found "dashboard.tls.secretName" }}{{ end }}
{{- toYaml $found }}
{{- end }}

{{- /* Whether the job made the authority before: a second one would cut off everything that trusts the first. */ -}}
{{- define "bigfleet.tls.made" -}}
{{- with lookup "v1" "Secret" (include "bigfleet.namespace" .) (include "bigfleet.tls.authority" .) }}
{{- if eq (dig "metadata" "labels" "app.kubernetes.io/managed-by" "" .) "bigfleet-certs" }}yes{{ end }}
{{- end }}
{{- end }}

{{- /* Whether the release signs by an authority in a Secret of its namespace. */ -}}
{{- define "bigfleet.tls.own" -}}
{{- $source := include "bigfleet.tls.source" . }}
{{- if or (eq $source "job") (and (eq $source "cert-manager") (not .Values.certManager.issuerRef.name)) }}yes{{ end }}
{{- end }}

{{- define "bigfleet.tls.authority" -}}
{{ .Values.certificates.authoritySecret | default (printf "%s-ca" .Values.nameOverride) }}
{{- end }}

{{- /* The chart's own issuer of cert-manager, and the Certificate of its authority. */ -}}
{{- define "bigfleet.tls.issuer" -}}
{{ .Values.nameOverride }}-ca
{{- end }}

{{- /* Every certificate that the release signs, as a list; empty where all are named. */ -}}
{{- define "bigfleet.tls.wanted" -}}
{{- $ns := include "bigfleet.namespace" . }}
{{- $found := list }}
{{- if has (include "bigfleet.tls.source" .) (list "cert-manager" "job") }}
{{- $name := include "bigfleet.coordinator" . }}
{{- if and .Values.coordinator.enabled (not .Values.coordinator.tls.secretName) }}
{{- $found = append $found (dict "component" "coordinator" "name" $name "secret" (include "bigfleet.coordinator.tls" .) "uri" "bigfleet://admin" "dns" (list (printf "%s.%s.svc" $name $ns) (printf "*.%s.%s.svc" $name $ns))) }}
{{- end }}
{{- if and .Values.shard.enabled (eq (include "bigfleet.shard.tls.mode" .) "pattern") }}
{{- $shard := include "bigfleet.shard" . }}
{{- range $ordinal := until (int .Values.shard.replicas) }}
{{- $pod := printf "%s-%d" $shard $ordinal }}
{{- $dns := list (printf "%s.%s.%s.svc" $pod (include "bigfleet.shard.headless" $) $ns) (printf "%s.%s.svc" $shard $ns) }}
{{- with $.Values.shard.external.hostnamePattern }}{{ $dns = append $dns (printf . $ordinal) }}{{ end }}
{{- $found = append $found (dict "component" "shard" "name" $pod "secret" (printf (include "bigfleet.shard.tls.pattern" $) $ordinal) "uri" (printf "bigfleet://shard/%s" $pod) "dns" $dns) }}
{{- end }}
{{- end }}
{{- $name = include "bigfleet.dashboard" . }}
{{- if and .Values.dashboard.enabled (not .Values.dashboard.tls.secretName) }}
{{- $found = append $found (dict "component" "dashboard" "name" $name "secret" (include "bigfleet.dashboard.tls" .) "uri" "bigfleet://readonly" "dns" (list (printf "%s.%s.svc" $name $ns))) }}
{{- end }}
{{- range .Values.certificates.clusters }}
{{- $name = printf "%s-operator-%s" $.Values.nameOverride . }}
{{- $found = append $found (dict "component" "certificates" "name" $name "secret" (printf "%s-tls" $name) "uri" (printf "bigfleet://cluster/%s" .) "dns" list) }}
{{- end }}
{{- range .Values.certificates.further }}
{{- $found = append $found (dict "component" "certificates" "name" .secret "secret" .secret "uri" .uri "dns" (.dnsNames | default list)) }}
{{- end }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{- /* The pod of the job that keeps certificates; takes root, account and makes, whether it may make the authority. */ -}}
{{- define "bigfleet.tls.jobPod" -}}
{{- $c := .root.Values.certificates -}}
restartPolicy: Never
{{ include "bigfleet.pod" (dict "root" .root "account" .account "values" (dict "terminationGracePeriodSeconds" 5)) }}
containers:
  - name: certs
    {{- include "bigfleet.container" .root | nindent 4 }}
    command: [bigfleet, certs, secrets]
    args:
      - --namespace={{ include "bigfleet.namespace" .root }}
      - --authority={{ include "bigfleet.tls.authority" .root }}
      - --make-authority={{ .makes }}
      - --days={{ int $c.days }}
      - --renew-before-days={{ int $c.renewBeforeDays }}
      {{- range include "bigfleet.tls.wanted" .root | fromYamlArray }}
      - {{ printf "--certificate=%s" (join " " (concat (list .secret .uri) .dns)) | quote }}
      {{- end }}
    resources:
      requests: {cpu: 50m, memory: 64Mi}
      limits: {memory: 256Mi}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
volumes:
  {{- include "bigfleet.tmp" .root | nindent 2 }}
{{- end }}

{{- /* Account, role and binding of that job; takes root, component, name, makes and annotations. */ -}}
{{- define "bigfleet.tls.jobRole" -}}
{{- $reads := list (include "bigfleet.tls.authority" .root) }}
{{- $writes := list }}
{{- range include "bigfleet.tls.wanted" .root | fromYamlArray }}{{ $writes = append $writes .secret }}{{ end }}
{{- if .makes }}{{ $writes = concat $reads $writes }}{{ $reads = list }}{{ end }}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "bigfleet.metadata" . | nindent 2 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "bigfleet.metadata" . | nindent 2 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
rules:
  # Creation can be allowed for single names, as the job creates by apply and not by POST.
  {{- with $writes }}
  - apiGroups: [""]
    resources: [secrets]
    resourceNames:
      {{- toYaml . | nindent 6 }}
    verbs: [get, create, patch]
  {{- end }}
  {{- with $reads }}
  - apiGroups: [""]
    resources: [secrets]
    resourceNames:
      {{- toYaml . | nindent 6 }}
    verbs: [get]
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "bigfleet.metadata" . | nindent 2 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .name }}
    namespace: {{ include "bigfleet.namespace" .root }}
{{- end }}
