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

func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
