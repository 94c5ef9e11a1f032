package decode_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/decode"
	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
)

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHostileSizes: who writes an object must not make it much larger for us than it
// is for others, by having us expect what does not come.
func TestHostileSizes(t *testing.T) {
	var many []string
	for i := range 255 {
		many = append(many, fmt.Sprintf(`"%d":0`, i))
	}
	wide := `{"a":{` + strings.Join(many, ",") + `}}`
	deep := strings.Repeat(`{"a":`, 480) + "0" + strings.Repeat("}", 480)
	for _, tt := range []struct{ why, spec string }{
		{"a wide object, and narrow ones under the same key", strings.Repeat(wide+`,{"a":{"b":0}},`, 100) + "0"},
		{"a wide object, and narrow ones within each other", strings.Repeat(wide+","+deep+",", 50) + "0"},
	} {
		text := []byte(`{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},"spec":[` + tt.spec + `]}`)
		d := decode.New(decode.Options{})
		if _, err := d.Object(text); err != nil { // once, so that it has learned what it can
			t.Fatal(err)
		}
		ours := allocated(func() { _, _ = d.Object(text) })
		theirs := allocated(func() { _, _ = decodetest.Object(text) })
		if ours > 2*theirs {
			t.Errorf("%s: %d bytes allocated; apimachinery allocates %d", tt.why, ours, theirs)
		}
	}
}

// TestKeptStrings: a string that is kept keeps no more than the block that it is in.
func TestKeptStrings(t *testing.T) {
	text := func(n int) string { return fmt.Sprintf("%0100d", n) }
	var big, small []string
	for n := range 2000 {
		big = append(big, fmt.Sprintf(`"k%d":%q`, n, text(n)))
		small = append(small, fmt.Sprintf(`{"kind":"Thing","apiVersion":"v1","metadata":{"name":"n%d"},"text":%q}`, n, text(n)))
	}
	tests := []struct{ why, list string }{
		{"an object of 200 KB of strings", `{"kind":"Thing","apiVersion":"v1","metadata":{"name":"a"},"text":"` + text(-1) + `","data":{` + strings.Join(big, ",") + `}}`},
		{"2,000 objects", strings.Join(small, ",")},
	}
	for _, tt := range tests {
		d := decode.New(decode.Options{})
		list := []byte(`{"kind":"ThingList","apiVersion":"v1","metadata":{},"items":[` + tt.list + `]}`)
		var kept []string
		before := live()
		for range 20 {
			l, err := d.List(list)
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, l.Items[len(l.Items)/2].Object["text"].(string))
		}
		if each := (int(live()) - int(before)) / len(kept); each > 16<<10 { // some for the Decoder itself
			t.Errorf("%s: each string that is kept keeps %d bytes", tt.why, each)
		}
		runtime.KeepAlive(kept)
		runtime.KeepAlive(d)
	}
}

func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
