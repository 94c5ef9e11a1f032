package stream_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/stream"
)

// The objects of a streaming list come in no order, with versions of their own:
// a position taken among them must not be at any of these, or what has not come
// yet would be lost to one who goes on from there.
func TestPositionWithinStreamedList(t *testing.T) {
	tests := []struct {
		start stream.Start
		want  []string
		why   string
	}{
		{stream.Snapshot(), []string{"ADDED a@9", "ADDED b@2"}, "told in part"},
		{stream.Now(), nil, "known in part, and nothing told"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			sc := &script{t: t, exchanges: []exchange{{"watch initial", watch("ADDED a@9", "ADDED b@2", "open")}}}
			s := newStream(t, sc.client(), &stream.Options{Start: tt.start, InitialList: stream.ListStreamed})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var got []string
			for ev, err := range s.Events(ctx) {
				if err != nil {
					break
				}
				got = append(got, text(ev))
				if rv := s.Position().ResourceVersions; rv[""] != "" {
					t.Errorf("%s: at %s the position is %v, want none yet", tt.why, text(ev), rv)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
			if rv := s.Position().ResourceVersions; rv[""] != "" {
				t.Errorf("%s: left there, the position is %v, want none", tt.why, rv)
			}
		})
	}
}

// What a position holds while its version is moved, or does not move: going on
// from any of these must neither lose nor repeat more than the event at hand.
func TestPositionMoves(t *testing.T) {
	tests := []struct {
		name   string
		script []exchange
		want   []string
		why    string
	}{
		{"in a gap",
			[]exchange{
				{"list", list("5", "", "a@2", "b@3", "c@4")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", list("20", "p", "a@2", "b@19")},
				{"list continue=p", list("20", "", "d@18")},
				{"watch 20", watch("open")},
			},
			[]string{
				"ADDED a@2: at  a@2",
				"ADDED b@3: at  a@2 b@3",
				"ADDED c@4: at  a@2 b@3 c@4",
				"SYNCED 5: at 5 a@2 b@3 c@4",
				"GAP expired from 5 to 20: at 5 a@2 b@3 c@4",
				"MODIFIED b@19 inferred: at  a@2 b@19 c@4",
				"ADDED d@18 inferred: at  a@2 b@19 c@4 d@18",
				"DELETED c@4 inferred: at  a@2 b@19 d@18",
				"SYNCED 20: at 20 a@2 b@19 d@18",
			},
			"what is known fits neither the old version nor the new one"},
		{"live, after two pages",
			[]exchange{
				{"list", list("5", "p", "a@2")}, {"list continue=p", list("5", "", "c@4")},
				{"watch 5", watch("DELETED a@6", "MODIFIED c@7", "open")},
			},
			[]string{
				"ADDED a@2: at  a@2",
				"ADDED c@4: at  a@2 c@4",
				"SYNCED 5: at 5 a@2 c@4",
				"DELETED a@6: at 6 c@4",
				"MODIFIED c@7: at 7 c@7",
			},
			"what has been delivered, with the event that is being handled"},
		{"at a successor",
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("ADDED a/other@6", "open")},
			},
			[]string{
				"ADDED a@2: at  a@2",
				"SYNCED 5: at 5 a@2",
				"DELETED a@2 inferred: at 5",
				"ADDED a/other@6: at 6 a@6",
			},
			"6 has not been told before the second of the two"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(t, (&script{t: t, exchanges: tt.script}).client(), nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var got []string
				for ev, err := range s.Events(ctx) {
					if err != nil {
						break
					}
					p := s.Position()
					line := text(ev) + ": at " + p.ResourceVersions[""]
					for _, o := range sorted(p.Objects) {
						line += " " + o.Name + "@" + o.ResourceVersion
					}
					got = append(got, line)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
			})
		})
	}
}

// While the event of one namespace is handled, the position must not be past one
// of another namespace that has come, but has not been told.
func TestPositionOfSeveralNamespaces(t *testing.T) {
	tests := []struct {
		name    string
		options stream.Options
		why     string
	}{
		{"indexed", stream.Options{}, "the lanes take turns"},
		{"without an index", stream.Options{Index: stream.IndexNone}, "they must here, too: the version is all that is known"},
		{"after a version", stream.Options{Start: stream.After("5")}, "and where nothing is known of the object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := namespaces{}
				for _, ns := range []string{"one", "two"} {
					n[ns] = &script{t: t, exchanges: []exchange{{"watch 5", watch("wait 1s", "MODIFIED a@6", "open")}}}
					if tt.name != "after a version" {
						n[ns].exchanges = append([]exchange{{"list", list("5", "")}}, n[ns].exchanges...)
					}
				}
				tt.options.Namespaces = []string{"one", "two"}
				s := newStream(t, n.client(), &tt.options)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				told := 0
				for ev, err := range s.Events(ctx) {
					if err != nil {
						break
					}
					if ev.Type == stream.Synced {
						continue
					}
					time.Sleep(time.Second) // the other one has come by now
					told++
					p := s.Position()
					want := map[string]string{"one": "6", "two": "6"}
					if told == 1 {
						want = map[string]string{"one": "5", "two": "5"}
						want[ev.Namespace] = "6"
					}
					if diff := cmp.Diff(want, p.ResourceVersions); diff != "" {
						t.Errorf("%s: at event %d (-want +got):\n%s", tt.why, told, diff)
					}
					if tt.options.Index != stream.IndexNone && len(p.Objects) != told {
						t.Errorf("%s: at event %d there are %d objects", tt.why, told, len(p.Objects))
					}
				}
				if told != 2 {
					t.Errorf("%s: %d events, want 2", tt.why, told)
				}
			})
		})
	}
}

// A position taken before the server has answered is the one that was begun at.
func TestPositionAtTheStart(t *testing.T) {
	for name, start := range map[string]stream.Start{"after": stream.After("5"), "from": position("5", knownAs("a", "2"))} {
		synctest.Test(t, func(t *testing.T) {
			s := newStream(t, (&script{t: t, exchanges: []exchange{{"probe", hang}}}).client(), &stream.Options{Start: start})
			record(t, s, time.Second)
			if rv := s.Position().ResourceVersions[""]; rv != "5" {
				t.Errorf("%s: left before anything came, the position is at %q, want 5", name, rv)
			}
		})
	}
}

// A position says whether there may be objects that it does not know, so that one
// who goes on from it believes the server about these.
func TestPartialPositions(t *testing.T) {
	tests := []struct {
		name    string
		options stream.Options
		script  []exchange
		want    bool
		why     string
	}{
		{"snapshot", stream.Options{}, []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("open")}}, false, "everything was told"},
		{"after a version", stream.Options{Start: stream.After("5")}, []exchange{{"watch 5", watch("open")}}, true, "what existed is not known"},
		{"after a version, and a gap", stream.Options{Start: stream.After("5")},
			[]exchange{{"watch 5", watch("ERROR 410 Expired")}, {"list", list("9", "", "a@2")}, {"watch 9", watch("open")}}, false, "the snapshot has shown what exists"},
		{"no index", stream.Options{Index: stream.IndexNone}, []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("open")}}, true, "nothing is known"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(t, (&script{t: t, exchanges: tt.script}).client(), &tt.options)
				record(t, s, time.Minute)
				p := s.Position()
				if p.Partial != tt.want {
					t.Errorf("%s: Partial is %v", tt.why, p.Partial)
				}
				// Going on from it, the end of an object that was never told.
				next := &script{t: t, exchanges: []exchange{{"watch " + p.ResourceVersions[""], watch("DELETED z@20", "open")}}}
				o := stream.Options{Start: stream.From(p), Index: tt.options.Index}
				told := len(record(t, newStream(t, next.client(), &o), time.Minute)) > 1
				if told != tt.want {
					t.Errorf("%s: the end of an unknown object was told: %v", tt.why, told)
				}
			})
		})
	}
}
