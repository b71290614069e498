{{/* The relay, as in the component of that name: a container of the gate's pod, and the ways to it. */}}
{{- define "tallygate.relay.container" -}}
- name: relay
  image: {{ include "tallygate.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
  - relay
  - --tls-cert=/etc/tallygate/tls/tls.crt
  - --tls-key=/etc/tallygate/tls/tls.key
  - --upstream=127.0.0.1:{{ .Values.relay.ports.upstream }}
  - --peers=tallygate.$(TALLYGATE_NAMESPACE).svc:443
  - --peers-ca-file=/etc/tallygate/authority/ca.crt
  - --monitor=0.0.0.0:{{ .Values.relay.ports.monitor }}
  - --drain-delay=5s # longer than the readiness probe takes to fail, so that no connection comes at the very end
  - --drain-timeout=10s # an API server waits for 5 s (timeoutSeconds)
  {{- if ne (int .Values.ports.https) 8443 }}
  - --listen=0.0.0.0:{{ .Values.ports.https }}
  {{- end }}
  env:
  - name: TALLYGATE_NAMESPACE # wherever it is installed
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  ports:
  - {name: https, containerPort: {{ .Values.ports.https }}}
  - {name: relay, containerPort: {{ .Values.relay.ports.monitor }}}
  startupProbe:
    httpGet: {path: /healthz, port: relay}
    periodSeconds: 1
    timeoutSeconds: 5
    failureThreshold: 120 # it waits for a certificate, which the gate may have to make first
  readinessProbe:
    httpGet: {path: /readyz, port: relay}
    periodSeconds: 2
    timeoutSeconds: 5
    failureThreshold: 2
  livenessProbe:
    httpGet: {path: /healthz, port: relay}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
  resources: {{- toYaml .Values.relay.resources | nindent 4 }}
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
  - {name: tls, mountPath: /etc/tallygate/tls, readOnly: true}
  - {name: authority, mountPath: /etc/tallygate/authority, readOnly: true}
  - {name: scratch, mountPath: /tmp}
  # An empty folder in place of the gate's token: the relay calls no API server.
  - {name: no-token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}

{{/* Change the fields of an object of files/ by which the relay is reached: `object`, `root`. */}}
{{- define "tallygate.relay.setFields" -}}
{{- $spec := .object.spec }}
{{- $kind := .object.kind }}
{{- if eq $kind "NetworkPolicy" }}
{{- $metrics := index $spec.ingress 1 }}
{{- $_ := set $metrics "ports" (append $metrics.ports (dict "port" "relay" "protocol" "TCP")) }}
{{- $_ := set $spec "egress" (concat $spec.egress (fromYamlArray (include "tallygate.relay.egress" .root))) }}
{{- else if and (eq $kind "Service") (eq .object.metadata.name "tallygate-metrics") }}
{{- $_ := set $spec "ports" (append $spec.ports (dict "name" "relay" "port" 9091 "targetPort" "relay")) }}
{{- else if eq $kind "ServiceMonitor" }}
{{- $interval := .root.Values.serviceMonitor.interval }}
{{- $_ := set $spec "endpoints" (append $spec.endpoints (dict "port" "relay" "interval" $interval)) }}
{{- end }}
{{- end }}

{{- define "tallygate.relay.egress" -}}
# Another replica, by the name of the Service: whichever of both ports the network plugin compares, 443 stands above.
- ports: [{port: {{ .Values.ports.https }}, protocol: TCP}]
  to:
  - podSelector: {matchLabels: {app.kubernetes.io/name: tallygate, app.kubernetes.io/component: gate}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- end }}
