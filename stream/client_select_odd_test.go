package stream_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/stream"
)

// TestSelectAndRepeatedLabelsOfKnown: of an object that was passed by, what could not
// be seen is no answer either, and its version has not been entered.
func TestSelectAndRepeatedLabelsOfKnown(t *testing.T) {
	want, got := bothTell(t, stream.Options{Select: isRed}, nil, false, func() []exchange {
		return []exchange{{"list", list("5", "")}, {"watch 5", watch(
			"raw "+widgetEvent("ADDED", "h", "6", `"c":"blue"`), "wait 1s",
			"raw "+widgetEvent("MODIFIED", "h", "7", `"c":"blue","c":"red"`), "wait 1s", "open")}}
	})
	if d := cmp.Diff(want, got); d != "" || !strings.Contains(strings.Join(got, "\n"), "ADDED h/") {
		t.Errorf("%q %s", got, d)
	}
}

// TestSelectAndTwoOnALine: a server that has had each event on a line may have two on
// one now and then, of which none is lost.
func TestSelectAndTwoOnALine(t *testing.T) {
	for _, before := range []int{5, 40} {
		want, got := bothTell(t, stream.Options{Select: isRed}, nil, false, func() []exchange {
			var raw string
			v := 6
			for ; v < 6+before; v++ {
				raw += widgetEvent("MODIFIED", "h", fmt.Sprint(v), `"c":"blue"`)
			}
			raw += strings.TrimSuffix(widgetEvent("MODIFIED", "h", fmt.Sprint(v), `"c":"blue"`), "\n")
			raw += widgetEvent("ADDED", "r", fmt.Sprint(v+1), `"c":"red"`)
			return []exchange{{"list", list("5", "")}, {"watch 5", watch("raw "+raw, "open")}}
		})
		if d := cmp.Diff(want, got); d != "" || !strings.Contains(strings.Join(got, "\n"), "ADDED r/") {
			t.Errorf("after %d: %q %s", before, got, d)
		}
	}
}

// TestSelectAndOddOrderNowAndThen: a server that was seen once to have something
// behind the managedFields may have it again.
func TestSelectAndOddOrderNowAndThen(t *testing.T) {
	const meta = `{"type":"MODIFIED","object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"default","uid":"6f7b6c1e-0000-4000-8000-000000000061","resourceVersion":"%d",%s}}}` + "\n"
	for _, oddAt := range []int{6, 20} {
		want, got := bothTell(t, stream.Options{Select: isRed}, nil, false, func() []exchange {
			var raw string
			for n := 6; n < 100; n++ {
				rest := `"labels":{"c":"red"},"managedFields":[{"manager":"m"}]`
				if n == oddAt || n == 99 {
					rest = `"managedFields":[{"manager":"m"}],"labels":{"c":"red"}`
				}
				raw += fmt.Sprintf(meta, n, rest)
			}
			return []exchange{{"list", list("5", "")}, {"watch 5", watch("raw "+raw, "open")}}
		})
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("odd at %d: %s", oddAt, d)
		}
	}
}
