package size_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/size"
	"k8s.io/client-go/util/jsonpath"
)

// TestTooDeep: what is not refused takes the memory that the limit permits, and usual objects are not refused.
func TestTooDeep(t *testing.T) {
	nested := func(depth int) string {
		return strings.Repeat(`{"a":`, depth) + `1` + strings.Repeat(`}`, depth)
	}
	list := func(n int, element string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	for _, c := range []struct {
		why, path, object string
		want              bool
	}{
		{"no descent", "{.a.a}", nested(9900), false},
		{"a deep object", "{..a}", nested(9900), true},
		{"deep lists", "{..a}", strings.Repeat("[", 9900) + strings.Repeat("]", 9900), true},
		{"the deepest for one descent", "{..a}", nested(4000), false},
		{"too deep for two descents", "{..a..a}", nested(4000), true},
		{"the deepest for two descents", "{..a..a}", nested(350), false},
		{"the deepest for four descents", "{..a..a..a..a}", nested(50), false},
		{"too deep for four descents", "{..a..a..a..a}", nested(100), true},
		{"as large as etcd permits", "{..name}", list(100_000, `{"name":"abc"}`), false},
		{"the same for two descents", "{..name..name}", list(100_000, `{"name":"abc"}`), false},
		{"a long text", "{..a}", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, false},
		{"a long text in a deep object", "{..a..a}",
			strings.Repeat(`{"a":`, 10) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`}`, 10), true},
		{"a filter with a descent", "{..a[?(@..b)]}", nested(4000), true},
		{"a text beyond the limit", "{..a}", `{"a":"` + strings.Repeat("x", 16<<20) + `"}`, true},
	} {
		var v any
		if err := json.Unmarshal([]byte(c.object), &v); err != nil {
			t.Fatal(err)
		}
		got := size.TooDeep(v, strings.Count(c.path, ".."))
		if got != c.want {
			t.Errorf("%s: want %v, got %v", c.why, c.want, got)
		}
		if got || c.want {
			continue
		}
		j := jsonpath.New("").AllowMissingKeys(true)
		if err := j.Parse(c.path); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := j.FindResults(v); err != nil {
			t.Errorf("%s: %v", c.why, err)
		}
		runtime.ReadMemStats(&after)
		// Slices grow, so all that is ever allocated is more than what is used at once.
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 600 {
			t.Errorf("%s: it took %d MB", c.why, mb)
		}
	}
}
