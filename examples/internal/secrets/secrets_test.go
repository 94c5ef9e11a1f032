package secrets_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/internal/secrets"
)

func TestHide(t *testing.T) {
	for _, c := range []struct{ why, secret, want string }{
		{"what a Secret has",
			`{"apiVersion":"v1","kind":"Secret","type":"Opaque","immutable":true,"data":{"a":"x","b":null}}`,
			`{"apiVersion":"v1","kind":"Secret","type":"Opaque","immutable":true,"data":{"a":"data","b":null}}`},
		{"data that is no map", `{"data":"x","stringData":[{"a":"x"}]}`, `{"data":"data","stringData":"stringData"}`},
		{"maps in data", `{"data":{"a":{"b":"x"}}}`, `{"data":{"a":"data"}}`},
		{"fields that no Secret has", `{"spec":{"a":"x"},"data.a":"x","metadata.name":"x","":"x"}`,
			`{"spec":"spec","data.a":"data.a","metadata.name":"metadata.name","":""}`},
		{"known fields of other types", `{"kind":{"a":"x"},"type":["x"],"immutable":1}`,
			`{"kind":"kind","type":"type","immutable":"immutable"}`},
		{"what API servers define of metadata",
			`{"metadata":{"name":"n","namespace":"s","uid":"u","labels":{"a":"b"},"finalizers":["f"],"x":"x",
				"managedFields":[{"fieldsV1":{"v:x":{}}}],"annotations":{"a":"x","b":{"c":"x"}}}}`,
			`{"metadata":{"name":"n","namespace":"s","uid":"u","labels":{"a":"b"},"finalizers":["f"],"x":"metadata",
				"annotations":{"a":"metadata.annotations","b":"metadata.annotations"}}}`},
		{"metadata that is no map", `{"metadata":["x"]}`, `{"metadata":"metadata"}`},
		{"annotations that are no map", `{"metadata":{"annotations":"x"}}`, `{"metadata":{"annotations":"metadata"}}`},
		{"keys with dots reach no other field", `{"data":{"annotations":"x"},"":{"data":{"a":"x"}}}`,
			`{"data":{"annotations":"data"},"":""}`},
	} {
		var secret, want map[string]any
		for text, o := range map[string]*map[string]any{c.secret: &secret, c.want: &want} {
			if err := json.Unmarshal([]byte(text), o); err != nil {
				t.Fatal(err)
			}
		}
		got := secrets.Hide(secret, func(field string, _ any) any { return field })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.why, diff)
		}
	}
}

func TestMayRepeat(t *testing.T) {
	for _, c := range []struct {
		why, annotation, value string
		want                   bool
	}{
		{"a well-known annotation, whatever it has", "kubectl.kubernetes.io/last-applied-configuration", "", true},
		{"an object", "a", "\n{\"a\":1}\n", true},
		{"a list", "a", "[1]", true},
		{"gzip", "a", "H4sIAAAAAAAA", true},
		{"zip", "a", "UEsDBBQ", true},
		{"a text in brackets", "a", "[sic] {x}", false},
		{"a text", "a", "text", false},
		{"nothing", "a", "", false},
	} {
		if got := secrets.MayRepeat(c.annotation, c.value); got != c.want {
			t.Errorf("%s: want %v, got %v", c.why, c.want, got)
		}
	}
}
