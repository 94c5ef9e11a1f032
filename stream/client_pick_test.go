package stream

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestHasBytes: it is known whose end may have to be reported.
func TestHasBytes(t *testing.T) {
	const uid = "0f3c1f1e-8a55-4a3e-9c11-5a1d0a6a1b2c"
	enter := func(name string, uid types.UID) func(*index) {
		return func(x *index) { x.enter(identity{namespacedName("ns", name), uid, "5"}) }
	}
	for _, tt := range []struct {
		why  string
		x    func(*index)
		want bool
	}{
		{"nothing is known", func(*index) {}, false},
		{"it is known", enter("a", uid), true},
		{"with a uid that can't be packed", enter("a", "odd"), true},
		{"another one is", enter("b", uid), false},
		{"another one is, with an odd uid", enter("b", "odd"), false},
		{"a pending one", func(x *index) { x.enter(identity{namespacedName("ns", "a"), uid, ""}) }, true},
	} {
		x := newIndex()
		tt.x(x)
		if got := x.hasBytes([]byte("ns"), []byte("a")); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.why, got, tt.want)
		}
		if x.hasBytes([]byte("other"), []byte("a")) {
			t.Errorf("%s: known in another namespace", tt.why)
		}
	}
	if (*index)(nil).hasBytes([]byte("ns"), []byte("a")) {
		t.Error("known without an index")
	}
}

// TestPassed: events are passed by that are newer than what came before, where nobody
// has to hear of each; what was passed by is reported before that begins anew.
func TestPassed(t *testing.T) {
	for _, tt := range []struct {
		why, from string
		on        bool
		versions  string // one after the other, with + before those that are passed by
	}{
		{"in order", "5", true, "+6 +9 9 7 5 +10"},
		{"not here", "5", false, "6"},
		{"versions that are no plain numbers", "5", true, "7a 07 -7 18446744073709551616 +18446744073709551615"},
		{"after one that is none", "no number", true, "6"},
	} {
		var p passed
		p.from(tt.from, tt.on)
		want, events := input(nil), 0
		for _, rv := range strings.Fields(tt.versions) {
			version, passes := strings.CutPrefix(rv, "+")
			if got := p.by([]byte(version)); got != passes {
				t.Errorf("%s: %s is passed by: %v, want %v", tt.why, version, got, passes)
			}
			if passes {
				want, events = frame{passedFrame, version}, events+1
			}
		}
		p.from("3", true)
		if in, n := p.take(); in != want || n != events {
			t.Errorf("%s: the state hears %v of %d events, want %v of %d", tt.why, in, n, want, events)
		}
		if in, _ := p.take(); in != nil {
			t.Errorf("%s: and again %v", tt.why, in)
		}
	}
}
