package decode_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/client/decode/decodetest"
)

// TestResultsLastAndShareNothing decodes everything that is recorded twice, with the
// same decoder. What it returns changes neither with what is decoded later, nor with
// what becomes of other objects.
func TestResultsLastAndShareNothing(t *testing.T) {
	d := decode.New(false)
	var objects, want []map[string]any
	for range 2 {
		for _, r := range decodetest.ReadRecorded(t, recordings) {
			if l, err := inPieces(d, r.Data, len(r.Data)+1); err == nil && !r.Watch {
				for _, item := range l.Items {
					objects = append(objects, item.Object)
				}
			}
			for _, frame := range r.Frames() {
				lent(frame, func(data []byte) {
					if ev, _, err := d.Event(data); err == nil {
						objects = append(objects, ev.Object)
					}
				})
			}
			for _, o := range objects[len(want):] {
				want = append(want, decodetest.Copy(o))
			}
		}
	}
	if len(objects) < 100 {
		t.Fatalf("only %d objects were decoded", len(objects))
	}
	for ruined := range 2 {
		for i, o := range objects {
			if i%2 == 0 && ruined == 1 {
				decodetest.Ruin(o)
			} else if diff := decodetest.Difference(want[i], o); diff != "" {
				t.Errorf("object %d changed (after others were written to: %v): %s", i, ruined == 1, diff)
			}
		}
	}
}

// TestWithinAnObjectNothingIsShared: equal parts of one object are apart, too, and who
// appends to a list does not write into another.
func TestWithinAnObjectNothingIsShared(t *testing.T) {
	const part = `{"a":[1,"x",{}],"b":{"c":[]}}`
	data := []byte(`{"apiVersion":"v1","kind":"Thing","one":` + part + `,"two":` + part + `,"lists":[` + part + `,` +
		part + `,[1],[2,3],[],[4]]}`)
	d := decode.New(false)
	for range 3 {
		o, err := d.Object(data)
		if err != nil {
			t.Fatal(err)
		}
		want, lists := decodetest.Copy(o), o["lists"].([]any)
		for _, l := range lists[2:] {
			_ = append(l.([]any), "appended", "appended")
		}
		_ = append(lists, slices.Clone(lists)...)
		if diff := decodetest.Difference(want, o); diff != "" {
			t.Errorf("appending changed it: %s", diff)
		}
		decodetest.Ruin(o["one"])
		decodetest.Ruin(lists[0])
		for what, got := range map[string]any{"two": o["two"], "lists[1]": lists[1]} {
			if diff := decodetest.Difference(want["two"], got); diff != "" {
				t.Errorf("%s changed when another part was written to: %s", what, diff)
			}
		}
	}
}

// TestNothingIsKept: a Decoder that is used for years keeps nothing of the largest
// object that it has met, nor of the last one.
func TestNothingIsKept(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	for _, tt := range []struct{ why, text string }{
		{"the text of the object", `{"apiVersion":"v1","kind":"Thing"}` + strings.Repeat(" ", 1<<20)},
		{"what was in a list", string(specOf(`["` + huge + `"]`))},
		{"what was in a list that does not end", `{"apiVersion":"v1","kind":"Thing","spec":["` + huge + `",`},
		{"room for a long list", string(specOf(`[` + strings.Repeat("0,", 200_000) + `0]`))},
		{"room for a text with an escape", string(specOf(`"\n` + huge + `"`))},
	} {
		d := decode.New(false)
		before := live()
		for range 3 {
			_, _ = d.Object([]byte(tt.text))
		}
		if kept := int(live()) - int(before); kept > 100<<10 {
			t.Errorf("%s: a Decoder keeps %d bytes", tt.why, kept)
		}
		runtime.KeepAlive(d)
	}
	runtime.KeepAlive(huge)
}

// TestKeptOfOthers: who keeps a string keeps that object's others, up to 4 KiB, and
// nothing of other objects.
func TestKeptOfOthers(t *testing.T) {
	round := 0
	unique := func() string { round++; return fmt.Sprintf("%0100d", round) }
	small := func() string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},"text":%q}`, unique())
	}
	big := func() string {
		var all []string
		for i := range 300 {
			all = append(all, fmt.Sprintf(`"k%d":%q`, i%8, unique()))
		}
		return `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},"text":"` + unique() + `","data":{` +
			strings.Join(all, ",") + `}}`
	}
	object := func(d *decode.Decoder, data string) string {
		o, err := d.Object([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		return o["text"].(string)
	}
	for _, tt := range []struct {
		why  string
		most int
		keep func(*decode.Decoder) string
	}{
		{"one of the many of an object", 5 << 10, func(d *decode.Decoder) string { return object(d, big()) }},
		{"that of a small object, between others", 1 << 10, func(d *decode.Decoder) string {
			for range 20 {
				object(d, small())
			}
			return object(d, small())
		}},
		{"that of a small object, after a big one", 1 << 10,
			func(d *decode.Decoder) string { object(d, big()); return object(d, small()) }},
		{"that of a small item, between others", 1 << 10, func(d *decode.Decoder) string {
			items := make([]string, 40)
			for i := range items {
				items[i] = small()
			}
			text := `{"kind":"ThingList","apiVersion":"v1","metadata":{},"items":[` + strings.Join(items, ",") + `]}`
			l, err := inPieces(d, []byte(text), len(text)+1)
			if err != nil {
				t.Fatal(err)
			}
			return l.Items[20].Object["text"].(string)
		}},
	} {
		d := decode.New(false)
		for range 5 {
			tt.keep(d)
		}
		kept := make([]string, 100)
		before := live()
		for i := range kept {
			kept[i] = tt.keep(d)
		}
		if each := (int(live()) - int(before)) / len(kept); each > tt.most {
			t.Errorf("%s: each string that is kept keeps %d bytes, want at most %d", tt.why, each, tt.most)
		}
		runtime.KeepAlive(kept)
		runtime.KeepAlive(d)
	}
}

// wide is the fields of an object, as many as a Decoder remembers.
var wide = func() string {
	var all []string
	for i := range 255 {
		all = append(all, fmt.Sprintf(`"%d":0`, i))
	}
	return strings.Join(all, ",")
}()

// TestHostileSizes: who writes an object must not make it much larger for us than it
// is for others, by having us expect what does not come.
func TestHostileSizes(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 480) + "0" + strings.Repeat("}", 480)
	for _, tt := range []struct{ why, before, text string }{
		{"a wide object, and narrow ones under the same key", "", `[` +
			strings.Repeat(`{"a":{`+wide+`}},{"a":{"b":0}},`, 100) + "0]"},
		{"a wide object, and narrow ones within each other", "", `[` +
			strings.Repeat(`{"a":{`+wide+`}},`+deep+",", 50) + "0]"},
		{"a narrow object, after a wide one", `{` + wide + `}`, `{"a":0}`},
	} {
		d := decode.New(false)
		decodes := func(spec string) {
			if _, err := d.Object([]byte(`{"apiVersion":"v1","kind":"Thing","spec":` + spec + `}`)); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 { // so that it has learned what it can
			decodes(tt.text)
			if tt.before != "" {
				decodes(tt.before)
			}
		}
		ours := allocated(func() { decodes(tt.text) })
		theirs := allocated(func() {
			_, _ = decodetest.Object([]byte(`{"apiVersion":"v1","kind":"Thing","spec":` + tt.text + `}`))
		})
		if ours > 2*theirs {
			t.Errorf("%s: %d bytes allocated; apimachinery allocates %d", tt.why, ours, theirs)
		}
	}
}

// TestConfigMapsInTurn: what a small object keeps does not depend on the large one
// that came before it.
func TestConfigMapsInTurn(t *testing.T) {
	configMap := func(name, data string) []byte {
		return []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + name + `"},"data":{` + data +
			`}}` + strings.Repeat(" ", 2000))
	}
	keeps := func(decode func([]byte) (map[string]any, error)) int {
		kept := make([]map[string]any, 400)
		before := live()
		for i := range kept {
			for _, data := range [][]byte{configMap("large", wide),
				configMap(fmt.Sprint("small-", i), `"a":"x","b":"y"`)} {
				o, err := decode(data)
				if err != nil {
					t.Fatal(err)
				}
				kept[i] = o // the small one
			}
		}
		n := (int(live()) - int(before)) / len(kept)
		runtime.KeepAlive(kept)
		return n
	}
	d := decode.New(false)
	keeps(d.Object) // once, so that it has learned what it can
	if ours, theirs := keeps(d.Object), keeps(decodetest.Object); ours > 2*theirs {
		t.Errorf("a small object keeps %d bytes, apimachinery's %d", ours, theirs)
	}
	runtime.KeepAlive(d)
}

// mallocs is how many times f allocates.
func mallocs(f func()) int { n, _ := measure(f); return n }

// allocated is how many bytes f allocates.
func allocated(f func()) int { _, n := measure(f); return n }

func measure(f func()) (times, bytes int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.Mallocs - before.Mallocs), int(after.TotalAlloc - before.TotalAlloc)
}

func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
