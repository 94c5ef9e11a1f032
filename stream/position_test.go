package stream_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/stream"
)

// The objects come in no order, with old versions: a run that resumed at one of these would miss the objects still to
// come.
func TestPositionInStreamedListHasNoVersion(t *testing.T) {
	tests := []struct {
		start stream.Start
		want  []string
		why   string
	}{
		{stream.Start{}, []string{"ADDED a@9", "ADDED b@2"}, "part of the list is delivered"},
		{stream.Now(), nil, "part of the list is known, nothing is delivered"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			sc := &script{t: t, exchanges: []exchange{{"watch initial", watch("ADDED a@9", "ADDED b@2", "open")}}}
			s := streamOf(t, sc.client(), widgets(), &setup{Run: stream.Run{Start: tt.start}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var got []string
			for ev, err := range s.Events(ctx) {
				if err != nil {
					break
				}
				got = append(got, text(ev))
				if rv := s.Position().ResourceVersions; rv[""] != "" {
					t.Errorf("%s: at %s the position has versions %v, want none", tt.why, text(ev), rv)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
			if rv := s.Position().ResourceVersions; rv[""] != "" {
				t.Errorf("%s: after the run the position has versions %v, want none", tt.why, rv)
			}
		})
	}
}

// A run that resumes from the position at an event repeats at most this event and loses nothing.
func TestResumingRepeatsAtMostOneEvent(t *testing.T) {
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
			"inside a gap, the known objects fit neither the old version nor the new one"},
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
			"the position includes the event in the loop body"},
		{"while a list is due, because an object took the name of another",
			[]exchange{
				{"list", list("5", "", "a/one@2")},
				{"watch 5", watch("ADDED a/other@6", "open")},
				{"list", list("6", "", "a/other@6")},
				{"watch 6", watch("ADDED a/third@7", "MODIFIED b@8", "open")},
			},
			[]string{
				"ADDED a/one@2: at  a@2",
				"SYNCED 5: at 5 a@2",
				"GAP unordered from 5 to 6: at  a@2",
				"DELETED a/one@2 inferred: at ",
				"ADDED a/other@6 inferred: at  a@6",
				"SYNCED 6: at 6 a@6",
				"ADDED b@8: at  a@6 b@8",
			},
			"a later run must begin with a list, which has the event that was not delivered"},
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

// While the loop body handles an event of one namespace, an event of another namespace has arrived.
func TestPositionIsNotPastUndeliveredEvents(t *testing.T) {
	tests := []struct {
		name    string
		options setup
		why     string
	}{
		{"indexed", setup{}, "the workers take turns"},
		{"after a version", setup{Run: stream.Run{Start: stream.After("5")}},
			"the workers take turns although the object is unknown"},
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
				delivered := 0
				for ev, err := range s.Events(ctx) {
					if err != nil {
						break
					}
					if ev.Type == stream.Synced {
						continue
					}
					time.Sleep(time.Second) // meanwhile the other namespace's event arrives
					delivered++
					p := s.Position()
					want := map[string]string{"one": "6", "two": "6"}
					if delivered == 1 {
						want = map[string]string{"one": "5", "two": "5"}
						want[ev.Namespace] = "6"
					}
					if diff := cmp.Diff(want, p.ResourceVersions); diff != "" {
						t.Errorf("%s: at event %d (-want +got):\n%s", tt.why, delivered, diff)
					}
					if len(p.Objects) != delivered {
						t.Errorf("%s: at event %d the position has %d objects", tt.why, delivered, len(p.Objects))
					}
				}
				if delivered != 2 {
					t.Errorf("%s: %d events, want 2", tt.why, delivered)
				}
			})
		})
	}
}

// The server has not answered yet.
func TestFirstPositionIsTheStartVersion(t *testing.T) {
	for name, start := range map[string]stream.Start{
		"after": stream.After("5"),
		"from":  position("5", knownAs("a", "2")),
	} {
		synctest.Test(t, func(t *testing.T) {
			sc := &script{t: t, exchanges: []exchange{{"probe", hang}}}
			s := newStream(t, sc.client(), &setup{Run: stream.Run{Start: start}})
			record(t, s, time.Second)
			if rv := s.Position().ResourceVersions[""]; rv != "5" {
				t.Errorf("%s: the position is at %q, want 5", name, rv)
			}
		})
	}
}

// Position.Partial is set when objects may exist that the position does not list. A run that resumes from it then
// delivers the deletion of an unknown object.
func TestPartialIfObjectsMayBeUnlisted(t *testing.T) {
	tests := []struct {
		name    string
		options setup
		script  []exchange
		want    bool
		why     string
	}{
		{"snapshot", setup{}, []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("open")}}, false,
			"every object has been delivered"},
		{"after a version", setup{Run: stream.Run{Start: stream.After("5")}}, []exchange{{"watch 5", watch("open")}},
			true, "the objects that existed before are unknown"},
		{"after a version, and a gap", setup{Run: stream.Run{Start: stream.After("5")}},
			[]exchange{
				{"watch 5", watch("ERROR 410 Expired")}, {"list", list("9", "", "a@2")}, {"watch 9", watch("open")},
			}, false,
			"the list after the GAP has shown which objects exist"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(t, (&script{t: t, exchanges: tt.script}).client(), &tt.options)
				record(t, s, time.Minute)
				p := s.Position()
				if p.Partial != tt.want {
					t.Errorf("%s: Partial is %v, want %v", tt.why, p.Partial, tt.want)
				}
				// The run that resumes from p receives the deletion of an object that was never delivered.
				next := &script{t: t, exchanges: []exchange{
					{"watch " + p.ResourceVersions[""], watch("DELETED z@20", "open")},
				}}
				o := setup{Run: stream.Run{Start: stream.From(p)}}
				delivered := len(record(t, newStream(t, next.client(), &o), time.Minute)) > 1
				if delivered != tt.want {
					t.Errorf("%s: the deletion of an unknown object was delivered: %v, want %v", tt.why, delivered,
						tt.want)
				}
			})
		})
	}
}
