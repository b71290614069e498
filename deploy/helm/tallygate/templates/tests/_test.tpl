{{/* The metadata of an object of `helm test`: `root`, `name`, and `order` where it comes before others. */}}
{{- define "tallygate.test.metadata" -}}
name: {{ .name }}
labels:
  app.kubernetes.io/name: tallygate
  app.kubernetes.io/component: test
  {{- include "tallygate.releaseLabels" .root | nindent 2 }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
  {{- if .order }}
  helm.sh/hook-weight: {{ .order | quote }}
  {{- end }}
{{- end }}
