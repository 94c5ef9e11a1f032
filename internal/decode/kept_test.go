package decode_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/decode"
	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
)

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
		d := decode.New(decode.Options{})
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
		return `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},"text":"` + unique() + `","data":{` + strings.Join(all, ",") + `}}`
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
		{"that of a small object, after a big one", 1 << 10, func(d *decode.Decoder) string { object(d, big()); return object(d, small()) }},
		{"that of a small item, between others", 1 << 10, func(d *decode.Decoder) string {
			items := make([]string, 40)
			for i := range items {
				items[i] = small()
			}
			l, err := d.List([]byte(`{"kind":"ThingList","apiVersion":"v1","metadata":{},"items":[` + strings.Join(items, ",") + `]}`))
			if err != nil {
				t.Fatal(err)
			}
			return l.Items[20].Object["text"].(string)
		}},
	} {
		d := decode.New(decode.Options{})
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

// TestSmallAfterWide: room for what does not come is bounded by what there is.
func TestSmallAfterWide(t *testing.T) {
	var many []string
	for i := range 255 {
		many = append(many, fmt.Sprintf(`"%d":0`, i))
	}
	wide, small := specOf(`{`+strings.Join(many, ",")+`}`), specOf(`{"a":0}`)
	d := decode.New(decode.Options{})
	decodes := func(data []byte) func() {
		return func() {
			if _, err := d.Object(data); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 3 {
		decodes(wide)()
		decodes(small)()
	}
	least := allocated(decodes(small))
	decodes(wide)()
	if n := allocated(decodes(small)); n > 2*least {
		t.Errorf("after a wide object a small one takes %d bytes, else %d", n, least)
	}
}

// TestConfigMapsInTurn: what a small object keeps does not depend on the large one
// that came before it.
func TestConfigMapsInTurn(t *testing.T) {
	configMap := func(name string, keys int) []byte {
		var all []string
		for i := range keys {
			all = append(all, fmt.Sprintf(`"file-%d.yaml":"x: %d"`, i, i))
		}
		return []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + name + `"},"data":{` + strings.Join(all, ",") + `}}` + strings.Repeat(" ", 2000))
	}
	keeps := func(decode func([]byte) (map[string]any, error)) int {
		kept := make([]map[string]any, 400)
		before := live()
		for i := range kept {
			for _, data := range [][]byte{configMap("large", 200), configMap(fmt.Sprint("small-", i), 2)} {
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
	d := decode.New(decode.Options{})
	keeps(d.Object) // once, so that it has learned what it can
	ours, theirs := keeps(d.Object), keeps(decodetest.Object)
	if ours > 2*theirs {
		t.Errorf("a small object keeps %d bytes, apimachinery's %d", ours, theirs)
	}
	runtime.KeepAlive(d)
}
