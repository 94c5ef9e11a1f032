package stream_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestGiveUpAfter(t *testing.T) {
	forbidden := exchange{"watch 5", status(403, metav1.StatusReasonForbidden)}
	secondPage := func(answer answer) answer { // lists whose first page always works
		return func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Has("continue") {
				return answer(r)
			}
			return list("5", "more", "a@2")(r)
		}
	}
	tests := []struct {
		name        string
		script      []exchange
		least, most time.Duration    // until the run gives up; zero if it must not
		is          func(error) bool // of the last error; nil for any
		why         string
	}{
		{"server never reached", []exchange{{"", refuse}}, 60 * time.Second, 60 * time.Second, nil,
			"the server is unreachable from the start"},
		{"forbidden later", slices.Concat(
			[]exchange{{"list", list("5", "")}, {"watch 5", watch("wait 5s")}},
			slices.Repeat([]exchange{forbidden}, 40),
		), 65 * time.Second, 66 * time.Second, apierrors.IsForbidden, "a run that was healthy retries until then"},
		{"Retry-After of an hour", []exchange{
			{"list", list("5", "")}, {"watch 5", watch("wait 5s", "ERROR 429 TooManyRequests 3600")},
		}, 65 * time.Second, 65 * time.Second, nil, "a longer Retry-After does not extend the limit"},
		{"no answers", []exchange{{"", hang}}, time.Minute, 63 * time.Second, nil,
			"the limit shortens the timeout of a list, which is two minutes"},
		{"lists work, watches are expired", []exchange{{"", either(list("5", ""), watch("ERROR 410 Expired"))}},
			time.Minute, 63 * time.Second, nil, "a series of gaps is not progress"},
		{"the second page expires", []exchange{{"", secondPage(status(410, metav1.StatusReasonExpired))}},
			time.Minute, 63 * time.Second, nil, "the first page is not progress"},
		{"the second page breaks", []exchange{{"", secondPage(refuse)}},
			time.Minute, 63 * time.Second, nil, "the first page is not progress, even if the second is retried first"},
		{"each page fails once", failingPages(8, 25*time.Second), time.Minute, 63 * time.Second, nil,
			"only a complete snapshot is progress"},
		{"no answers to watches", append([]exchange{{"list", list("5", "")}},
			slices.Repeat([]exchange{{"watch 5", hang}}, 3)...), time.Minute, time.Minute, nil,
			"the limit shortens the timeout of the second watch, which is a minute"},
		{"no answers to probes", []exchange{{"list", list("5", "")}, {"watch 5", watch("wait 5s")}, {"", hang}},
			65 * time.Second, 65 * time.Second, nil, "the limit shortens the timeout of the last probe"},
		{"a slow answer at the last moment", []exchange{
			{"list", after(59500*time.Millisecond, refuse)},
			{"list", after(900*time.Millisecond, list("5", ""))},
			{"watch 5", watch("open")},
		}, 0, 0, nil, "a request has at least a second"},
		{"silent between two failures", []exchange{
			{"list", list("5", "")},
			{"watch 5", refuse},
			{"watch 5", watch("wait 3h")},
			{"watch 5", refuse},
			{"watch 5", watch("open")},
		}, 0, 0, nil, "an hour of silence is not a failure"},
		{"three failures before each event", append(failingWatches(80), exchange{"watch 85", watch("open")}), 0, 0, nil,
			"each event is progress"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &setup{Options: stream.Options{Requests: stream.Requests{GiveUpAfter: time.Minute,
					IdleTimeout: 2 * time.Hour, WatchLifetime: 3 * time.Hour}}}
				s := newStream(t, (&script{t: t, exchanges: tt.script}).client(), o)
				began := time.Now()
				stop := time.AfterFunc(90*time.Minute, s.Stop)
				defer stop.Stop()
				var last error
				for _, err := range s.Events(t.Context()) {
					last = err
				}
				if tt.least == 0 {
					if last != nil {
						t.Errorf("%s: got %v", tt.why, last)
					}
					return
				}
				var gaveUp *stream.GaveUpError
				if !errors.As(last, &gaveUp) || tt.is != nil && !tt.is(last) {
					t.Fatalf("%s: got %v, want a *GaveUpError", tt.why, last)
				}
				if d := time.Since(began); d < tt.least || d > tt.most {
					t.Errorf("%s: the run gave up after %v, want %v to %v", tt.why, d, tt.least, tt.most)
				}
				if gaveUp.After < time.Minute || gaveUp.After > 63*time.Second {
					t.Errorf("%s: After is %v, want 1m to 1m3s", tt.why, gaveUp.After)
				}
			})
		})
	}
}

// TestGiveUpAfterBrokenStreamingLists: initial events of lists that break off are not progress.
func TestGiveUpAfterBrokenStreamingLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := streamOf(t, (&script{t: t, exchanges: []exchange{
			{"watch initial", watch("MARKER @5", "ERROR 410 Expired")},
			{"", either(status(403, metav1.StatusReasonForbidden), watch("ADDED a@6", "reset"))},
		}}).client(), widgets(), &setup{Options: stream.Options{Requests: stream.Requests{GiveUpAfter: time.Minute}}})
		stop := time.AfterFunc(time.Hour, s.Stop)
		defer stop.Stop()
		var last error
		for _, err := range s.Events(t.Context()) {
			last = err
		}
		var gaveUp *stream.GaveUpError
		if !errors.As(last, &gaveUp) {
			t.Errorf("got %v, want a *GaveUpError", last)
		}
	})
}

// failingWatches is a list and n watches, each of which fails three times and then sends one event.
func failingWatches(n int) []exchange {
	all := []exchange{{"list", list("5", "")}}
	for i := range n {
		rv := 5 + i
		all = append(all, slices.Repeat([]exchange{{watchAt(rv), refuse}}, 3)...)
		all = append(all, exchange{watchAt(rv), watch(addedAt(rv + 1))})
	}
	return all
}

// after answers after d, or when the client gives up.
func after(d time.Duration, answer answer) answer {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return answer(r)
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
}

// failingPages is a list of n pages, each of which fails once after d.
func failingPages(n int, d time.Duration) []exchange {
	request, all := "list", []exchange(nil)
	for i := range n {
		next := fmt.Sprint("p", i+1)
		if i == n-1 {
			next = ""
		}
		all = append(all, exchange{request, after(d, refuse)},
			exchange{request, list("5", next, fmt.Sprintf("a%d@2", i))})
		request = "list continue=" + next
	}
	return append(all, exchange{"watch 5", watch("open")})
}

// TestShortWatchesAreHealthy: a watch that closes at its Timeout, even without an event, ends a series of failures.
func TestShortWatchesAreHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		s := streamOf(t, srv.Client(), widgets(),
			&setup{Options: stream.Options{Requests: stream.Requests{WatchLifetime: time.Second,
				GiveUpAfter: 10 * time.Second}}})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				time.Sleep(5 * time.Second)
				_ = srv.Apply("probe 1: 503")
			}
		}()
		for _, err := range s.Events(ctx) {
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
		cancel()
		time.Sleep(10 * time.Second)
	})
}

func sequence(err error, events ...stream.Event) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
		if err != nil {
			yield(stream.Event{}, err)
		}
	}
}

func TestUntil(t *testing.T) {
	broken := errors.New("broken")
	at := func(rv string) stream.Event { return stream.Event{ResourceVersion: rv} }
	one, two, three := at("1"), at("2"), at("3")
	isTwo := func(ev stream.Event) (bool, error) { return ev.ResourceVersion == "2", nil }
	tests := []struct {
		seq  iter.Seq2[stream.Event, error]
		cond func(stream.Event) (bool, error)
		want string
		err  error
		why  string
	}{
		{sequence(broken, one, two, three), isTwo, "2", nil, "events after the condition is met do not matter"},
		{sequence(nil, one, three), isTwo, "", stream.ErrUnmet, "the sequence ends first"},
		{sequence(broken, one), isTwo, "", broken, "the sequence fails first"},
		{sequence(nil, one, two), func(stream.Event) (bool, error) { return false, broken }, "1", broken,
			"the condition fails at an event"},
		{sequence(nil), isTwo, "", stream.ErrUnmet, "an empty sequence"},
	}
	for _, tt := range tests {
		got, err := stream.Until(tt.seq, tt.cond)
		if got.ResourceVersion != tt.want || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: got %q, %v, want %q, %v", tt.why, got.ResourceVersion, err, tt.want, tt.err)
		}
	}
}

func TestAckedYieldsEventsAndTheError(t *testing.T) {
	broken := errors.New("broken")
	var got []string
	events := sequence(broken, stream.Event{ResourceVersion: "1"}, stream.Event{ResourceVersion: "2"})
	for ev, err := range stream.Acked(events) {
		ev.Ack() // Acked calls Ack a second time, which does no harm
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, ev.ResourceVersion)
	}
	if diff := cmp.Diff([]string{"1", "2", "broken"}, got); diff != "" {
		t.Errorf("Acked yields the events and the error of its sequence (-want +got):\n%s", diff)
	}
	for range stream.Acked(sequence(nil, stream.Event{}, stream.Event{})) {
		break // must end the inner sequence too, which panics otherwise
	}
}

func TestStatusIsStoppedAfterUntilSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("open")}}}
		s := newStream(t, sc.client(), &setup{Run: stream.Run{Until: stream.UntilSynced}})
		record(t, s, time.Minute)
		got := s.Status()
		if got.State != stream.Stopped || !got.Synced || got.ResourceVersion != "5" || got.Cause != nil {
			t.Errorf("got %+v, want Stopped, synced at 5, without a Cause", got)
		}
	})
}

// TestUntilSyncedNeedsNoWatch: a caller who may list, but not watch, has the snapshot, and then the run has ended.
func TestUntilSyncedNeedsNoWatch(t *testing.T) {
	for _, tt := range []struct {
		why, do string
		run     stream.Run
		want    []string // types of events, then the error
	}{
		{"the right to list is enough", "widgets forbid watch", stream.Run{Until: stream.UntilSynced},
			[]string{"ADDED", "ADDED", "ADDED", "SYNCED"}},
		{"so is the right to watch", "widgets forbid list", stream.Run{Until: stream.UntilSynced},
			[]string{"ADDED", "ADDED", "ADDED", "SYNCED"}},
		{"one of the two is needed", "widgets forbid all", stream.Run{Until: stream.UntilSynced},
			[]string{"cannot list"}},
		{"a run that goes on needs to watch", "widgets forbid watch", stream.Run{}, []string{"cannot watch"}},
	} {
		for _, paged := range []bool{false, true} {
			if paged && strings.Contains(tt.do, "list") {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				for _, name := range []string{"a", "b", "c"} {
					srv.Put(widgets(), "ns", name)
				}
				if err := srv.Do(tt.do); err != nil {
					t.Fatal(err)
				}
				o := stream.Options{Requests: stream.Requests{PagedLists: paged, PageSize: 2}}
				s, err := stream.New(srv.Client(), widgets(), &o)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for ev, err := range s.With(tt.run).Events(t.Context()) {
					switch {
					case err != nil:
						words := strings.Fields(err.Error())
						got = append(got, strings.Join(words[:2], " "))
					case tt.run.Until == "":
						// What was listed before the watch is refused.
					default:
						got = append(got, string(ev.Type))
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s, paged %v (-want +got):\n%s", tt.why, paged, diff)
				}
				srv.Close()
			})
		}
	}
}
