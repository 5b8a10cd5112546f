package main

import (
	"strings"
	"testing"
)

func TestTracesConfiguration(t *testing.T) {
	for text, want := range map[string]tracesConfig{
		"serve: {}":         {},
		"serve: {otlp: {}}": {wanted: true},
		"serve: {otlp: {endpoint: 'https://c:4318', headers_file: /h, certificate: /c, gzip: true, content: true}}": {
			wanted: true, endpoint: "https://c:4318", headersFile: "/h", certificate: "/c", gzip: true, content: true,
		},
	} {
		c, err := parseConfig("c.yaml", []byte(text))
		if err != nil || c.serve.traces != want {
			t.Errorf("%s: %+v, %v", text, c.serve.traces, err)
		}
	}
	for text, want := range map[string]string{
		"serve: {otlp: {endpont: x}}":         "endpoint",
		"serve: {otlp: {headers_file: here}}": "absolute",
		"serve: {otlp: {content: perhaps}}":   "content",
	} {
		if _, err := parseConfig("c.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
