{{/* The relay, as in the component of that name: HAProxy in a container of the gate's pod, and the ways to it. */}}
{{- define "tallygate.relay.container" -}}
- name: relay
  image: {{ include "tallygate.imageName" .Values.relay.image }}
  imagePullPolicy: {{ .Values.relay.image.pullPolicy }}
  # HAProxy reads its certificates when it starts. The gate writes them, ca.pem last.
  command:
  - sh
  - -c
  - trap "exit 0" TERM USR1; until [ -s /run/relay/ca.pem ]; do sleep 0.1; done; exec haproxy -db -f /etc/relay/haproxy.cfg
  env:
  - name: TALLYGATE_NAMESPACE # wherever it is installed
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  - {name: RELAY_LISTEN, value: 0.0.0.0:{{ .Values.ports.https }}}
  - {name: RELAY_MONITOR, value: 0.0.0.0:{{ .Values.relay.ports.monitor }}}
  - {name: RELAY_FOLDER, value: /run/relay}
  - {name: RELAY_GATE, value: 127.0.0.1:{{ .Values.relay.ports.upstream }}}
  - {name: RELAY_GATE_MONITOR, value: {{ .Values.ports.monitor | quote }}}
  - {name: RELAY_PEERS, value: tallygate.$(TALLYGATE_NAMESPACE).svc:443}
  - {name: RELAY_PEERS_NAME, value: tallygate.$(TALLYGATE_NAMESPACE).svc}
  ports:
  - {name: https, containerPort: {{ .Values.ports.https }}}
  - {name: relay, containerPort: {{ .Values.relay.ports.monitor }}}
  lifecycle:
    # Longer than it takes until no API server is sent here any more, so that no connection comes at the very end.
    preStop: {exec: {command: [sleep, "5"]}}
  startupProbe:
    httpGet: {path: /healthz, port: relay}
    periodSeconds: 1
    timeoutSeconds: 5
    failureThreshold: 120 # it waits for a certificate, which the gate may have to make first
  readinessProbe:
    httpGet: {path: /healthz, port: relay}
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
  - {name: relay-configuration, mountPath: /etc/relay, readOnly: true}
  - {name: relay, mountPath: /run/relay}
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
