{{- /* Copied into every chart by `make charts` from charts/generate/shared.tpl; do not edit the copies. */ -}}

{{- define "bigfleet.namespace" -}}
{{ .Values.namespace | default .Release.Namespace }}
{{- end }}

{{- define "bigfleet.account" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default .Values.nameOverride }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- define "bigfleet.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default (printf "v%s" .Chart.AppVersion) }}{{ end }}
{{- end }}

{{- /* Labels of an object; takes root and component. */ -}}
{{- define "bigfleet.labels" -}}
{{ include "bigfleet.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | quote }}
{{- end }}

{{- define "bigfleet.selector" -}}
app.kubernetes.io/name: {{ .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* Name, namespace and labels of an object; takes root, component and name. */ -}}
{{- define "bigfleet.metadata" -}}
name: {{ .name }}
namespace: {{ include "bigfleet.namespace" .root }}
labels:
  {{- include "bigfleet.labels" . | nindent 2 }}
  {{- with .labels }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}

{{- /* What every pod has at its top; takes root and values (the component's own), and an account unless it is the usual one. */ -}}
{{- define "bigfleet.pod" -}}
serviceAccountName: {{ .account | default (include "bigfleet.account" .root) }}
terminationGracePeriodSeconds: {{ int .values.terminationGracePeriodSeconds }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "bigfleet.container" -}}
image: {{ include "bigfleet.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- end }}

{{- /* HTTP also under mutual TLS: the kubelet has no certificate to show. */ -}}
{{- define "bigfleet.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 3
{{- end }}

{{- define "bigfleet.podName" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- end }}

{{- define "bigfleet.tmp" -}}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- end }}

{{- /* Keeps pods apart; takes root, component, values with affinity and spread. */ -}}
{{- define "bigfleet.spread" -}}
{{- $terms := list }}
{{- $selector := include "bigfleet.selector" . | fromYaml }}
{{- if .values.affinity }}
affinity:
  {{- toYaml .values.affinity | nindent 2 }}
{{- else if eq .values.spread.hostname "required" }}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- toYaml $selector | nindent 12 }}
{{- else if eq .values.spread.hostname "preferred" }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- toYaml $selector | nindent 14 }}
{{- end }}
{{- if ne .values.spread.zone "none" }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: {{ ternary "DoNotSchedule" "ScheduleAnyway" (eq .values.spread.zone "required") }}
    labelSelector:
      matchLabels:
        {{- toYaml $selector | nindent 8 }}
{{- end }}
{{- end }}

{{- /* The three TLS flags; takes the directory. */ -}}
{{- define "bigfleet.tlsFlags" -}}
- --tls-cert={{ . }}/tls.crt
- --tls-key={{ . }}/tls.key
- --tls-ca={{ . }}/ca.crt
{{- end }}

{{- /* Scrapes one component; takes root and component. The labels component and pod are what rules and boards rely on. */ -}}
{{- define "bigfleet.podMonitor" -}}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  {{- include "bigfleet.metadata" (dict "root" .root "component" .component "name" .name "labels" .root.Values.podMonitor.labels) | nindent 2 }}
spec:
  selector:
    matchLabels:
      {{- include "bigfleet.selector" . | nindent 6 }}
  namespaceSelector:
    matchNames:
      - {{ include "bigfleet.namespace" .root }}
  podMetricsEndpoints:
    - port: metrics
      interval: {{ .root.Values.podMonitor.interval }}
      relabelings:
        - action: replace
          targetLabel: component
          replacement: {{ .component }}
        - action: replace
          sourceLabels: [__meta_kubernetes_pod_name]
          targetLabel: pod
{{- end }}

{{- /* Alerts of the groups named; takes root, component, name and groups. */ -}}
{{- define "bigfleet.prometheusRule" -}}
{{- $rules := .root.Values.prometheusRule }}
{{- $wanted := .groups }}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  {{- include "bigfleet.metadata" (dict "root" .root "component" .component "name" .name "labels" $rules.labels) | nindent 2 }}
spec:
  groups:
    {{- range (.root.Files.Get "files/rules.yaml" | fromYaml).groups }}
    {{- if has .name $wanted }}
    {{- $kept := list }}
    {{- range .rules }}
    {{- if not (has .alert $rules.disabled) }}
    {{- $page := printf "%s/%s/" (trimSuffix "/" $rules.runbookBaseUrl) (trimPrefix "BigFleet" .alert) }}
    {{- $kept = append $kept (merge (dict "annotations" (merge (dict "runbook_url" $page) .annotations)) .) }}
    {{- end }}
    {{- end }}
    {{- if $kept }}
    - name: {{ .name }}
      rules:
        {{- toYaml $kept | nindent 8 }}
    {{- end }}
    {{- end }}
    {{- end }}
{{- end }}

{{- define "bigfleet.egress.dns" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end }}

{{- /* One ingress rule; takes port, and from, a list of peers, or everybody. Without a peer there is no rule, as one would open the port. */ -}}
{{- define "bigfleet.ingress" -}}
{{- if or .from .everybody -}}
- ports:
    - port: {{ int .port }}
      protocol: TCP
  {{- if not .everybody }}
  from:
    {{- toYaml .from | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* Checks with a sentence; each takes name and value. An empty value is for the chart to judge, unless it is needed. */ -}}
{{- define "bigfleet.check.duration" -}}
{{- if not (regexMatch "^(0|(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|ms|s|m|h))+)$" .value) }}
{{- fail (printf "%s: found %q, allowed is a duration such as 100ms, 10s, 5m, 1h30m or 0" .name .value) }}
{{- end }}
{{- end }}

{{- define "bigfleet.check.bytes" -}}
{{- if not (regexMatch "^[0-9]+ ?(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)?$" .value) }}
{{- fail (printf "%s: found %q, allowed is a number of bytes such as 65536, 64KiB or 100MiB" .name .value) }}
{{- end }}
{{- end }}

{{- define "bigfleet.check.address" -}}
{{- if and .value (not (regexMatch "^([^\\s:/]+|\\[[0-9a-fA-F:.]+\\]):[0-9]{1,5}$" .value)) }}
{{- fail (printf "%s: found %q, allowed is host:port or [ipv6]:port" .name .value) }}
{{- end }}
{{- end }}

{{- define "bigfleet.check.needed.address" -}}
{{- if not .value }}
{{- fail (printf "%s: missing, allowed is host:port of the shard that serves this cluster; set it with --set %s=bigfleet-shard-0.example.org:7780" .name .name) }}
{{- end }}
{{- include "bigfleet.check.address" . }}
{{- end }}

{{- define "bigfleet.check.clusterID" -}}
{{- if not .value }}
{{- fail (printf "%s: missing, allowed is the stable id of this cluster; set it with --set %s=prod-1" .name .name) }}
{{- end }}
{{- if not (regexMatch "^[A-Za-z0-9._-]{1,253}$" .value) }}
{{- fail (printf "%s: found %q, allowed are up to 253 letters, digits and the characters . _ -" .name .value) }}
{{- end }}
{{- end }}

{{- define "bigfleet.check.digest" -}}
{{- if and .value (not (regexMatch "^sha256:[0-9a-f]{64}$" .value)) }}
{{- fail (printf "%s: found %q, allowed is sha256: and 64 hexadecimal digits, or nothing" .name .value) }}
{{- end }}
{{- end }}

{{- define "bigfleet.check.name" -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$" .value) }}
{{- fail (printf "%s: found %q, allowed are up to 40 small letters, digits and hyphens, beginning with a letter" .name .value) }}
{{- end }}
{{- end }}

{{- define "bigfleet.check.pattern" -}}
{{- if and .value (ne (len (splitList "%d" .value)) 2) }}
{{- fail (printf "%s: found %q, allowed is a text with %%d once, where the ordinal of the shard goes" .name .value) }}
{{- end }}
{{- end }}
