package message_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/stream"
)

const secret = `{"metadata":{"name":"s","uid":"u","annotations":{"kubectl.kubernetes.io/last-applied-configuration":` +
	`"{\"data\":{\"p\":\"SECRET\"}}"}},`

func TestRedact(t *testing.T) {
	paths := func(paths ...string) []string { return paths }
	const m = `"metadata":{"name":"s","uid":"u"}`
	for _, test := range []struct {
		why       string
		paths     []string // nil: those of Secrets
		rest      string   // of the object
		want      string
		wantFails bool
	}{
		{why: "one value", paths: paths("$.a.b"), rest: `"a":{"b":"SECRET","c":1}`,
			want: `{"a":{"b":"REDACTED","c":1},` + m + `}`},
		{why: "objects, lists and null are replaced as a whole", paths: paths("$.a[*]"),
			rest: `"a":{"b":{"c":"SECRET"},"d":["SECRET"],"e":null}`,
			want: `{"a":{"b":"REDACTED","d":"REDACTED","e":"REDACTED"},` + m + `}`},
		{why: "each element of lists", paths: paths("$.a[*].b"), rest: `"a":[{"b":"SECRET"},{"c":2},{"b":"SECRET"}]`,
			want: `{"a":[{"b":"REDACTED"},{"c":2},{"b":"REDACTED"}],` + m + `}`},
		{why: "an index from the end", paths: paths("$.a[-1]"), rest: `"a":[1,"SECRET"]`,
			want: `{"a":[1,"REDACTED"],` + m + `}`},
		{why: "a slice and a union", paths: paths("$.a[1:3]", "$['b','c']"),
			rest: `"a":[1,"SECRET","SECRET",4],"b":"SECRET","c":"SECRET"`,
			want: `{"a":[1,"REDACTED","REDACTED",4],"b":"REDACTED","c":"REDACTED",` + m + `}`},
		{why: "at any depth, also within what matches", paths: paths("$..p"),
			rest: `"a":[[{"p":"SECRET"}]],"p":{"p":"SECRET"},"x":{"y":{"z":{"p":"SECRET"}}}`,
			want: `{"a":[[{"p":"REDACTED"}]],` + m + `,"p":"REDACTED","x":{"y":{"z":{"p":"REDACTED"}}}}`},
		{why: "a filter by text", paths: paths("$.a[?(@.k=='x')].v"),
			rest: `"a":[{"k":"x","v":"SECRET"},{"k":"y","v":1}]`,
			want: `{"a":[{"k":"x","v":"REDACTED"},{"k":"y","v":1}],` + m + `}`},
		{why: "a filter by number, however it is written", paths: paths("$.a[?(@.k==1)].v"),
			rest: `"a":[{"k":1,"v":"SECRET"},{"k":1.0,"v":"SECRET"},{"k":1e0,"v":"SECRET"},{"k":2,"v":2}]`,
			want: `{"a":[{"k":1,"v":"REDACTED"},{"k":1.0,"v":"REDACTED"},{"k":1e0,"v":"REDACTED"},` +
				`{"k":2,"v":2}],` + m + `}`},
		{why: "a filter on what another path replaces", paths: paths("$.a[*].k", "$.a[?(@.k=='x')].v"),
			rest: `"a":[{"k":"x","v":"SECRET"}]`, want: `{"a":[{"k":"REDACTED","v":"REDACTED"}],` + m + `}`},
		{why: "what is within a replaced value", paths: paths("$.a", "$.a.b[0]"), rest: `"a":{"b":["SECRET"]}`,
			want: `{"a":"REDACTED",` + m + `}`},
		{why: "keys with dots", paths: paths("$.a['b.c/d']"), rest: `"a":{"b.c/d":"SECRET"}`,
			want: `{"a":{"b.c/d":"REDACTED"},` + m + `}`},
		{why: "numbers and texts keep their form", paths: paths("$.none"),
			rest: `"a":[12345678901234567890,1.0,1e400,"<&>"]`,
			want: `{"a":[12345678901234567890,1.0,1e400,"<&>"],` + m + `}`},
		{why: "a repeated key hides nothing", paths: paths("$.data.p"),
			rest: `"data":{"p":"SECRET"},"data":{"p":"SECRET"},"data":null`, want: `{"data":null,` + m + `}`},
		{why: "the annotation of kubectl apply and managedFields, which repeat values", paths: paths("$.a[*]"),
			rest: `"a":["SECRET"],"metadata":{"name":"s","uid":"u","annotations":{"b":"c",` +
				`"kubectl.kubernetes.io/last-applied-configuration":"{\"a\":[\"SECRET\"]}"},` +
				`"managedFields":[{"fieldsV1":{"f:a":{"v:\"SECRET\"":{}}}}]}`,
			want: `{"a":["REDACTED"],"metadata":{"annotations":{"b":"c",` +
				`"kubectl.kubernetes.io/last-applied-configuration":"REDACTED"},"name":"s","uid":"u"}}`},
		{why: "metadata that is no object", paths: paths("$.a"), rest: `"a":"SECRET","metadata":[]`,
			want: `{"a":"REDACTED","metadata":[]}`},
		{why: "JSON that ends early", paths: paths("$.a"), rest: `"a":"SECRET`, wantFails: true},
		{why: "a Secret, and the annotation that repeats it",
			rest: `"data":{"p":"SECRET","q":"SECRET"},"stringData":{"p":"SECRET"},"type":"Opaque"`,
			want: `{"data":{"p":"REDACTED","q":"REDACTED"},"metadata":{"annotations":{` +
				`"kubectl.kubernetes.io/last-applied-configuration":"REDACTED"},"name":"s","uid":"u"},` +
				`"stringData":{"p":"REDACTED"},"type":"Opaque"}`},
	} {
		t.Run(test.why, func(t *testing.T) {
			r, err := message.ParseRedaction(test.paths)
			if err != nil {
				t.Fatal(err)
			}
			in := `{` + m + `,` + test.rest + `}`
			if test.paths == nil {
				r, in = message.SecretRedaction(nil), secret+test.rest+`}`
			}
			encoded, err := encoder(1<<20).Encode(core, object(stream.Deleted, "7", in), 1, r)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(encoded.Data), "SECRET") {
				t.Errorf("leaked: %s", encoded.Data)
			}
			got, err := message.Decode(encoded.Data)
			if err != nil {
				t.Fatal(err)
			}
			if failed := got.Object.Truncated != nil && got.Object.Truncated.RedactionFailed; failed != test.wantFails {
				t.Errorf("redactionfailed: want %v, got %v", test.wantFails, failed)
			}
			if diff := cmp.Diff(test.want, string(got.Data)); diff != "" && !test.wantFails {
				t.Error(diff)
			}
		})
	}
}

func TestParseRedaction(t *testing.T) {
	if r, err := message.ParseRedaction(nil); r != nil || err != nil {
		t.Errorf("no paths: want nil, got %v, %v", r, err)
	}
	for _, test := range []struct{ why, path string }{
		{"no JSONPath", "$.a["},
		{"an empty path", ""},
		{"the whole object", "$"},
		{"no end", "$.a.."},
		{"a script, which is none of JSONPath's selectors", "$.a[(@.length-1)]"},
	} {
		if _, err := message.ParseRedaction([]string{"$.ok", test.path}); err == nil {
			t.Errorf("%s: no error of %q", test.why, test.path)
		}
	}
}
