{{/* Values that are each valid and contradict each other. An error names the value, the reason, and what is valid. */}}
{{- define "tallygate.check" -}}
{{- $replicas := int (include "tallygate.replicas" .) }}
{{- if not (has (int .Values.replicas) (list $replicas 2)) }}{{/* 2 is the default, and so may be nobody's choice */}}
{{- fail (printf "replicaCount: it is %d and replicas is %d, and both are the number of replicas; set one of them" $replicas (int .Values.replicas)) }}
{{- end }}
{{- if eq .Values.ledgers "memory" }}
{{- if gt $replicas 1 }}
{{- fail (printf "replicas: with ledgers=memory each of %d replicas would admit as much as a cap allows; set replicas=1, or ledgers=kubernetes" $replicas) }}
{{- end }}
{{- if (.Values.publishNodes).enabled }}
{{- fail "publishNodes.enabled: a gate with ledgers=memory does not watch the cluster; set ledgers=kubernetes, or publishNodes.enabled=false" }}
{{- end }}
{{- if eq (include "tallygate.profile" .) "available" }}
{{- fail "profile: a gate with ledgers=memory does not watch the cluster, so it keeps no backstop; set ledgers=kubernetes, or profile=strict" }}
{{- end }}
{{- if (.Values.notify).receivers }}
{{- fail "notify.receivers: a gate with ledgers=memory does not watch the cluster, and sends no messages; set ledgers=kubernetes, or no receivers" }}
{{- end }}
{{- if .Values.publishUsage }}
{{- fail "publishUsage: a gate with ledgers=memory does not watch the cluster; set ledgers=kubernetes, or publishUsage=false" }}
{{- end }}
{{- if (.Values.ask).enabled }}
{{- fail "ask.enabled: a gate with ledgers=memory does not watch the cluster, and publishes no address; set ledgers=kubernetes, or ask.enabled=false" }}
{{- end }}
{{- if (.Values.audit).enabled }}
{{- fail "audit.enabled: a gate with ledgers=memory does not watch the cluster; set ledgers=kubernetes, or audit.enabled=false" }}
{{- end }}
{{- end }}
{{- with (.Values.ask).proxy }}
{{- if and .names (not .caSecret) }}
{{- fail "ask.proxy.names: names count with a CA of front proxies alone; set ask.proxy.caSecret" }}
{{- end }}
{{- end }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.name: with serviceAccount.create=false the chart makes no ServiceAccount; set the name of one that exists" }}
{{- end }}
{{- if and (.Values.devicePlugin).enabled (not .Values.devicePlugin.config.resources) }}
{{- fail "devicePlugin.config.resources: a device plugin without a resource does nothing; set resources, or devicePlugin.enabled=false" }}
{{- end }}
{{- if .Values.logLevel }}
{{- range concat (.Values.extraArgs | default list) ((.Values.ask).extraArgs | default list) }}
{{- if hasPrefix "--log-level" . }}{{ fail (printf "logLevel: %s is among the arguments too; set one of them" .) }}{{ end }}
{{- end }}
{{- end }}
{{- include "tallygate.checkPolicies" . }}
{{- include "tallygate.checkRelay" . }}
{{- include "tallygate.checkPorts" . }}
{{- include "tallygate.checkNames" . }}
{{- end }}

{{/* Texts of policies, which the schema of the values does not look into; `tallygate lint` finds the rest. */}}
{{- define "tallygate.checkPolicies" -}}
{{- $kinds := list "ResourceRule" "NamespaceCap" "ImpliedRequest" "WorkloadKind" "NodeResource" "NodeShape" }}
{{- range $name, $text := .Values.policies }}
{{- if kindIs "string" $text }}
{{- range $number, $document := regexSplit "(?m)^---.*$" $text -1 }}
{{- $policy := fromYaml $document }}
{{- if and $policy (not (and (hasPrefix "tallygate.dev/" (toString $policy.apiVersion)) (has $policy.kind $kinds))) }}
{{- fail (printf "policies: document %d of %s is no policy: %s; check the file by `tallygate lint`" (add1 $number) $name ($policy.Error | default (printf "its kind is %v" $policy.kind))) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tallygate.checkRelay" -}}
{{- if and (.Values.relay).enabled (not (.Values.relay).image) }}
{{- fail "relay.image: these values, which are those of an older release, have no image of HAProxy; set it, or run helm upgrade with --reset-then-reuse-values" }}
{{- end }}
{{- end }}

{{- define "tallygate.checkPorts" -}}
{{- $ports := list (int .Values.ports.https) (int .Values.ports.monitor) }}
{{- if (.Values.relay).enabled }}{{ $ports = concat $ports (list (int .Values.relay.ports.upstream) (int .Values.relay.ports.monitor)) }}{{ end }}
{{- if ne (len $ports) (len (uniq $ports)) }}
{{- fail (printf "ports: %s are not all different; the containers of a pod share its ports, so set another" (join ", " $ports)) }}
{{- end }}
{{- end }}

{{/* Additions of a user that would replace what the chart needs. */}}
{{- define "tallygate.checkNames" -}}
{{- range $name, $_ := .Values.podLabels }}
{{- if or (hasPrefix "app.kubernetes.io/" $name) (eq $name "helm.sh/chart") }}
{{- fail (printf "podLabels: %s is a label of the chart; set labels with other names" $name) }}
{{- end }}
{{- end }}
{{- range .Values.extraVolumes }}
{{- if has .name (list "policies" "tls" "scratch" "token" "notify" "relay" "relay-configuration" "no-token") }}
{{- fail (printf "extraVolumes: %s is a volume of the chart; give yours another name" .name) }}
{{- end }}
{{- end }}
{{- range $name := list "checksum/relay" "checksum/notify" }}
{{- if hasKey ($.Values.podAnnotations | default dict) $name }}
{{- fail (printf "podAnnotations: %s is an annotation of the chart; set annotations with other names" $name) }}
{{- end }}
{{- end }}
{{- range .Values.extraEnv }}
{{- if eq .name "TALLYGATE_NAMESPACE" }}
{{- fail "extraEnv: TALLYGATE_NAMESPACE is set by the chart, to the namespace of the release; leave it out" }}
{{- end }}
{{- end }}
{{- end }}
