{{- /* Generated from the objects of `pykueue manifests`: make chart. */ -}}
{{- define "pykueue.valuesOfKueue" -}}
certManager: set configuration.internalCertManagement.enable to false, and provide the Secret yourself
controllerManager: use replicas, image, imagePullSecrets, resources, logLevel, priorityClassName, podAnnotations, nodeSelector, tolerations, topologySpreadConstraints, podDisruptionBudget and configuration.featureGates; hostNetwork, dnsPolicy, probes, strategy and security contexts are fixed
enableCertManager: set configuration.internalCertManagement.enable to false, and provide the Secret yourself
enableKueueViz: not supported; use pykueue dashboard
enableMutatingAdmissionPolicy: not supported, because MultiKueue is not
enablePrometheus: not supported; docs/metrics.md describes how to scrape the manager
enableVisibilityAPF: use visibilityFlowControl
enableVisibilityAuthReaderRoleBinding: not supported; the chart always has this RoleBinding
fullnameOverride: not supported; all objects have the names that Kueue's manifests give them
kubernetesClusterDomain: not needed
kueueViz: not supported; use pykueue dashboard
managerConfig: use configuration, which has the keys of controllerManagerConfigYaml as values, not as text
metrics: not supported; docs/metrics.md describes how to scrape the manager
metricsService: not supported; its port is that of configuration.metrics.bindAddress
mutatingWebhook: not supported; the reinvocationPolicy is Never
nameOverride: not supported; all objects have the names that Kueue's manifests give them
webhookService: not supported; its target port is configuration.webhook.port
{{- end -}}
{{- define "pykueue.unsupported" -}}
resources.deviceClassMappings: dynamic resource allocation is not supported yet; remove the mappings
{{- end -}}
