{{/* Which of the generated files of files/ belong to what was chosen: the same files as kustomize's components have. */}}
{{- define "tallygate.parts" -}}
{{- $parts := list "quota" "service" }}
{{- if ne .Values.size "standalone" }}{{ $parts = concat $parts (list "crd" "cluster-access-rbac") }}{{ end }}
{{- if eq .Values.size "ha" }}{{ $parts = append $parts "disruption" }}{{ end }}
{{- if eq .Values.certificates "self-signed" }}{{ $parts = append $parts "self-signed-rbac" }}{{ end }}
{{- if eq .Values.certificates "cert-manager" }}{{ $parts = append $parts "cert-manager" }}{{ end }}
{{- if .Values.auditInterval }}
{{- if eq .Values.size "standalone" }}{{ fail "auditInterval: only a gate that follows the cluster audits it; set size to cluster or ha" }}{{ end }}
{{- $parts = append $parts "audit-rbac" }}
{{- end }}
{{- if .Values.network }}{{ $parts = append $parts "network" }}{{ end }}
{{- if .Values.flowControl }}{{ $parts = append $parts "flow-control" }}{{ end }}
{{- if .Values.monitoring }}{{ $parts = concat $parts (list "metrics-service" "servicemonitor" "prometheusrule") }}{{ end }}
{{- join " " $parts }}
{{- end }}

{{/* Whether the gate calls the API server, and so has a token and rights. */}}
{{- define "tallygate.calls" -}}
{{- or (ne .Values.size "standalone") (eq .Values.certificates "self-signed") }}
{{- end }}

{{- define "tallygate.labels" -}}
app.kubernetes.io/name: tallygate
app.kubernetes.io/component: gate
{{- end }}

{{- define "tallygate.image" -}}
{{- with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}{{ end }}
{{- end }}
