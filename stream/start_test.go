package stream_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// conversation is one between a Stream with options and a server.
type conversation struct {
	name    string
	options stream.Options
	script  []exchange
	want    []string
	why     string
}

func testConversations(t *testing.T, conversations []conversation) {
	for _, tt := range conversations {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{t: t, exchanges: tt.script}
				o := tt.options
				o.PagedLists = tt.script[0].request != "watch initial"
				got := record(t, streamOf(t, s.client(), widgets(), &o), 11*time.Minute)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
				if len(s.requests) < len(tt.script) {
					t.Errorf("%s: only these requests came: %q", tt.why, s.requests)
				}
			})
		})
	}
}

func position(rv string, objects ...checkpoint.Object) stream.Start {
	p := checkpoint.Position{Objects: objects, ResourceVersions: map[string]string{"": rv}}
	if rv == "" {
		p.ResourceVersions = nil
	}
	return stream.From(p)
}

func knownAs(name, rv string) checkpoint.Object {
	return checkpoint.Object{Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: rv}
}

func sorted(objects []checkpoint.Object) []checkpoint.Object {
	return slices.SortedFunc(slices.Values(objects), func(a, b checkpoint.Object) int { return strings.Compare(a.Name, b.Name) })
}

func TestStart(t *testing.T) {
	expired := watch("ERROR 410 Expired")
	testConversations(t, []conversation{
		{"now", stream.Options{Start: stream.Now()},
			[]exchange{
				{"list", list("5", "p", "a@2")},
				{"list continue=p", list("5", "", "b@3")},
				{"watch 5", watch("DELETED a@6", "MODIFIED b@7", "ADDED c@8", "open")},
			},
			[]string{"SYNCED 5", "DELETED a@6", "MODIFIED b@7", "ADDED c@8"},
			"nothing of what exists, but what becomes of it"},
		{"now, and a gap", stream.Options{Start: stream.Now()},
			[]exchange{
				{"list", list("5", "", "a@2", "b@3")},
				{"watch 5", expired},
				{"list", list("9", "", "b@3", "c@8")},
				{"watch 9", watch("open")},
			},
			[]string{"SYNCED 5", "GAP expired from 5 to 9", "ADDED c@8 inferred", "DELETED a@2 inferred", "SYNCED 9"},
			"what was not told is known: b has not changed"},
		{"now, and the list begins again", stream.Options{Start: stream.Now()},
			[]exchange{
				{"list", list("5", "p", "a@2", "b@3")},
				{"list continue=p", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "a/other@8")},
				{"watch 9", watch("open")},
			},
			[]string{"SYNCED 9"},
			"now is when it is known"},
		{"now, without an index", stream.Options{Start: stream.Now(), NoIndex: true},
			[]exchange{
				{"probe", list("5", "more", "a@2")},
				{"watch 5", watch("DELETED a@6", "open")},
			},
			[]string{"SYNCED 5", "DELETED a@6"},
			"a version is all it takes"},
		{"after a version", stream.Options{Start: stream.After("5")},
			[]exchange{
				{"watch 5", watch("MODIFIED a@6", "DELETED b@7", "MODIFIED a@8", "DELETED a@9", "ADDED c@10", "MODIFIED a@6", "open")},
			},
			[]string{"SYNCED 5", "MODIFIED a@6", "DELETED b@7", "MODIFIED a@8", "DELETED a@9", "ADDED c@10"},
			"as the server tells it"},
		{"after a version that has expired", stream.Options{Start: stream.After("5")},
			[]exchange{
				{"watch 5", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "a@2", "b@8")},
				{"watch 9", watch("DELETED a@10", "open")},
			},
			[]string{"GAP expired from 5 to 9 history lost", "ADDED b@8 inferred", "SYNCED 9", "DELETED a@10"},
			"what has not changed since is not told; what has gone can't be"},
		{"after a version, and a gap", stream.Options{Start: stream.After("5")},
			[]exchange{
				{"watch 5", watch("MODIFIED a@6", "ADDED b@7", "ERROR 410 Expired")},
				{"list", list("9", "", "a@6", "c@4", "d@8")},
				{"watch 9", watch("ERROR 410 Expired")},
				{"list", list("11", "", "c@4")},
				{"watch 11", watch("open")},
			},
			[]string{"SYNCED 5", "MODIFIED a@6", "ADDED b@7",
				"GAP expired from 7 to 9 history lost", "ADDED d@8 inferred", "DELETED b@7 inferred", "SYNCED 9",
				"GAP expired from 9 to 11", "DELETED a@6 inferred", "DELETED d@8 inferred", "SYNCED 11"},
			"after the first snapshot everything is known, and no more is lost"},
		{"after a version the server has not reached", stream.Options{Start: stream.After("50")},
			[]exchange{
				{"probe", list("9", "")}, {"probe", list("9", "")},
				{"list", list("9", "", "a@2")},
				{"watch 9", watch("open")},
			},
			[]string{"GAP rewound from 50 to 9 history lost", "ADDED a@2 inferred", "SYNCED 9"},
			"a watch there would be silent for ever"},
		{"from a position", stream.Options{Start: position("5", knownAs("a", "2"), knownAs("b", "3"))},
			[]exchange{
				{"watch 5", watch("DELETED a@6", "MODIFIED b@7", "open")},
			},
			[]string{"SYNCED 5", "DELETED a@6", "MODIFIED b@7"},
			"no list, nothing told twice"},
		{"from a position that has expired", stream.Options{Start: position("5", knownAs("a", "2"), knownAs("b", "3"))},
			[]exchange{
				{"watch 5", expired},
				{"list", list("9", "", "b@8")},
				{"watch 9", watch("open")},
			},
			[]string{"SYNCED 5", "GAP expired from 5 to 9", "MODIFIED b@8 inferred", "DELETED a@2 inferred", "SYNCED 9"},
			"what went meanwhile is told"},
		{"from a position within a snapshot", stream.Options{Start: position("", knownAs("a", "2"))},
			[]exchange{
				{"list", list("9", "", "b@8")},
				{"watch 9", watch("open")},
			},
			[]string{"ADDED b@8", "DELETED a@2 inferred", "SYNCED 9"},
			"the rest of the snapshot"},
		{"from a position within a snapshot, to a replica that lags", stream.Options{Start: position("", knownAs("a", "7"))},
			[]exchange{
				{"list", list("5", "", "a@4")},
				{"list", list("9", "", "a@7", "b@8")},
				{"watch 9", watch("open")},
			},
			[]string{"ADDED b@8", "SYNCED 9"},
			"never back in time, not even to what was there before"},
		{"from a position within a snapshot, without an index", stream.Options{Start: stream.From(checkpoint.Position{Partial: true}), NoIndex: true},
			[]exchange{
				{"list", list("9", "", "a@2", "b@8")},
				{"watch 9", watch("open")},
			},
			[]string{"GAP restarted from  to 9 history lost", "ADDED a@2", "ADDED b@8", "SYNCED 9"},
			"a part of it was told, and nobody knows which"},
	})
}

func TestFailOnGap(t *testing.T) {
	tests := []struct {
		answer answer
		reason stream.GapReason
		oldest string
		why    string
	}{
		{status(410, metav1.StatusReasonGone), stream.GapExpired, "", "as a response"},
		{watch("ERROR 410 Expired"), stream.GapExpired, "", "in the stream"},
		{func(*http.Request) (*http.Response, error) {
			s := failure(410, metav1.StatusReasonExpired, 0)
			s.Message = "too old resource version: 5 (77)"
			return respondJSON(410, s)
		}, stream.GapExpired, "77", "a watch cache says what it still has"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := &script{t: t, exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", tt.answer}}}
			var last error
			for _, err := range newStream(t, s.client(), &stream.Options{FailOnGap: true}).Events(anHour(t)) {
				last = err
			}
			var gap *stream.GapError
			if !errors.As(last, &gap) || gap.Reason != tt.reason || gap.From != "5" || gap.Oldest() != tt.oldest {
				t.Errorf("%s: got %v (%#v)", tt.why, last, gap)
			}
			if len(s.requests) != 2 {
				t.Errorf("%s: requests %q, want none after the error", tt.why, s.requests)
			}
		})
	}
}

func TestEnds(t *testing.T) {
	testConversations(t, []conversation{
		{"when synced", stream.Options{UntilSynced: true},
			[]exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("ADDED b@6", "open")}},
			[]string{"ADDED a@2", "SYNCED 5"},
			"a snapshot of which the end is known"},
		{"when synced, streamed", stream.Options{UntilSynced: true},
			[]exchange{{"watch initial", watch("ADDED a@2", "MARKER @5", "ADDED b@6", "open")}},
			[]string{"ADDED a@2", "SYNCED 5"},
			"with one request"},
		{"at first close", stream.Options{UntilClosed: true},
			[]exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("ADDED b@6")}},
			[]string{"ADDED a@2", "SYNCED 5", "ADDED b@6"},
			"no second watch"},
		{"at first close, with an error", stream.Options{UntilClosed: true},
			[]exchange{{"list", list("5", "")}, {"watch 5", watch("ADDED b@6", "ERROR 500 InternalError")}},
			[]string{"SYNCED 5", "ADDED b@6", "error: cannot watch widgets.v1.example.com across the cluster: InternalError"},
			"the caller hears of it"},
	})
}

func TestSetResourceVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{
			{"list", list("5", "", "a@2")}, {"watch 5", watch("ADDED b@6", "open")},
			{"watch 6", watch("DELETED a@7", "open")},
			{"watch 6", watch("DELETED a@7", "open")},
			{"list", list("9", "", "b@6")}, {"watch 9", watch("open")},
		}}
		s := newStream(t, sc.client(), nil)
		record(t, s, time.Second)
		if rv := s.Status().ResourceVersion; rv != "6" {
			t.Errorf("it got to %q, want 6", rv)
		}
		noError(t, s.SetResourceVersion(s.Status().ResourceVersion))
		for range 2 {
			if diff := cmp.Diff([]string{"SYNCED 6", "DELETED a@7"}, record(t, s, time.Second)); diff != "" {
				t.Errorf("after the version that was set (-want +got):\n%s", diff)
			}
		}
		noError(t, s.SetResourceVersion(""))
		if diff := cmp.Diff([]string{"ADDED b@6", "SYNCED 9"}, record(t, s, time.Second)); diff != "" {
			t.Errorf("from the beginning again (-want +got):\n%s", diff)
		}
		if err := s.SetResourceVersion("0"); !errors.As(err, new(*stream.OptionsError)) {
			t.Errorf("version 0: got %v", err)
		}
	})
}

func TestGapDuration(t *testing.T) {
	tests := []struct {
		name  string
		watch answer
		want  time.Duration
		why   string
	}{
		{"expired at once", watch("wait 3s", "ADDED b@6", "ERROR 410 Expired"), 0, "nothing can have been missed for long"},
		{"expired after silence", watch("wait 3s", "ADDED b@6", "wait 20s", "ERROR 410 Expired"), 0, "the watch was open all the time"},
		{"broken soon, and expired when it was back", watch("ADDED b@6", "reset"), 25 * time.Second, "since the event, whatever came between"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := &script{t: t, exchanges: []exchange{
					{"list", list("5", "", "a@2")}, {"watch 5", tt.watch},
				}}
				if tt.want > 0 {
					began := time.Now()
					sc.exchanges = append(sc.exchanges,
						exchange{"watch 6", refuse},
						exchange{"watch 6", func(r *http.Request) (*http.Response, error) {
							time.Sleep(25*time.Second - time.Since(began))
							return status(410, metav1.StatusReasonExpired)(r)
						}})
				}
				sc.exchanges = append(sc.exchanges, exchange{"list", list("9", "", "a@2")}, exchange{"watch 9", watch("open")})
				s := newStream(t, sc.client(), nil)
				for ev, err := range s.Events(anHour(t)) {
					if err != nil {
						t.Fatal(err)
					}
					if ev.Type == stream.Gap {
						if ev.Gap.Duration != tt.want {
							t.Errorf("%s: %v, want %v", tt.why, ev.Gap.Duration, tt.want)
						}
						break
					}
				}
			})
		})
	}
}
