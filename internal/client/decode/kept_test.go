package decode_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

// TestResultsLastAndShareNothing: neither later calls of the same Decoder nor changes of other objects change a result.
// It decodes everything that is recorded twice.
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

// TestWithinAnObjectNothingIsShared: a change of one part of an object does not change an equal part, and an append to
// a list does not write into another list.
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
				t.Errorf("%s changed with another part: %s", what, diff)
			}
		}
	}
}

func TestDecoderKeepsNoLargeObject(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	for _, tt := range []struct{ why, text string }{
		{"the data", `{"apiVersion":"v1","kind":"Thing"}` + strings.Repeat(" ", 1<<20)},
		{"the items of a list", string(specOf(`["` + huge + `"]`))},
		{"the items of a list without an end", `{"apiVersion":"v1","kind":"Thing","spec":["` + huge + `",`},
		{"the buffer for a long list", string(specOf(`[` + strings.Repeat("0,", 200_000) + `0]`))},
		{"the buffer for a text with an escape", string(specOf(`"\n` + huge + `"`))},
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

// Keys and values that are always new do not make a Decoder grow: here they would take 6 MiB.
func TestNewTextsTakeBoundedMemory(t *testing.T) {
	d := decode.New(false)
	before := live()
	for i := range 2000 {
		var spec strings.Builder
		for j := range 10 {
			fmt.Fprintf(&spec, `,"key-%d-%d":{"inner-%d-%d":"value-%d-%d"}`, i, j, i, j, i, j)
		}
		for range 2 {
			if _, err := d.Object(specOf("{" + spec.String()[1:] + "}")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kept := int(live()) - int(before); kept > 1<<20 {
		t.Errorf("a Decoder keeps %d bytes", kept)
	}
	runtime.KeepAlive(d)
}

// A string keeps at most 4 KiB of other strings of its object in memory, and nothing of other objects.
func TestStringKeepsLittleOfItsObject(t *testing.T) {
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
		{"a string of a big object", 5 << 10, func(d *decode.Decoder) string { return object(d, big()) }},
		{"a string of a small object between others", 1 << 10, func(d *decode.Decoder) string {
			for range 20 {
				object(d, small())
			}
			return object(d, small())
		}},
		{"a string of a small object after a big one", 1 << 10,
			func(d *decode.Decoder) string { object(d, big()); return object(d, small()) }},
		{"a string of a small item between others", 1 << 10, func(d *decode.Decoder) string {
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
			t.Errorf("%s: a string keeps %d bytes in memory, want at most %d", tt.why, each, tt.most)
		}
		runtime.KeepAlive(kept)
		runtime.KeepAlive(d)
	}
}

// wide has the fields of an object, as many as an entry can count.
var wide = func() string {
	var all []string
	for i := range 255 {
		all = append(all, fmt.Sprintf(`"%d":0`, i))
	}
	return strings.Join(all, ",")
}()

// No object makes a Decoder allocate much more than apimachinery, by its guesses of sizes.
func TestHostileSizesCostLittleMemory(t *testing.T) {
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
		for range 3 { // until d has learned all sizes
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

// A small object keeps as little memory after a large one as with apimachinery.
func TestSmallAfterLargeStaysSmall(t *testing.T) {
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
	keeps(d.Object) // until d has learned all sizes
	if ours, theirs := keeps(d.Object), keeps(decodetest.Object); ours > 2*theirs {
		t.Errorf("a small object keeps %d bytes, apimachinery's %d", ours, theirs)
	}
	runtime.KeepAlive(d)
}

// mallocs returns how many times f allocates.
func mallocs(f func()) int { n, _ := measure(f); return n }

// allocated returns how many bytes f allocates.
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
