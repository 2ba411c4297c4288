{{/* Common labels. They omit the chart version, so that an upgrade does not change every object. */}}
{{- define "cairn.labels" -}}
app.kubernetes.io/name: cairn
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Selector labels of a component; immutable in a Deployment. Call with (dict "root" $ "component" "operator"). */}}
{{- define "cairn.selector" -}}
app.kubernetes.io/name: cairn
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The image of a component. Call with (dict "root" $ "image" .Values.operator.image). */}}
{{- define "cairn.image" -}}
{{ .image.repository }}{{ if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The image pull secrets, each given by its name or as an object with it. */}}
{{- define "cairn.imagePullSecrets" -}}
{{- $secrets := list -}}
{{- range .Values.imagePullSecrets -}}
{{- $secrets = append $secrets (kindIs "map" . | ternary . (dict "name" .)) -}}
{{- end -}}
{{- if $secrets }}{{ toYaml $secrets }}{{ end -}}
{{- end }}

{{/* The path of NodeTopology manifests in the agent's container; empty if it discovers the hardware of its node. */}}
{{- define "cairn.agent.simulate" -}}
{{- if and .Values.agent.topologies .Values.agent.simulate -}}
{{- fail "agent.topologies and agent.simulate are mutually exclusive: set only one of them" -}}
{{- end -}}
{{- if .Values.agent.topologies -}}/etc/cairn/topologies{{- else -}}{{ .Values.agent.simulate }}{{- end -}}
{{- end }}

{{/* Fails if two groups of agents have one name, or one of several runs on every node: a node has one agent. */}}
{{- define "cairn.agent.checkGroups" -}}
{{- $names := list -}}
{{- range .Values.agent.groups -}}
{{- if has .name $names -}}
{{- fail (printf "agent.groups has two groups named %s: give each a name of its own" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- if and (gt (len $.Values.agent.groups) 1) (not .nodeSelector) (not .affinity) -}}
{{- fail (printf "agent.groups: group %s has neither nodeSelector nor affinity, and would run on the nodes of the other groups too: select its nodes" .name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Fails if agents have a variable or a volume twice: the API server keeps one of them, or refuses both. Call with their values. */}}
{{- define "cairn.agent.checkNames" -}}
{{- range $list := list "env" "volumes" -}}
{{- $names := list -}}
{{- range index $ $list -}}
{{- if has .name $names -}}
{{- fail (printf "agent.%s has %s twice: remove one" $list .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Not empty if agents read device allocations from the kubelet. */}}
{{- define "cairn.agent.podResources" -}}
{{- $described := include "cairn.agent.simulate" . -}}
{{- if or (eq .Values.agent.podResources "Enabled") (and (eq .Values.agent.podResources "Auto") (not $described)) -}}yes{{- end -}}
{{- end }}

{{/* Both programs run unprivileged with a read-only file system. The DaemonSet adds what an agent needs. */}}
{{- define "cairn.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/*
Annotations of a pod: the scrape annotations, unless there are PodMonitors, and the user's, which take precedence.
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
