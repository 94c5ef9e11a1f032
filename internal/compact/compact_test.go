package compact

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

// TestRecord: a Record returns what was packed.
func TestRecord(t *testing.T) {
	long := strings.Repeat("n", 300)
	named := func(namespace, name, uid, version string) objects.Version {
		id := objects.ID{Namespace: namespace, Name: name, UID: types.UID(uid)}
		return objects.Version{ID: id, ResourceVersion: version}
	}
	for _, c := range []struct {
		why     string
		id      objects.Version
		entries []Entry
		payload string
	}{
		{"nothing", objects.Version{}, nil, ""},
		{"a cluster-scoped object", named("", "node-1", "u", "5"), nil, "{}"},
		{"names from a hostile server", named(long, long+"\x00", "u\xff", long), nil, "{}"},
		{"values", named("a", "b", "c", "1"), []Entry{{0, ""}, {0, long}, {200, "x"}}, `{"a":1}`},
	} {
		r := Pack(c.id, c.entries, compressed, []byte(c.payload))
		encoding, payload := r.Payload()
		if r.Identity() != c.id || !slices.Equal(r.Entries(), c.entries) || encoding != compressed ||
			payload != c.payload {
			t.Errorf("%s: got %v %v %d %q", c.why, r.Identity(), r.Entries(), encoding, payload)
		}
		if namespace, name := r.Name(); namespace != c.id.Namespace || name != c.id.Name {
			t.Errorf("%s: got the name %q/%q", c.why, namespace, name)
		}
	}
	if id := Record("").Identity(); id != (objects.Version{}) {
		t.Errorf("the empty Record has the identity %v", id)
	}
}

// TestCodec: what was encoded is decoded, with and without dictionaries, also after others were made.
func TestCodec(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	c := NewCodec(true)
	records, want := map[string]Record{}, map[string]string{}
	for i := range 100_000 {
		text := fmt.Sprintf(`{"kind":"Thing","metadata":{"name":"n%d"},"spec":{"size":%d,"text":%q}}`, i, r.IntN(99),
			strings.Repeat("look ", i/10_000))
		switch r.IntN(50) {
		case 0:
			text = "{}"
		case 1:
			text = ""
		case 2:
			text = fmt.Sprintf("%q", strings.Repeat(text, 30))
		}
		encoding, payload := c.Encode([]byte(text), true)
		name := fmt.Sprint("n", i%3000)
		records[name], want[name] = Pack(objects.Version{}, nil, encoding, payload), text
	}
	if n := len(*c.dictionaries.Load()); n != 2 {
		t.Errorf("after 16 MB there are %d dictionaries, want 2: after 256 KiB and 4 MiB", n)
	}
	got := map[string]string{}
	for name, r := range records {
		text, err := c.Decode(nil, r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got[name] = string(text)
		if r.TextSize() != len(text) {
			t.Errorf("%s: a text of %d bytes should have %d", name, len(text), r.TextSize())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	incompressible := make([]byte, 1000)
	for i := range incompressible {
		incompressible[i] = byte(r.Uint32())
	}
	if encoding, payload := c.Encode(incompressible, true); encoding != plain || !bytes.Equal(payload, incompressible) {
		t.Errorf("what does not compress is encoded as %d, with %d bytes", encoding, len(payload))
	}
}

// TestDictionaries: dictionaries are made of new objects only, their number and size is bounded, and nothing is kept
// that will be in none.
func TestDictionaries(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<12) // 64 KiB
	known := NewCodec(true)
	for range 100 {
		known.Encode(text, false)
	}
	if n := len(*known.dictionaries.Load()); n != 0 || known.samples != nil {
		t.Errorf("changes of known objects made %d dictionaries", n)
	}
	c := NewCodec(true)
	for i := range 1 << 15 { // 2 GiB
		c.learn(text)
		if size := len(c.samples); size > dictionarySize {
			t.Fatalf("after %d texts, %d bytes are kept for the next dictionary", i, size)
		}
	}
	for _, d := range *c.dictionaries.Load() {
		if size := len(d.Bytes()); size > dictionarySize+10 {
			t.Errorf("a dictionary has %d bytes", size)
		}
	}
	if n := len(*c.dictionaries.Load()); n != maxDictionaries || c.samples != nil {
		t.Errorf("there are %d dictionaries, want %d, and samples for no other", n, maxDictionaries)
	}
	if known.Encode(bytes.Repeat(text, 8), false); cap(known.scratch) > maxScratch {
		t.Errorf("a buffer of %d bytes is kept after a large object", cap(known.scratch))
	}
	none := NewCodec(false)
	if encoding, payload := none.Encode(text, true); encoding != plain || &payload[0] != &text[0] {
		t.Error("a Codec that does not compress has copied or changed a text")
	}
}

// TestSamplesAreSpread: a dictionary has examples from all of the last half of the objects before it.
func TestSamplesAreSpread(t *testing.T) {
	c := NewCodec(true)
	text := make([]byte, 1<<10)
	for i := 0; len(*c.dictionaries.Load()) == 0; i++ {
		for n := range text {
			text[n] = byte(i)
		}
		c.Encode(text, true)
	}
	seen := slices.Compact(slices.Sorted(slices.Values((*c.dictionaries.Load())[0].Bytes()[3:])))
	if len(seen) < 28 || seen[0] < 120 || seen[len(seen)-1] < 248 {
		t.Errorf("these of 256 texts are in the dictionary, want about 32 of the last 128: %v", seen)
	}
}

// TestAppendJSON: what package decode makes of the JSON is the same value.
func TestAppendJSON(t *testing.T) {
	compared := 0
	for _, c := range decodetest.Objects() {
		o, err := decode.Decode([]byte(c.Text))
		if err != nil {
			continue
		}
		text, err := AppendJSON([]byte("kept"), o.Object)
		if err != nil {
			t.Errorf("%s: %v", c.Why, err)
			continue
		}
		text, had := bytes.CutPrefix(text, []byte("kept"))
		again, err := decode.Decode(text)
		if err != nil || !had {
			t.Fatalf("%s: %v", c.Why, err)
		}
		if !reflect.DeepEqual(o.Object, again.Object) { // cmp.Diff takes minutes for the deep ones
			t.Errorf("%s: got %.1000v, want %.1000v", c.Why, again.Object, o.Object)
		}
		compared++
	}
	if compared < 100 {
		t.Errorf("compared %d objects", compared)
	}
}

func TestAppendJSONOfOneValue(t *testing.T) {
	for _, c := range []struct {
		why   string
		value any
		want  string // empty: an error
	}{
		{"a float that is integral remains a float", 1.0, "1.0"},
		{"a large float has an exponent", 1e21, "1e+21"},
		{"zero has a sign", math.Copysign(0, -1), "-0.0"},
		{"the smallest float", math.SmallestNonzeroFloat64, "5e-324"},
		{"the smallest integer", int64(math.MinInt64), "-9223372036854775808"},
		{"keys are in order", map[string]any{"b": nil, "a": []any{true, "x"}}, `{"a":[true,"x"],"b":null}`},
		{"more keys than usual", map[string]any{"l": "", "k": "", "j": "", "i": "", "h": "", "g": "", "f": "", "e": "",
			"d": "", "c": "", "b": "", "a": "", "z": "", "y": "", "x": "", "w": "", "v": ""},
			`{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","i":"","j":"","k":"","l":"","v":"","w":"",` +
				`"x":"","y":"","z":""}`},
		{"nothing is escaped for HTML", "<a&b>", `"<a&b>"`},
		{"what must be escaped", "\"\\\n\x00é", `"\"\\\n\u0000é"`},
		{"empty ones", []any{map[string]any{}, []any{}}, `[{},[]]`},
		{"an int would become an int64", 1, ""},
		{"not a number", math.NaN(), ""},
		{"infinity", []any{math.Inf(1)}, ""},
		{"not UTF-8, which would be replaced", map[string]any{"a": "\xff"}, ""},
		{"a key that is not UTF-8", map[string]any{"\xff": "a"}, ""},
		{"a nil map would become nil", map[string]any{"a": map[string]any(nil)}, ""},
		{"a nil slice would become nil", []any{[]any(nil)}, ""},
		{"strings of a Transform", []string{"a"}, ""},
	} {
		got, err := AppendJSON(nil, c.value)
		if string(got) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: got %s, %v, want %s", c.why, got, err, c.want)
		}
	}
}

// TestAppendJSONIsAsDeepAsDecode: what is written can be read, and what can be read is written.
func TestAppendJSONIsAsDeepAsDecode(t *testing.T) {
	for _, depth := range []int{1, 500, 501, maxDepth - 1, maxDepth, maxDepth + 1, 3 * maxDepth} {
		var value any = "x"
		for i := range depth - 1 {
			if value = any([]any{value}); i%2 == 0 {
				value = map[string]any{"a": value.([]any)[0]}
			}
		}
		object := map[string]any{"a": value}
		text, err := AppendJSON(nil, object)
		if (err == nil) != (depth <= maxDepth) {
			t.Fatalf("%d levels: %v", depth, err)
		}
		if err != nil {
			text = []byte(strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth))
		}
		o, readErr := decode.Decode(text)
		if (readErr == nil) != (err == nil) {
			t.Fatalf("%d levels: written with %v, read with %v", depth, err, readErr)
		}
		if err == nil && !reflect.DeepEqual(o.Object, object) {
			t.Errorf("%d levels: what was read is another object", depth)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	_, text, _ := bytes.Cut(decodetest.PodEvent(1), []byte(`"object":`))
	o, err := decode.Decode(bytes.TrimSuffix(text, []byte("}\n")))
	if err != nil {
		b.Fatal(err)
	}
	var to []byte
	b.ReportAllocs()
	for b.Loop() {
		to, _ = AppendJSON(to[:0], o.Object)
	}
}
