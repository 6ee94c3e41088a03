{{- define "podgate.labels" -}}
app.kubernetes.io/name: podgate
app.kubernetes.io/component: webhook
{{- end }}
{{- define "podgate.image" -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end }}
{{- define "podgate.resources" -}}
{{- $settings := list }}
{{- range $kind, $amounts := . }}
{{- range $name, $amount := $amounts }}{{ $settings = append $settings (printf "%s.%s=%v" $kind $name $amount) }}{{ end }}
{{- end }}
{{- join "," $settings }}
{{- end }}
{{- define "podgate.secret" -}}
{{- if eq .Values.tls.mode "files" }}{{ required "tls.secretName is needed with tls.mode=files" .Values.tls.secretName }}{{ else }}podgate-webhook-tls{{ end }}
{{- end }}
{{- define "podgate.validate" -}}
{{- if not (has .Values.tls.mode (list "self" "cert-manager" "files")) }}
{{- fail (printf "tls.mode is %q: it must be self, cert-manager or files" .Values.tls.mode) }}
{{- end }}
{{- if and (eq .Values.tls.mode "files") (not .Values.tls.ca) }}
{{- fail "tls.ca is needed with tls.mode=files: the API server needs the CA that signed the certificate" }}
{{- end }}
{{- end }}
