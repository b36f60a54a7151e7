{{- define "flotilla.tag" -}}
{{ or .Values.image.tag .Chart.AppVersion }}
{{- end }}

{{- define "flotilla.historyNamespace" -}}
{{ or .Values.historyNamespace .Release.Namespace }}
{{- end }}

{{- define "flotilla.podSettings" -}}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "flotilla.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "flotilla.ownNamespace" -}}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}

{{- define "flotilla.observers" -}}
- podSelector: {}
{{- range .Values.networkPolicies.monitoringNamespaces }}
- namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: {{ . }}
{{- end }}
{{- end }}

{{- define "flotilla.egress" -}}
# Names.
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
# The API server, whose address cannot be selected.
- ports:
    {{- range .Values.networkPolicies.apiServerPorts }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}

