package message_test

import (
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ohler55/ojg/jp"

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
		{why: "a filter by a regular expression", paths: paths(`$.a[?(@.k =~ /^x\/.$/)].v`),
			rest: `"a":[{"k":"x/1","v":"SECRET"},{"k":"x/12","v":1}]`,
			want: `{"a":[{"k":"x/1","v":"REDACTED"},{"k":"x/12","v":1}],` + m + `}`},
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
		{why: "annotations in which programs keep a copy, and what looks like one", paths: paths("$.a"),
			rest: `"a":"SECRET","metadata":{"name":"s","uid":"u","annotations":{"b":"plain [text]",` +
				`"banzaicloud.com/last-applied":"SECRET","kapp.k14s.io/original":"SECRET",` +
				`"j":" {\"a\":\"SECRET\"}\n","kapp.k14s.io/original-diff":"SECRET","l":"[\"SECRET\"]",` +
				`"objectset.rio.cattle.io/applied":"SECRET",` +
				`"g":"H4sISECRET","z":"UEsDSECRET","o":{"a":"SECRET"}}}`,
			want: `{"a":"REDACTED","metadata":{"annotations":{"b":"plain [text]",` +
				`"banzaicloud.com/last-applied":"REDACTED","g":"REDACTED","j":"REDACTED",` +
				`"kapp.k14s.io/original":"REDACTED","kapp.k14s.io/original-diff":"REDACTED","l":"REDACTED",` +
				`"o":"REDACTED","objectset.rio.cattle.io/applied":"REDACTED","z":"REDACTED"},"name":"s","uid":"u"}}`},
		{why: "a Secret whose data is no map, and fields that no Secret has",
			rest: `"data":["SECRET"],"stringData":"SECRET","extra":{"p":"SECRET"},"type":["SECRET"],"immutable":true,` +
				`"metadata":{"name":"s","uid":"u","annotations":{"a":"SECRET","b":null},"labels":{"l":"v"},` +
				`"managedFields":["SECRET"],"extra":"SECRET"}`,
			want: `{"data":"REDACTED","extra":"REDACTED","immutable":true,"metadata":{"annotations":{"a":"REDACTED",` +
				`"b":null},"extra":"REDACTED","labels":{"l":"v"},"name":"s","uid":"u"},"stringData":"REDACTED",` +
				`"type":"REDACTED"}`},
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

// TestRedactionIsBounded: memory is in proportion to the object, whatever its form is and however many values a path
// matches.
func TestRedactionIsBounded(t *testing.T) {
	nested := func(key string, depth int) string {
		return strings.Repeat(`{"`+key+`":`, depth) + `"SECRET"` + strings.Repeat("}", depth)
	}
	wide := "[" + strings.TrimSuffix(strings.Repeat(`["SECRET","SECRET","SECRET","SECRET"],`, 5000), ",") + "]"
	for _, test := range []struct{ why, path, object string }{
		{"nested objects, of which each matches", "$..password", nested("password", 9900)},
		{"nested objects, of which the last matches", "$..b", nested("a", 9900)},
		{"several recursive selectors, which match in as many ways", "$..a..a..a..a", nested("a", 9900)},
		{"each object below each", "$..[*]..[*].a", nested("a", 9900)},
		{"nested lists", "$..[0]..[0]", strings.Repeat("[", 9900) + `"SECRET"` + strings.Repeat("]", 9900)},
		{"a recursive filter", "$..[?(@.a.a)]..a", nested("a", 9900)},
		{"a wide list", "$.x[*][*]", wide},
		{"a list as long as API servers accept", "$.x[*]", "[" + strings.Repeat("1,", 3<<18) + "1]"},
		{"a recursive path through it", "$..x[-1]", "[" + strings.Repeat("1,", 3<<18) + "1]"},
		{"each way through a wide list", "$..[*]..[*]", wide},
		{"a filter of each element", "$..[?(@[*]=='SECRET')][0:4]", wide},
	} {
		r, err := message.ParseRedaction([]string{test.path})
		if err != nil {
			t.Fatal(err)
		}
		in := `{"metadata":{"name":"s","uid":"u"},"x":` + test.object + `}`
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		encoded, err := encoder(1<<24).Encode(core, object(stream.Added, "7", in), 1, r)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		got, err := message.Decode(encoded.Data)
		if err != nil || got.Object.Truncated != nil {
			t.Fatalf("%s: %v, %+v", test.why, err, got.Object)
		}
		const most = 400 // bytes that are ever allocated for each of the object, in two trees and the walk
		if n := int(after.TotalAlloc-before.TotalAlloc) / len(in); n > most {
			t.Errorf("%s: %d bytes were allocated for each byte of the object, want at most %d", test.why, n, most)
		}
	}
}

// TestRedactionFails: an object that takes too much memory is reduced to what identifies it.
func TestRedactionFails(t *testing.T) {
	for _, test := range []struct{ why, path, value string }{
		{"an object that takes over 64 MiB", "$.none", "[" + strings.Repeat("{},", 1<<20) + "{}]"},
		{"a slice of a long list", "$.x[0:]", "[" + strings.Repeat("1,", 1<<18) + "1]"},
	} {
		r, err := message.ParseRedaction([]string{test.path})
		if err != nil {
			t.Fatal(err)
		}
		in := `{"metadata":{"name":"s","uid":"u","labels":{"a":"SECRET"}},"x":` + test.value + `}`
		encoded, err := encoder(1<<24).Encode(core, object(stream.Added, "7", in), 1, r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := message.Decode(encoded.Data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&message.Truncation{RedactionFailed: true}, got.Object.Truncated); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.why, diff)
		}
		const want = `"metadata":{"name":"s","uid":"u","resourceVersion":"7"}}`
		if !strings.HasSuffix(string(got.Data), want) || strings.Contains(string(got.Data), "SECRET") {
			t.Errorf("%s: got %.300s", test.why, got.Data)
		}
	}
}

// TestRedactionLikeLocate: what is replaced is what jp locates in the object as it was.
func TestRedactionLikeLocate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var value func(depth int) any
	value = func(depth int) any {
		switch n := r.IntN(8); {
		case depth > 0 && n < 3:
			m := map[string]any{}
			for range r.IntN(4) {
				m[string(rune('a'+r.IntN(3)))] = value(depth - 1)
			}
			return m
		case depth > 0 && n < 6:
			l := make([]any, r.IntN(5))
			for i := range l {
				l[i] = value(depth - 1)
			}
			return l
		case n == 6:
			return nil
		}
		return []any{"x", "y", int64(1), 1.5, true}[r.IntN(5)]
	}
	selectors := []string{
		".a", ".b", ".a", "[*]", ".*", "..a", "..b", "..[*]", "..[0]", "[0]", "[-1]", "[1:3]", "[::-1]", "[-2:]",
		"['a','b']", "[0,-1]", "[?(@.a==1)]", "[?(@=='x')]", "[?(@.a)]", "[?(@.b[*]=='y')]", "[?(@.a>1)]",
	}
	matched := 0
	for range 20000 {
		path := "$"
		for range 1 + r.IntN(4) {
			path += selectors[r.IntN(len(selectors))]
		}
		redaction, err := message.ParseRedaction([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		o := map[string]any{"metadata": map[string]any{"name": "s", "uid": "u"}, "a": value(4), "b": value(4)}
		in, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		located := jp.MustParseString(path).Locate(o, 0)
		slices.SortFunc(located, func(a, b jp.Expr) int { return len(b) - len(a) }) // what is within comes first
		for _, at := range located {
			at.MustSet(o, "REDACTED")
			matched++
		}
		encoded, err := encoder(1<<20).Encode(core, object(stream.Added, "7", string(in)), 1, redaction)
		if err != nil {
			t.Fatal(err)
		}
		got, err := message.Decode(encoded.Data)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got.Data)); diff != "" {
			t.Fatalf("%s of %s: -want +got:\n%s", path, in, diff)
		}
	}
	if matched < 10000 {
		t.Errorf("only %d values matched", matched)
	}
}

// TestRedactionString: what is published under another redaction is published again.
func TestRedactionString(t *testing.T) {
	one, _ := message.ParseRedaction([]string{"$.a"})
	two, _ := message.ParseRedaction([]string{"$.b"})
	seen := map[string]bool{}
	for _, r := range []*message.Redaction{
		nil, one, two, message.SecretRedaction(nil), message.SecretRedaction(one), message.SecretRedaction(two),
	} {
		if seen[r.String()] {
			t.Errorf("%q is that of two redactions", r)
		}
		seen[r.String()] = true
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
		{"a recursive filter", "$.a[?(@..b==1)]"},
		{"a recursive filter that is a path alone", "$.a[?(@..b)]"},
		{"a recursive filter within a filter", "$.a[?(@.c[?(@..b)]==1)]"},
		{"a recursive filter behind an operator with one operand", "$.a[?(!(@.c) && length(@..b)==1)]"},
		{"the root in a filter", "$.a[?(@.b==$.c)]"},
		{"a filter that compares all with all", "$.a[?(@.b[*]==@.c[*])]"},
		{"a filter that compares all with all of three", "$.a[?(@.b[*]==1 || @['c','d']==2)]"},
		{"a regular expression of the object's author", "$.a[?(@.b=~@.c)]"},
		{"a text as a regular expression", "$.a[?(@.b =~ '^c')]"},
		{"a regular expression that is compiled for each element", "$.a[?match(@.b, 'c.*')]"},
		{"a regular expression that never matches", "$.a[?search(@.b, /c/)]"},
		{"a script, which is none of JSONPath's selectors", "$.a[(@.length-1)]"},
	} {
		if _, err := message.ParseRedaction([]string{"$.ok", test.path}); err == nil {
			t.Errorf("%s: no error of %q", test.why, test.path)
		}
	}
}

// TestRedactionOfKubectl: a path as kubectl has it would match nothing, and so leave what it names in the messages.
func TestRedactionOfKubectl(t *testing.T) {
	const want = `parse a redaction: invalid path "{.spec.password}": must be a JSONPath: ` +
		"without braces, which kubectl has around it"
	if _, err := message.ParseRedaction([]string{"{.spec.password}"}); err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}
