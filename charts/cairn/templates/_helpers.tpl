{{/* Labels of everything; the chart's version is not among them, so that an upgrade changes only what is different. */}}
{{- define "cairn.labels" -}}
app.kubernetes.io/name: cairn
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What selects the pods of a component; immutable in a Deployment. Call with (dict "root" $ "component" "operator"). */}}
{{- define "cairn.selector" -}}
app.kubernetes.io/name: cairn
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The image of a component. Call with (dict "root" $ "image" .Values.operator.image). */}}
{{- define "cairn.image" -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* Where the agent reads its machines; empty when it looks at the hardware of its node. */}}
{{- define "cairn.agent.simulate" -}}
{{- if and .Values.agent.topologies .Values.agent.simulate -}}
{{- fail "agent.topologies and agent.simulate both say where machines are described; set one of them" -}}
{{- end -}}
{{- if .Values.agent.topologies -}}/etc/cairn/topologies{{- else -}}{{ .Values.agent.simulate }}{{- end -}}
{{- end }}

{{/* Not empty when agents ask the kubelet who holds what. */}}
{{- define "cairn.agent.podResources" -}}
{{- $described := include "cairn.agent.simulate" . -}}
{{- if or (eq .Values.agent.podResources "Enabled") (and (eq .Values.agent.podResources "Auto") (not $described)) -}}yes{{- end -}}
{{- end }}

{{/* Neither program writes a file, or becomes anybody else. What an agent needs beyond that is in its DaemonSet. */}}
{{- define "cairn.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- define "cairn.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/*
Annotations of a pod: those that say where to scrape, unless PodMonitors do, and the user's, which win.
Call with (dict "root" $ "port" "9101" "annotations" .Values.agent.podAnnotations).
*/}}
{{- define "cairn.podAnnotations" -}}
{{- $scrape := dict -}}
{{- if not .root.Values.metrics.podMonitor.create -}}
{{- $scrape = dict "prometheus.io/scrape" "true" "prometheus.io/port" .port "prometheus.io/path" "/metrics" -}}
{{- end -}}
{{- with merge (dict) (.annotations | default dict) $scrape -}}
{{- toYaml . -}}
{{- end -}}
{{- end }}
