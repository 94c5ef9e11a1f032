package stream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/testing/servers"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// namespaces is a server with one script for each namespace.
type namespaces map[string]*script

func (n namespaces) RoundTrip(r *http.Request) (*http.Response, error) {
	_, rest, _ := strings.Cut(r.URL.Path, "/namespaces/")
	ns, _, _ := strings.Cut(rest, "/")
	return n[ns].RoundTrip(r)
}

func (n namespaces) client() dynamic.Interface {
	return dynamic.NewForConfigOrDie(&rest.Config{Host: "http://server", Transport: n, QPS: -1})
}

// TestSyncedComesThoughListsAreDueAgainAndAgain: two namespaces of a server that always breaks the rules wait for each
// other, but not for ever.
func TestSyncedComesThoughListsAreDueAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		for _, ns := range []string{"one", "two"} {
			srv.Put(widgets(), ns, "always")
		}
		var o setup
		o.Namespaces = []string{"one", "two"}
		s := streamOf(t, brokenClient(t, servers.RestartsWatches(0), srv, "NewClient"), widgets(), &o)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() {
			for i := 0; sleeps(ctx, 2*time.Second); i++ {
				srv.Put(widgets(), []string{"one", "two"}[i%2], "b", fmt.Sprint("spec.n=", i))
				if i%20 == 0 {
					_ = srv.Do("widgets close watches")
				}
			}
		}()
		synced, gaps := 0, 0
		for _, ev := range streamtest.Record(s.Events(ctx), nil).Events {
			if ev.Type == stream.Synced {
				synced++
			}
			if ev.Type == stream.Gap {
				gaps++
			}
		}
		if gaps < 10 || synced < gaps/4 {
			t.Errorf("%d SYNCED and %d GAPs in an hour", synced, gaps)
		}
	})
}

// TestDoubtOutlivesItsRun: an event has shown that versions prove nothing, and the run ends before the list that shows
// what was missed. A run that resumes where it ended begins with that list.
func TestDoubtOutlivesItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{
			{"list", list("5", "", "a@2")},
			{"watch 5", watch("ADDED c@9", "ADDED d@8", "open")},
		}}
		s := newStream(t, sc.client(), &setup{Run: stream.Run{FailOnGap: true}})
		rec := streamtest.Record(s.Events(t.Context()), nil)
		if gap := (*stream.GapError)(nil); !errors.As(rec.Err, &gap) || gap.Reason != stream.GapUnordered {
			t.Fatalf("the run ended with %v", rec.Err)
		}
		at := s.Position()
		if diff := cmp.Diff(map[string]string{"": ""}, at.ResourceVersions); diff != "" {
			t.Errorf("no version says what was delivered (-want +got):\n%s", diff)
		}
		sc = &script{t: t, exchanges: []exchange{
			{"list", list("9", "", "a@2", "c@9", "d@8")}, {"watch 9", watch("open")},
		}}
		next := newStream(t, sc.client(), &setup{Run: stream.Run{Start: stream.From(at)}})
		want := []string{"GAP restarted from  to 9", "ADDED d@8 inferred", "SYNCED 9"}
		if diff := cmp.Diff(want, record(t, next, time.Minute)); diff != "" {
			t.Errorf("the next run (-want +got):\n%s", diff)
		}
	})
}

// TestSyncedWaitsForTheListThatIsDue: in one namespace versions have proven wrong, and a list is due. The SYNCED of all
// namespaces does not come before it, though no GAP has come yet.
func TestSyncedWaitsForTheListThatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := namespaces{
			"one": {t: t, exchanges: []exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("wait 1s", "ADDED b@4", "open")},
				{"list", list("6", "", "a@2", "b@4")},
				{"watch 6", watch("wait 1s", "MODIFIED a@8", "ADDED d@7", "open")},
				{"list", list("9", "", "a@8", "d@7")},
				{"watch 9", watch("open")},
			}},
			"two": {t: t, exchanges: []exchange{
				{"list", list("7", "", "c@3")},
				{"watch 7", watch("wait 5s", "ERROR 410 Expired")},
				{"list", list("9", "", "c@3")},
				{"watch 9", watch("open")},
			}},
		}
		s := newStream(t, n.client(), &setup{Options: stream.Options{Namespaces: []string{"one", "two"}}})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		var got []string
		for ev, err := range s.Events(ctx) {
			if err != nil {
				break
			}
			if ev.Type != stream.Added {
				got = append(got, fmt.Sprint(ev.Namespace, " ", text(ev)))
			}
		}
		want := []string{
			" SYNCED ",
			"one GAP unordered from 5 to 6",
			" SYNCED ",
			"one MODIFIED a@8",
			"two GAP expired from 7 to 9",
			"one GAP unordered from 8 to 9",
			"one DELETED b@4 inferred",
			" SYNCED ",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the deletion of b comes before SYNCED (-want +got):\n%s", diff)
		}
	})
}

func TestSeveralNamespacesAreOneSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := namespaces{
			"one": {t: t, exchanges: []exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("wait 1s", "ADDED b@6", "wait 3s", "ERROR 410 Expired")},
				{"list", list("20", "", "b@6")},
				{"watch 20", watch("wait 1s", "DELETED b@21", "open")},
			}},
			"two": {t: t, exchanges: []exchange{
				{"list", func(r *http.Request) (*http.Response, error) {
					time.Sleep(2 * time.Second)
					return list("7", "", "c@3")(r)
				}},
				{"watch 7", watch("wait 4s", "ADDED d@8", "open")},
			}},
		}
		s := newStream(t, n.client(), &setup{Options: stream.Options{Namespaces: []string{"two", "one", "two"}}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var got []string
		for ev, err := range s.Events(ctx) {
			if err != nil {
				break
			}
			st := s.Status()
			line := fmt.Sprintf("%s %s %v", ev.Namespace, text(ev), st.Synced)
			got = append(got, line)
		}
		want := []string{
			"one ADDED a@2 false",
			"one ADDED b@6 false",
			"two ADDED c@3 false",
			" SYNCED  true",
			"one GAP expired from 6 to 20 false",
			"one DELETED a@2 inferred false",
			" SYNCED  true",
			"one DELETED b@21 true",
			"two ADDED d@8 true",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("GAP is about one namespace, SYNCED about all (-want +got):\n%s", diff)
		}
		var each []string
		for _, one := range s.Status().Namespaces {
			each = append(each, fmt.Sprintf("%s %s %s %d", one.Namespace, one.State, one.ResourceVersion, one.Objects))
		}
		if diff := cmp.Diff([]string{"one Stopped 21 0", "two Stopped 8 2"}, each); diff != "" {
			t.Errorf("each namespace has a Status (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"one": "21", "two": "8"}, s.Position().ResourceVersions); diff != "" {
			t.Errorf("each namespace has a position (-want +got):\n%s", diff)
		}
	})
}

func TestSeveralNamespacesEndTogether(t *testing.T) {
	quiet := func() *script {
		return &script{exchanges: []exchange{
			{"list", list("5", "", "a@2")},
			{"watch 5", watch("open")},
			{"list", list("5", "", "a@2")},
			{"watch 5", watch("open")},
		}}
	}
	tests := []struct {
		name    string
		two     []exchange
		options setup
		body    func(*running, stream.Event)
		want    string // in the error
		why     string
	}{
		{"forbidden in one", []exchange{{"list", status(403, metav1.StatusReasonForbidden)}}, setup{}, nil,
			`in namespace "two"`, "the error names the namespace"},
		{"stopped", quiet().exchanges, setup{}, func(s *running, _ stream.Event) { s.Stop() },
			"", "Stop within the loop body ends the run without an error"},
		{"UntilSynced", quiet().exchanges, setup{Run: stream.Run{Until: stream.UntilSynced}}, nil,
			"", "the run ends once all namespaces are synced"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := namespaces{"one": quiet(), "two": {exchanges: tt.two}}
				for _, sc := range n {
					sc.t = t
				}
				tt.options.Namespaces = []string{"one", "two"}
				s := newStream(t, n.client(), &tt.options)
				var last error
				var kinds []stream.Type
				for ev, err := range s.Events(anHour(t)) {
					last = err
					kinds = append(kinds, ev.Type)
					if tt.body != nil {
						tt.body(s, ev)
					}
				}
				if got := fmt.Sprint(last); tt.want == "" != (last == nil) || !strings.Contains(got, tt.want) {
					t.Errorf("%s: got %v", tt.why, last)
				}
				want := []stream.Type{stream.Added, stream.Added, stream.Synced}
				if tt.options.Until == stream.UntilSynced && !slices.Equal(kinds, want) {
					t.Errorf("%s: got %v", tt.why, kinds)
				}
				// The synctest bubble fails if a goroutine is left running.
			})
		})
	}
}

func TestPanicEndsAllNamespaces(t *testing.T) {
	tests := map[string]func(*setup) func(){
		"in the loop body": func(*setup) func() { return func() { panic("mine") } },
		"in Select": func(o *setup) func() {
			o.Select = func(stream.Meta) bool { panic("mine") }
			return func() {}
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := namespaces{}
				for _, ns := range []string{"one", "two", "three"} {
					n[ns] = &script{t: t, exchanges: []exchange{
						{"list", list("5", "", "a@2", "b@3")},
						{"watch 5", watch("open")},
					}}
				}
				o := &setup{Options: stream.Options{Namespaces: []string{"one", "two", "three"}}}
				body := prepare(o)
				s := newStream(t, n.client(), o)
				defer func() {
					if p := recover(); p != "mine" {
						t.Errorf("recovered %v, want the panic %s", p, name)
					}
					if name == "in Select" {
						return // the next run would panic again
					}
					ended, end := context.WithCancel(t.Context())
					end()
					for _, err := range s.Events(ended) {
						if !errors.Is(err, context.Canceled) {
							t.Errorf("the next run: got %v, want context.Canceled", err)
						}
					}
				}()
				for range s.Events(anHour(t)) {
					body()
				}
			})
		})
	}
}

func TestPanicAfterTheLoopReachesTheCaller(t *testing.T) {
	// A worker that panics after the loop body has left the loop still makes the loop panic.
	synctest.Test(t, func(t *testing.T) {
		n := namespaces{}
		for _, ns := range []string{"one", "two"} {
			n[ns] = &script{t: t, exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("open")}}}
		}
		s := newStream(t, n.client(),
			&setup{Options: stream.Options{Namespaces: []string{"one", "two"}, Trace: &stream.Trace{
				WatchClosed: func(stream.Request) { panic("mine") },
			}}})
		defer func() {
			if p := recover(); p != "mine" {
				t.Errorf("recovered %v, want the worker's panic", p)
			}
		}()
		for ev := range s.Events(anHour(t)) {
			if ev.Type == stream.Synced {
				break
			}
		}
	})
}

func TestFirstClosedWatchEndsAllNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := namespaces{
			"one": {t: t, exchanges: []exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("wait 1s", "ADDED b@6", "wait 5s")},
			}},
			"two": {t: t, exchanges: []exchange{
				{"list", list("5", "")},
				{"watch 5", watch("wait 10s", "ADDED c@7", "open")},
			}},
		}
		s := newStream(t, n.client(), &setup{Options: stream.Options{Namespaces: []string{"one", "two"}},
			Run: stream.Run{Until: stream.UntilClosed}})
		if diff := cmp.Diff([]string{"ADDED a@2", "SYNCED ", "ADDED b@6"}, record(t, s, time.Minute)); diff != "" {
			t.Errorf("the first watch that closes ends the run for all namespaces (-want +got):\n%s", diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := namespaces{
			"one": {t: t, exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("wait 1s")}}},
			"two": {t: t, exchanges: []exchange{
				{"list", func(r *http.Request) (*http.Response, error) {
					time.Sleep(20 * time.Second)
					return list("5", "", "b@3")(r)
				}},
				{"watch 5", watch("open")},
			}},
		}
		s := newStream(t, n.client(), &setup{Options: stream.Options{Namespaces: []string{"one", "two"}},
			Run: stream.Run{Until: stream.UntilClosed}})
		if diff := cmp.Diff([]string{"ADDED a@2", "ADDED b@3", "SYNCED "}, record(t, s, time.Minute)); diff != "" {
			t.Errorf("the run ends only after SYNCED (-want +got):\n%s", diff)
		}
	})
}
