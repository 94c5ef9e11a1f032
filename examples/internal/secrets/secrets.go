// Package secrets says what may be shown of a Secret, for the relay's messages and for the tool's -o diff.
package secrets

import (
	"encoding/json"
	"strings"
)

// shown are the fields of a Secret that are shown. What is in the fields of keys has its keys shown.
var (
	shown    = map[string]bool{"apiVersion": true, "kind": true, "type": true, "immutable": true}
	keys     = map[string]bool{"data": true, "stringData": true, "metadata": true, "metadata.annotations": true}
	metadata = map[string]bool{
		"name": true, "generateName": true, "namespace": true, "uid": true, "resourceVersion": true, "generation": true,
		"creationTimestamp": true, "deletionTimestamp": true, "deletionGracePeriodSeconds": true, "selfLink": true,
		"labels": true, "ownerReferences": true, "finalizers": true,
	}
)

// Hide returns a copy of a Secret in which hide has replaced everything but apiVersion, kind, type, immutable,
// metadata, and the keys of data and stringData. Of metadata it keeps what API servers define, without managedFields,
// and of annotations only the keys: whoever applies a Secret may keep a copy of it there. hide gets the path of the
// field that a value is in, such as "data". Null stays, because it hides nothing.
func Hide(secret map[string]any, hide func(field string, value any) any) map[string]any {
	return hideIn("", secret, hide)
}

func hideIn(field string, object map[string]any, hide func(field string, value any) any) map[string]any {
	c := make(map[string]any, len(object))
	for key, value := range object {
		path := strings.TrimPrefix(field+"."+key, ".")
		within, isObject := value.(map[string]any)
		switch {
		case path == "metadata.managedFields": // it may have values in the names of its fields
		case value == nil, field == "" && shown[key] && isPlain(value), field == "metadata" && metadata[key]:
			c[key] = value
		case keys[path] && isObject:
			c[key] = hideIn(path, within, hide)
		case field == "":
			c[key] = hide(key, value)
		default:
			c[key] = hide(field, value)
		}
	}
	return c
}

func isPlain(v any) bool {
	switch v.(type) {
	case string, bool:
		return true
	}
	return false
}

// applied are annotations that repeat their object.
var applied = map[string]bool{
	"kubectl.kubernetes.io/last-applied-configuration": true, "kapp.k14s.io/original": true,
	"kapp.k14s.io/original-diff": true, "objectset.rio.cattle.io/applied": true, "banzaicloud.com/last-applied": true,
}

// MayRepeat reports whether an annotation may repeat its object: it is one in which a well-known program keeps what it
// has applied, or its value is an object or a list in JSON, or gzip or zip in base64.
func MayRepeat(annotation, value string) bool {
	const gzip, zip = "H4sI", "UEsD"
	v := strings.TrimSpace(value)
	return applied[annotation] || strings.HasPrefix(v, gzip) || strings.HasPrefix(v, zip) ||
		v != "" && (v[0] == '{' || v[0] == '[') && json.Valid([]byte(v))
}
