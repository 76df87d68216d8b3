{{- /* Generated from the objects of `pykueue manifests`: make chart. */ -}}
{{- define "pykueue.defaults" -}}
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: {{ .Release.Namespace }}
health:
  healthProbeBindAddress: :8081
metrics:
  bindAddress: :8443
webhook:
  port: 9443
leaderElection:
  leaderElect: true
  resourceName: c1f6bfd2.kueue.x-k8s.io
managedJobsNamespaceSelector:
  matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: [kube-system, {{ .Release.Namespace }}]
integrations:
  frameworks: [batch/job]
{{- end -}}
