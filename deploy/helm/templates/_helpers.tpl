{{- /* The image of the manager: by its digest, or else by its tag. */ -}}
{{- define "pykueue.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{- /* The Configuration: the default one with the sections of the values in place of its own. */ -}}
{{- define "pykueue.configuration" -}}
{{- $config := include "pykueue.defaults" . | fromYaml -}}
{{- range $key, $section := .Values.configuration -}}
{{- $_ := set $config $key $section -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- /* The checksum of the Configuration as the ConfigMap has it. */ -}}
{{- define "pykueue.checksum" -}}
{{ include "pykueue.configuration" . | printf "%s\n" | sha256sum }}
{{- end -}}

{{- /* The port of the metrics; 0 if they are not served. */ -}}
{{- define "pykueue.metricsPort" -}}
{{ dig "metrics" "bindAddress" ":8443" . | splitList ":" | last }}
{{- end -}}

{{- /* The port of the probes; 0 if there are none. */ -}}
{{- define "pykueue.healthPort" -}}
{{ dig "health" "healthProbeBindAddress" ":8081" . | splitList ":" | last }}
{{- end -}}

{{- /* The selector of managed namespaces. */ -}}
{{- define "pykueue.managedNamespaces" -}}
{{- toYaml (required "configuration.managedJobsNamespaceSelector: must not be empty" .managedJobsNamespaceSelector) -}}
{{- end -}}
