package stream

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/decode"
)

const (
	uidA = "0f3c1f1e-8a55-4a3e-9c11-5a1d0a6a1b2c"
	uidB = "285fae08-0577-459b-a9dd-9e37f1a2b3c4"
)

var nameA = types.NamespacedName{Namespace: "ns", Name: "a"}

func knownA(version string, hidden bool) known { return known{identity{nameA, uidA, version}, hidden} }

// sightOf is what is seen of an event of the object nameA.
func sightOf(t *testing.T, kind, uid, version string) *decode.Sight {
	t.Helper()
	line := fmt.Sprintf(`{"type":%q,"object":{"kind":"Thing","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":%q,"resourceVersion":%q}}}`+"\n", kind, uid, version)
	s, _ := decode.New(decode.Options{}).Sight([]byte(line), false, false)
	if s == nil {
		t.Fatalf("nothing is seen of %s", line)
	}
	return s
}

// TestPassedBy: what changes nothing but the version of an object that is hidden is
// passed by, with that version, and nothing else is.
func TestPassedBy(t *testing.T) {
	hidden := func(x *index) { x.enter(knownA("5", true)) }
	with := func(all ...func(*index)) func(*index) {
		return func(x *index) {
			for _, f := range all {
				f(x)
			}
		}
	}
	tests := []struct {
		name               string
		x                  func(*index) // nil for no index
		kind, uid, version string
		want               bool
		why                string
	}{
		{"hidden", hidden, "MODIFIED", uidA, "7", true, "nobody is told"},
		{"hidden, in a list", with(hidden, (*index).beginList), "MODIFIED", uidA, "7", true, "it exists, so that it is seen"},
		{"hidden, said to be new", hidden, "ADDED", uidA, "7", true, "it was known before"},
		{"without an index", nil, "MODIFIED", uidA, "7", true, "nobody remembers"},
		{"its end", hidden, "DELETED", uidA, "7", false, "it has to be forgotten"},
		{"its end, without an index", nil, "DELETED", uidA, "7", false, "likewise: what is told of ends is for others to say"},
		{"told", func(x *index) { x.enter(knownA("5", false)) }, "MODIFIED", uidA, "7", false, "its end is to be told"},
		{"not known", func(*index) {}, "ADDED", uidA, "7", false, "it has to be entered"},
		{"another of that name", hidden, "ADDED", uidB, "7", false, "the first one is gone"},
		{"the version that is known", func(x *index) { x.enter(knownA("7", true)) }, "MODIFIED", uidA, "7", false, "that is a replay"},
		{"of before what is known", func(x *index) { x.enter(knownA("9", true)) }, "MODIFIED", uidA, "7", false, "that is a replay"},
		{"of before where the watch is", hidden, "MODIFIED", uidA, "3", false, "that is a replay"},
		{"of where the watch is", hidden, "MODIFIED", uidA, "4", false, "that is a replay"},
		{"a version that is no number", hidden, "MODIFIED", uidA, "7a", false, "it can't be compared"},
		{"a version that begins with 0", hidden, "MODIFIED", uidA, "07", false, "it is not that of 7"},
		{"an odd UID", func(x *index) { x.enter(known{identity{nameA, "odd", "5"}, true}) }, "MODIFIED", "odd", "7", false, "that is kept elsewhere"},
		{"with a checkpoint", with(hidden, func(x *index) { x.noted = func(checkpoint.Change) {} }), "MODIFIED", uidA, "7", false, "it is told of each version"},
		{"with ghosts", with(hidden, func(x *index) { x.haunt(identity{nameA, uidB, "2"}) }), "MODIFIED", uidA, "7", false, "it may lay one"},
		{"in doubt", with(hidden, (*index).doubt), "MODIFIED", uidA, "7", false, "it confirms what was known"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var x *index
			var before []known
			if tt.x != nil {
				x = newIndex()
				tt.x(x)
				before = x.collect(func(bool) bool { return true })
			}
			p := passed{on: true, version: 4}
			if got := p.by(sightOf(t, tt.kind, tt.uid, tt.version), x); got != tt.want {
				t.Fatalf("passed by: %v, want %v: %s", got, tt.want, tt.why)
			}
			in, events := p.take()
			if want := (frame{passedFrame, tt.version}); tt.want && (in != want || events != 1) || !tt.want && in != nil {
				t.Errorf("the state is told %v of %d events", in, events)
			}
			if x == nil {
				return
			}
			want := before
			if tt.want {
				want = []known{knownA(tt.version, true)}
				if !x.saw(nameA) {
					t.Error("a list would not have seen it")
				}
			}
			if d := cmp.Diff(want, x.collect(func(bool) bool { return true }), cmp.AllowUnexported(known{}, identity{})); d != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, d)
			}
		})
	}
}

// TestPassedFrom: what was passed by is told before that begins anew, or ends.
func TestPassedFrom(t *testing.T) {
	for _, on := range []bool{true, false} {
		p := passed{on: true, version: 4}
		for _, version := range []string{"6", "9"} {
			if !p.by(sightOf(t, "MODIFIED", uidA, version), nil) {
				t.Fatal("not passed by")
			}
		}
		p.from("5", on)
		if in, n := p.take(); in != (frame{passedFrame, "9"}) || n != 2 {
			t.Errorf("on %v: the state is told %v of %d events", on, in, n)
		}
		if in, _ := p.take(); in != nil {
			t.Errorf("on %v: and again %v", on, in)
		}
		p.from("20", on)
		if got := p.by(sightOf(t, "MODIFIED", uidA, "21"), nil); got != on {
			t.Errorf("on %v: passed by: %v", on, got)
		}
		if p.by(sightOf(t, "MODIFIED", uidA, "20"), nil) {
			t.Errorf("on %v: it begins before where it was told to", on)
		}
	}
	p := passed{}
	if p.from("no number", true); p.by(sightOf(t, "MODIFIED", uidA, "21"), nil) {
		t.Error("passed by, after a version that nothing can be compared with")
	}
}

// TestMayTell: only the end of what was told can have to be told.
func TestMayTell(t *testing.T) {
	tests := []struct {
		name string
		x    func(*index)
		want bool
	}{
		{"not known", func(*index) {}, false},
		{"hidden", func(x *index) { x.enter(knownA("5", true)) }, false},
		{"told", func(x *index) { x.enter(knownA("5", false)) }, true},
		{"a ghost", func(x *index) { x.haunt(identity{nameA, uidB, "2"}) }, true},
		{"hidden, and a ghost", func(x *index) { x.enter(knownA("5", true)); x.haunt(identity{nameA, uidB, "2"}) }, true},
		{"another one's ghost", func(x *index) {
			x.haunt(identity{types.NamespacedName{Namespace: "ns", Name: "b"}, uidB, "2"})
		}, false},
	}
	for _, tt := range tests {
		x := newIndex()
		tt.x(x)
		if got := x.mayTell(sightOf(t, "MODIFIED", uidA, "7")); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if (*index)(nil).mayTell(sightOf(t, "MODIFIED", uidA, "7")) {
		t.Error("true without an index, where nobody knows what was told")
	}
}
