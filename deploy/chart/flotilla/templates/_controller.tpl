{{- /*
What components have in common, by a dict: root, the name of the component, and its values. The budget is that of all components, the rest that of
controllers of workloads.
*/ -}}

{{- define "flotilla.controllerDeployment" -}}
# One works, the other stands by.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: {{ .name }}
    app.kubernetes.io/part-of: flotilla
spec:
  replicas: {{ .values.replicas }}
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .name }}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {{ .name }}
        app.kubernetes.io/part-of: flotilla
      annotations:
        kubectl.kubernetes.io/default-container: {{ .name }}
    spec:
      serviceAccountName: {{ .name }}
      {{- include "flotilla.podSettings" .root | nindent 6 }}
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels:
                    app.kubernetes.io/name: {{ .name }}
      containers:
        - name: {{ .name }}
          image: {{ .root.Values.image.registry }}/{{ .name }}:{{ include "flotilla.tag" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          ports:
            - {name: metrics, containerPort: 8080}
            - {name: health, containerPort: 8081}
          readinessProbe:
            httpGet: {path: /readyz, port: health}
          livenessProbe:
            httpGet: {path: /livez, port: health}
            timeoutSeconds: 5
            failureThreshold: 6
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          securityContext:
            {{- include "flotilla.containerSecurity" .root | nindent 12 }}
{{- end }}

{{- define "flotilla.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: {{ .name }}
    app.kubernetes.io/part-of: flotilla
spec:
  maxUnavailable: 1
  # A replica that does not work anyway must not keep a node from being drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .name }}
{{- end }}

{{- define "flotilla.controllerNetworkPolicy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: {{ .name }}
    app.kubernetes.io/part-of: flotilla
spec:
  podSelector:
    matchLabels:
      app.kubernetes.io/name: {{ .name }}
  policyTypes: [Ingress, Egress]
  ingress:
    - from:
        {{- include "flotilla.observers" .root | nindent 8 }}
      ports:
        - {protocol: TCP, port: 8080}
        - {protocol: TCP, port: 8081}
  egress:
    {{- include "flotilla.egress" .root | nindent 4 }}
{{- end }}
