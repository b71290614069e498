{{/* The labels by which the gate's pods are selected. A Deployment's selector cannot be changed, so these never change. */}}
{{- define "tallygate.selectorLabels" -}}
app.kubernetes.io/name: tallygate
app.kubernetes.io/component: gate
{{- end }}

{{/* The labels of the release, which every object has beside its name and its component. */}}
{{- define "tallygate.releaseLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimAll "-_." }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* All labels of an object of the component `gate`. */}}
{{- define "tallygate.labels" -}}
{{ include "tallygate.selectorLabels" . }}
{{ include "tallygate.releaseLabels" . }}
{{- end }}

{{/* An object as it is installed: with the labels of the release, and with the ServiceAccount in place of `tallygate`. */}}
{{- define "tallygate.object" -}}
{{- $object := .object }}
{{- $release := fromYaml (include "tallygate.releaseLabels" .root) }}
{{- $_ := set $object.metadata "labels" (merge $release ($object.metadata.labels | default dict)) }}
{{- $account := include "tallygate.serviceAccountName" .root }}
{{- $subjects := $object.subjects | default list }}
{{- if eq $object.kind "FlowSchema" }}
{{- range $object.spec.rules }}{{ $subjects = concat $subjects .subjects }}{{ end }}
{{- end }}
{{- range $subjects }}
{{- $subject := .serviceAccount | default . }}
{{- if and (eq .kind "ServiceAccount") (eq $subject.name "tallygate") }}{{ $_ := set $subject "name" $account }}{{ end }}
{{- end }}
{{- toYaml $object }}
{{- end }}

{{/* The number of replicas, by either of its two names. */}}
{{- define "tallygate.replicas" -}}
{{- .Values.replicaCount | default .Values.replicas }}
{{- end }}

{{- define "tallygate.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default "tallygate" }}
{{- end }}

{{- define "tallygate.image" -}}
{{- include "tallygate.imageName" (merge (dict "tag" (.Values.image.tag | default .Chart.AppVersion)) .Values.image) }}
{{- end }}

{{/* The name of an image: `repository`, `digest`, and `tag` without a digest. */}}
{{- define "tallygate.imageName" -}}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}

{{/* The text of a policy file: it is the value, or the value is one policy or a list of policies. */}}
{{- define "tallygate.policyText" -}}
{{- if kindIs "string" . }}{{ . }}
{{- else if kindIs "map" . }}{{ toYaml . }}
{{- else }}
{{- range . }}{{ printf "---\n%s\n" (toYaml .) }}{{ end }}
{{- end }}
{{- end }}

{{/* The file of receivers. */}}
{{- define "tallygate.notifyFile" -}}
{{- $file := dict "apiVersion" "tallygate.dev/v1alpha1" "kind" "NotifyConfig" "receivers" .Values.notify.receivers }}
{{- with .Values.notify.cluster }}{{ $_ := set $file "cluster" . }}{{ end }}
{{- toYaml $file }}
{{- end }}

{{/* Whether the gate calls the API server, and so has a token and rights. */}}
{{- define "tallygate.calls" -}}
{{- or (eq .Values.ledgers "kubernetes") (eq .Values.certificates "self-signed") }}
{{- end }}
