{{/* The files of files/ that the values select: they are copies of files of kustomize's components. */}}
{{- define "tallygate.parts" -}}
{{- $parts := list "service" }}
{{- if hasPrefix "system-" .Values.priorityClassName }}{{ $parts = prepend $parts "quota" }}{{ end }}
{{- if eq .Values.ledgers "kubernetes" }}{{ $parts = concat $parts (list "crd" "cluster-access-rbac") }}{{ end }}
{{- if gt (int (include "tallygate.replicas" .)) 1 }}{{ $parts = append $parts "disruption" }}{{ end }}
{{- if eq .Values.certificates "self-signed" }}{{ $parts = append $parts "self-signed-rbac" }}{{ end }}
{{- if eq .Values.certificates "cert-manager" }}{{ $parts = append $parts "cert-manager" }}{{ end }}
{{- if (.Values.audit).enabled }}{{ $parts = append $parts "audit-rbac" }}{{ end }}
{{- if (.Values.publishNodes).enabled }}{{ $parts = append $parts "publish-nodes-rbac" }}{{ end }}
{{- if eq (include "tallygate.profile" .) "available" }}{{ $parts = append $parts "backstop-rbac" }}{{ end }}
{{- if .Values.publishUsage }}{{ $parts = concat $parts (list "publish-usage-crd" "publish-usage-rbac" "view-rbac") }}{{ end }}
{{- if (.Values.ask).enabled }}
{{- $parts = concat $parts (list "ask-serviceaccount" "ask-rbac" "ask-address" "ask-address-rbac" "ask-service" "ask-deployment") }}
{{- if (.Values.networkPolicy).enabled }}{{ $parts = append $parts "ask-network" }}{{ end }}
{{- end }}
{{- if (.Values.networkPolicy).enabled }}{{ $parts = append $parts "network" }}{{ end }}
{{- if (.Values.flowControl).enabled }}{{ $parts = append $parts "flow-control" }}{{ end }}
{{- if (.Values.serviceMonitor).enabled }}{{ $parts = concat $parts (list "metrics-service" "servicemonitor") }}{{ end }}
{{- if (.Values.prometheusRule).enabled }}{{ $parts = append $parts "prometheusrule" }}{{ end }}
{{- join " " $parts }}
{{- end }}

{{/* The profile; values of an older release have none. */}}
{{- define "tallygate.profile" -}}
{{- .Values.profile | default "strict" }}
{{- end }}

{{- define "tallygate.failurePolicy" -}}
{{- .Values.failurePolicy | default (eq (include "tallygate.profile" .) "available" | ternary "Ignore" "Fail") }}
{{- end }}

{{/* Change the fields of an object of files/ that values set: `object`, `root`. */}}
{{- define "tallygate.setFields" -}}
{{- $object := .object }}
{{- $values := .root.Values }}
{{- if eq $object.metadata.name "tallygate-ask" }}
{{- include "tallygate.setAskFields" . }}
{{- else if and (eq $object.kind "Certificate") (eq $object.metadata.name "tallygate") ($values.ask).enabled }}
{{- $service := printf "tallygate-ask.%s.svc" .root.Release.Namespace }}
{{- $_ := set $object.spec "dnsNames" (concat $object.spec.dnsNames (list $service (printf "%s.cluster.local" $service))) }}
{{- else if eq $object.kind "NetworkPolicy" }}
{{- $reviews := first $object.spec.ingress }}
{{- with $values.networkPolicy.reviewsFrom }}{{ $_ := set $reviews "from" . }}{{ end }}
{{- $metrics := last $object.spec.ingress }}
{{- $_ := set $metrics "from" (concat $values.networkPolicy.metricsFrom (rest $metrics.from)) }}
{{- include "tallygate.setEgress" . }}
{{- if ($values.notify).receivers }}
{{- $ports := list (dict "port" 53 "protocol" "UDP") (dict "port" 53 "protocol" "TCP") }}
{{- range $values.notify.ports }}{{ $ports = append $ports (dict "port" . "protocol" "TCP") }}{{ end }}
{{- $_ := set $object.spec "egress" (append $object.spec.egress (dict "ports" $ports)) }}
{{- end }}
{{- else if eq $object.kind "ResourceQuota" }}
{{- $_ := set (first $object.spec.scopeSelector.matchExpressions) "values" (list $values.priorityClassName) }}
{{- else if and (eq $object.metadata.name "tallygate-view") (eq (toString $values.aggregateToView) "false") }}
{{- $_ := unset $object.metadata.labels "rbac.authorization.k8s.io/aggregate-to-view" }}
{{- else if eq $object.kind "ServiceMonitor" }}
{{- $_ := set $object.metadata "labels" (merge (deepCopy $values.serviceMonitor.labels) $object.metadata.labels) }}
{{- $_ := set (first $object.spec.endpoints) "interval" $values.serviceMonitor.interval }}
{{- else if eq $object.kind "PrometheusRule" }}
{{- $_ := set $object.metadata "labels" (merge (deepCopy $values.prometheusRule.labels) $object.metadata.labels) }}
{{- end }}
{{- end }}

{{- define "tallygate.setEgress" -}}
{{- $ports := list }}
{{- range .root.Values.networkPolicy.apiServerPorts }}{{ $ports = append $ports (dict "port" . "protocol" "TCP") }}{{ end }}
{{- $_ := set (first .object.spec.egress) "ports" $ports }}
{{- end }}

{{/* The same for the objects of the server of asks that have its name. */}}
{{- define "tallygate.setAskFields" -}}
{{- $object := .object }}
{{- $values := .root.Values }}
{{- $ask := $values.ask }}
{{- if eq $object.kind "NetworkPolicy" }}
{{- include "tallygate.setEgress" . }}
{{- else if eq $object.kind "Service" }}
{{- with $ask.service.type }}{{ $_ := set $object.spec "type" . }}{{ end }}
{{- with $ask.service.annotations }}{{ $_ := set $object.metadata "annotations" . }}{{ end }}
{{- else if eq $object.kind "Deployment" }}
{{- $pod := $object.spec.template.spec }}
{{- $container := first $pod.containers }}
{{- $_ := set $object.spec "replicas" $ask.replicas }}
{{- $release := fromYaml (include "tallygate.releaseLabels" .root) }}
{{- $_ := set $object.spec.template.metadata "labels" (merge $release $object.spec.template.metadata.labels) }}
{{- range $name := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with index $ask $name }}{{ $_ := set $pod $name . }}{{ end }}
{{- end }}
{{- with $values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- $_ := set $pod "securityContext" $values.podSecurityContext }}
{{- $_ := set $container "securityContext" $values.securityContext }}
{{- $_ := set $container "image" (include "tallygate.image" .root) }}
{{- $_ := set $container "imagePullPolicy" $values.image.pullPolicy }}
{{- $_ := set $container "resources" $ask.resources }}
{{- if $ask.page }}{{ $_ := set $container "args" (append $container.args "--page=on") }}{{ end }}
{{- with $ask.proxy.caSecret }}
{{- $args := list "--proxy-ca-file=/etc/tallygate/proxy-ca/ca.crt" }}
{{- range $ask.proxy.names }}{{ $args = append $args (printf "--proxy-names=%s" .) }}{{ end }}
{{- if $ask.proxy.groupLists }}{{ $args = append $args "--proxy-group-lists=on" }}{{ end }}
{{- $_ := set $container "args" (concat $container.args $args) }}
{{- $mount := dict "name" "proxy-ca" "mountPath" "/etc/tallygate/proxy-ca" "readOnly" true }}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts $mount) }}
{{- $items := list (dict "key" "ca.crt" "path" "ca.crt") }}
{{- $volume := dict "name" "proxy-ca" "secret" (dict "secretName" . "items" $items) }}
{{- $_ := set $pod "volumes" (append $pod.volumes $volume) }}
{{- end }}
{{- with $values.logLevel }}{{ $_ := set $container "args" (append $container.args (printf "--log-level=%s" .)) }}{{ end }}
{{- $_ := set $container "args" (concat $container.args $ask.extraArgs) }}
{{- end }}
{{- end }}
