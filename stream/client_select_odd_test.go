package stream_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// TestSelectAndOneOnTwoLines: a server that has had each event on a line may have one on
// two now and then. Then a watch goes on from there, and nothing is lost.
func TestSelectAndOneOnTwoLines(t *testing.T) {
	const before = 40
	var raw string
	for v := range before {
		raw += widgetEvent("MODIFIED", "h", fmt.Sprint(6+v), `"c":"blue"`)
	}
	last := fmt.Sprint(6 + before)
	odd := strings.Replace(widgetEvent("MODIFIED", "h", last, `"c":"blue"`), `{"n":1}}}`, `{"n":{"a":1}}`+"\n"+`,"status":{}}}`, 1)
	red := widgetEvent("ADDED", "r", fmt.Sprint(7+before), `"c":"red"`)
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{{"list", list("5", "")}, {"watch 5", watch("raw "+raw+odd+red, "open")}, {"watch " + last, watch("raw "+red, "open")}}}
		got := fully(t, newStream(t, sc.ours(nil), &stream.Options{Select: isRed}), time.Minute)
		if !strings.Contains(strings.Join(got, "\n"), "ADDED r/") {
			t.Errorf("%q, of %q", got, sc.requests)
		}
	})
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
