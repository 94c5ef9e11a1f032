package decode

import (
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is what an object says it is.
type kind struct{ apiVersion, kind string }

// typed has the kinds that client-go's dynamic client makes structs of, such as
// Status.
var typed = func() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}()

// isUsual says whether client-go would make an unstructured object of m.
func (d *Decoder) isUsual(m map[string]any) bool {
	var k kind
	k.apiVersion, _ = m["apiVersion"].(string)
	k.kind, _ = m["kind"].(string)
	if k == d.kind && k.kind != "" {
		return true
	}
	gv, err := schema.ParseGroupVersion(k.apiVersion)
	if err != nil || gv.Version == "" || k.kind == "" {
		return false
	}
	if _, err := typed.New(gv.WithKind(k.kind)); err == nil {
		return false
	}
	d.kind = kind{strings.Clone(k.apiVersion), strings.Clone(k.kind)}
	return true
}

// misleading says whether a key of an object looks like "kind" or "apiVersion" to
// encoding/json, which client-go looks for those with, whatever their case.
func misleading(key string) bool {
	if len(key) == 4 && key != "kind" && strings.EqualFold(key, "kind") ||
		len(key) == 10 && key != "apiVersion" && strings.EqualFold(key, "apiVersion") {
		return true
	}
	for i := range len(key) {
		if key[i] >= utf8.RuneSelf {
			return true
		}
	}
	return false
}
