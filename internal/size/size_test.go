package size_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/size"
)

// objects are extreme and ordinary ones.
func objects() []struct{ text, why string } {
	list := func(item string, n int) string { return "[" + strings.Repeat(item+",", n) + "0]" }
	keys := func(n int, item string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"key%d":%s,`, i, item)
		}
		return "{" + b.String() + `"last":0}`
	}
	// The strings differ: of equal ones encoding/json makes one since Go 1.27.
	var different strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&different, `"a string of thirty chars %05d",`, i)
	}
	return []struct{ text, why string }{
		{list(`{"":{}}`, 20_000), "the most memory for a byte of JSON that was found"},
		{list(`{}`, 20_000), "empty maps"},
		{list(`[]`, 20_000), "empty lists"},
		{list(`0.5`, 20_000), "numbers"},
		{"[" + different.String() + "0]", "strings"},
		{list(keys(3, `"x"`), 2_000), "small maps"},
		{list(keys(20, `"x"`), 500), "larger maps"},
		{keys(50_000, `1.5`), "one large map"},
		{list(`{"name":"web","labels":{"app":"web","tier":"front"},"ports":[{"port":80},{"port":443}]}`, 1_000),
			"an ordinary object"},
	}
}

func TestSizeIsThatOfMemory(t *testing.T) {
	for _, tt := range objects() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var v any
		if err := json.Unmarshal([]byte(tt.text), &v); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		real, got := float64(after.HeapAlloc)-float64(before.HeapAlloc), float64(size.Of(v))
		if got < 0.6*real || got > 1.7*real {
			t.Errorf("%s: estimated %.0f bytes, takes %.0f", tt.why, got, real)
		}
		runtime.KeepAlive(v)
	}
}

func TestSizeOfJSONIsSeldomLess(t *testing.T) {
	for _, tt := range objects() {
		var v any
		if err := json.Unmarshal([]byte(tt.text), &v); err != nil {
			t.Fatal(err)
		}
		if of, json := size.Of(v), size.OfJSON([]byte(tt.text)); json < of || json > 4*of {
			t.Errorf("%s: %d from JSON, %d from the value", tt.why, json, of)
		}
	}
	parts, text := size.Scanner{}, []byte(`{"a":{},"b\\"{":[1,"\\\\",{}]}`)
	for i := range text {
		parts.Add(text[i : i+1])
	}
	if whole := size.OfJSON(text); parts.Size != whole {
		t.Errorf("%d in parts, %d as a whole", parts.Size, whole)
	}
	escapes := []byte(`"` + strings.Repeat(`\\`, 1<<20) + `",{}`) // must not take quadratic time
	if got, want := size.OfJSON(escapes), int64(len(escapes)); got < want || got > want+500 {
		t.Errorf("%d bytes of escapes: %d", want, got)
	}
	for _, text := range []string{"", `"`, `"\`, `\`, "\x00", `{"a":"{[,\"{"}`} {
		if got := size.OfJSON([]byte(text)); got > 500 {
			t.Errorf("%q: %d: must not count what is in strings", text, got)
		}
	}
}
