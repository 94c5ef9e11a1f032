package main

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/stream"
)

// TestTemplatesAreBounded: an object on which a JSONPath would take too much is an error of its event. The one after it
// is printed.
func TestTemplatesAreBounded(t *testing.T) {
	nested := func(depth int, value string) string {
		return strings.Repeat(`{"a":`, depth) + `"` + value + `"` + strings.Repeat("}", depth)
	}
	const deep, large = "the object is too deep or too large for", "the result is larger than 32 MiB"
	for _, tt := range []struct{ output, object, want, why string }{
		{"jsonpath={..a}", nested(9900, "x"), deep, "a deep object"},
		{"jsonpath-as-json={..a}", nested(9900, "x"), deep, "a deep object"},
		{"jsonpath={.spec.a}{range ..a}{..a}{end}", nested(1000, "x"), deep, "a descent from each result of another"},
		{"custom-columns=A:..a", nested(9900, "x"), deep, "a deep object"},
		{"jsonpath={..a}", nested(1000, strings.Repeat("x", 1<<20)), large, "a value for each level around it"},
		{"custom-columns=A:..a", nested(1000, strings.Repeat("x", 1<<20)), large, "a value for each level around it"},
		{"jsonpath-as-json={.spec}", nested(9900, "x"), large, "the indentation"},
		{"jsonpath-as-json={..a}", nested(1000, "x"), large, "the indentation of each level"},
	} {
		var stdout, stderr bytes.Buffer
		o := watchOptions{print: printFlags{output: tt.output, watchEvents: true}}
		if err := o.checkOutput(); err != nil {
			t.Fatal(err)
		}
		p, err := printing{
			streams: genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr}, flags: o.print,
		}.newPrinter()
		if err != nil {
			t.Fatal(err)
		}
		hostile, good := event(stream.Added), event(stream.Added)
		var spec map[string]any
		if err := utiljson.Unmarshal([]byte(tt.object), &spec); err != nil {
			t.Fatal(err)
		}
		hostile.Object.Object["spec"], good.Object.Object["spec"] = spec, map[string]any{"a": "good"}
		written := 0
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, ev := range []stream.Event{hostile, good} {
			if err := p.print(ev, func() { written++ }); err != nil {
				t.Errorf("-o %s: %s: %v", tt.output, tt.why, err)
			}
		}
		runtime.ReadMemStats(&after)
		if err := p.flush(); err != nil {
			t.Fatal(err)
		}
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 300 {
			t.Errorf("-o %s: %s: it took %d MB", tt.output, tt.why, mb)
		}
		want := "gvrwatch: --output=" + o.print.format + ": nothing is printed of boat.example.com/argo: " + tt.want
		if !strings.HasPrefix(stderr.String(), want) || strings.Count(stderr.String(), "\n") != 1 ||
			!strings.Contains(stdout.String(), "good") || written != 2 {
			t.Errorf("-o %s: %s: %d written\n%.300s%.300s", tt.output, tt.why, written, &stdout, &stderr)
		}
	}
}
