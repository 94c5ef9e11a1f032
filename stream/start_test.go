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

// conversation is one run of a Stream against a script, and the events it must deliver.
type conversation struct {
	name    string
	options setup
	script  []exchange
	want    []string
	why     string
}

func testConversations(t *testing.T, conversations []conversation) {
	for _, tt := range conversations {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{t: t, pageSize: tt.options.Requests.PageSize, exchanges: tt.script}
				o := tt.options
				o.Requests.PagedLists = tt.script[0].request != "watch initial"
				got := record(t, streamOf(t, s.client(), widgets(), &o), 11*time.Minute)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
				if len(s.requests) < len(tt.script) {
					t.Errorf("%s: the script has more exchanges than requests: %q", tt.why, s.requests)
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
	return slices.SortedFunc(slices.Values(objects),
		func(a, b checkpoint.Object) int { return strings.Compare(a.Name, b.Name) })
}

// TestStart: a run begins where Run.Start says, or with a GAP if the server no longer has that version.
func TestStart(t *testing.T) {
	expired := watch("ERROR 410 Expired")
	testConversations(t, []conversation{
		{"now", setup{Run: stream.Run{Start: stream.Now()}},
			[]exchange{
				{"list", list("5", "p", "a@2")},
				{"list continue=p", list("5", "", "b@3")},
				{"watch 5", watch("DELETED a@6", "MODIFIED b@7", "ADDED c@8", "open")},
			},
			[]string{"SYNCED 5", "DELETED a@6", "MODIFIED b@7", "ADDED c@8"},
			"existing objects are not delivered, their changes are"},
		{"now, and a gap", setup{Run: stream.Run{Start: stream.Now()}},
			[]exchange{
				{"list", list("5", "", "a@2", "b@3")},
				{"watch 5", expired},
				{"list", list("9", "", "b@3", "c@8")},
				{"watch 9", watch("open")},
			},
			[]string{"SYNCED 5", "GAP expired from 5 to 9", "ADDED c@8 inferred", "DELETED a@2 inferred", "SYNCED 9"},
			"objects that were not delivered are known: b has not changed"},
		{"now, and the list restarts", setup{Run: stream.Run{Start: stream.Now()}},
			[]exchange{
				{"list", list("5", "p", "a@2", "b@3")},
				{"list continue=p", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "a/other@8")},
				{"watch 9", watch("open")},
			},
			[]string{"SYNCED 9"},
			"now is the version of the list that succeeded"},
		{"after a version", setup{Run: stream.Run{Start: stream.After("5")}},
			[]exchange{
				{"watch 5", watch("MODIFIED a@6", "DELETED b@7", "MODIFIED a@8", "DELETED a@9", "ADDED c@10",
					"MODIFIED a@6", "open")},
			},
			[]string{"SYNCED 5", "MODIFIED a@6", "DELETED b@7", "MODIFIED a@8", "DELETED a@9", "ADDED c@10"},
			"events of unknown objects keep the server's types; a repeated event is not delivered"},
		{"after a version that has expired", setup{Run: stream.Run{Start: stream.After("5")}},
			[]exchange{
				{"watch 5", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "a@2", "b@8")},
				{"watch 9", watch("DELETED a@10", "open")},
			},
			[]string{"GAP expired from 5 to 9 history lost", "ADDED b@8 inferred", "SYNCED 9", "DELETED a@10"},
			"objects that have not changed since are not delivered; deletions are lost"},
		{"after a version, and a gap", setup{Run: stream.Run{Start: stream.After("5")}},
			[]exchange{
				{"watch 5", watch("MODIFIED a@6", "ADDED b@7", "ERROR 410 Expired")},
				{"list", list("9", "", "a@6", "c@4", "d@8")},
				{"watch 9", watch("ERROR 410 Expired")},
				{"list", list("11", "", "c@4")},
				{"watch 11", watch("open")},
			},
			[]string{
				"SYNCED 5", "MODIFIED a@6", "ADDED b@7",
				"GAP expired from 7 to 9 history lost", "ADDED d@8 inferred", "DELETED b@7 inferred", "SYNCED 9",
				"GAP expired from 9 to 11", "DELETED a@6 inferred", "DELETED d@8 inferred", "SYNCED 11",
			},
			"after the first snapshot all objects are known, so that a second GAP loses nothing"},
		{"after a version the server has not reached", setup{Run: stream.Run{Start: stream.After("50")}},
			[]exchange{
				{"probe", list("9", "")}, {"probe", list("9", "")},
				{"list", list("9", "", "a@2")},
				{"watch 9", watch("open")},
			},
			[]string{"GAP future from 50 to 9 history lost", "ADDED a@2 inferred", "SYNCED 9"},
			"a watch ahead of the server would be silent for ever; nothing says that the server has gone back in time"},
		{"after a version a replica has not reached", setup{Run: stream.Run{Start: stream.After("50")}},
			[]exchange{
				{"probe", list("9", "")}, {"probe", list("51", "")},
				{"watch 50", watch("ADDED a@51", "open")},
			},
			[]string{"SYNCED 50", "ADDED a@51"},
			"one answer may come from a replica that lags"},
		{"after a version the server has not reached and calls expired",
			setup{Run: stream.Run{Start: stream.After("50")}},
			[]exchange{
				{"watch 50", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "a@2")}, {"list", list("9", "", "a@2")},
				{"watch 9", watch("open")},
			},
			[]string{"GAP future from 50 to 9 history lost", "ADDED a@2 inferred", "SYNCED 9"},
			"the lists show that it is no version of the past"},
		{"after a version the server has not reached, later",
			setup{Run: stream.Run{Start: stream.After("5")}},
			[]exchange{
				{"watch 5", watch("ADDED a@6", "close")},
				{"probe", list("3", "")}, {"probe", list("3", "")},
				{"list", list("3", "", "b@2")},
				{"watch 3", watch("open")},
			},
			[]string{"SYNCED 5", "ADDED a@6", "GAP rewound from 6 to 3 history lost", "ADDED b@2 inferred",
				"DELETED a@6 inferred", "SYNCED 3"},
			"the watch has begun there, so the version was the server's"},
		{"after a version that is too large", setup{Run: stream.Run{Start: stream.After("50")}},
			[]exchange{
				{"watch 50", tooLarge},
				{"probe", list("9", "")}, {"probe", list("9", "")},
				{"list", list("9", "", "a@2")},
				{"watch 9", watch("open")},
			},
			[]string{"GAP future from 50 to 9 history lost", "ADDED a@2 inferred", "SYNCED 9"},
			"its Retry-After does not say that the server will reach it: a list does"},
		{"from a position the server has not reached", setup{Run: stream.Run{Start: position("50", knownAs("a", "2"))}},
			[]exchange{
				{"probe", list("9", "")}, {"probe", list("9", "")},
				{"list", list("9", "", "a@2")},
				{"watch 9", watch("open")},
			},
			[]string{"GAP rewound from 50 to 9", "MODIFIED a@2 inferred", "SYNCED 9"},
			"an earlier run was there, so the server has gone back in time"},
		{"from a position", setup{Run: stream.Run{Start: position("5", knownAs("a", "2"), knownAs("b", "3"))}},
			[]exchange{
				{"watch 5", watch("DELETED a@6", "MODIFIED b@7", "open")},
			},
			[]string{"SYNCED 5", "DELETED a@6", "MODIFIED b@7"},
			"nothing is listed, no event is delivered twice"},
		{"from a position that has expired",
			setup{Run: stream.Run{Start: position("5", knownAs("a", "2"), knownAs("b", "3"))}},
			[]exchange{
				{"watch 5", expired},
				{"list", list("9", "", "b@8")},
				{"watch 9", watch("open")},
			},
			[]string{"GAP expired from 5 to 9", "MODIFIED b@8 inferred", "DELETED a@2 inferred", "SYNCED 9"},
			"deletions since the position are delivered before SYNCED"},
		{"from a position within a snapshot", setup{Run: stream.Run{Start: position("", knownAs("a", "2"))}},
			[]exchange{
				{"list", list("9", "", "b@8")},
				{"watch 9", watch("open")},
			},
			[]string{"GAP restarted from  to 9", "ADDED b@8 inferred", "DELETED a@2 inferred", "SYNCED 9"},
			"what happened to a since is not known, so its changes are announced by a GAP"},
		{"from a position within a snapshot, to a replica that lags",
			setup{Run: stream.Run{Start: position("", knownAs("a", "7"))}},
			[]exchange{
				{"list", list("5", "", "a@4")},
				{"list", list("9", "", "a@7", "b@8")},
				{"watch 9", watch("open")},
			},
			[]string{"GAP restarted from  to 9", "ADDED b@8 inferred", "SYNCED 9"},
			"a list older than the position is read again"},
		{"from a position within a snapshot, of a Store that keeps no objects",
			setup{Run: stream.Run{Start: stream.From(checkpoint.Position{Partial: true})}},
			[]exchange{
				{"list", list("9", "", "a@2", "b@8")},
				{"watch 9", watch("open")},
			},
			[]string{"GAP restarted from  to 9 history lost", "ADDED a@2 inferred", "ADDED b@8 inferred", "SYNCED 9"},
			"an unknown part of the snapshot was delivered, so it restarts with a GAP"},
	})
}

// tooLarge is how a kube-apiserver answers a request for a version that its cache has not reached.
func tooLarge(*http.Request) (*http.Response, error) {
	s := failure(504, metav1.StatusReasonTimeout, 1)
	s.Message = "Too large resource version: 50, current: 9"
	s.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: s.Message}}
	return respondJSON(504, s)
}

// TestFutureVersionWithFailOnGap: the error does not speak of a server that has gone back in time.
func TestFutureVersionWithFailOnGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, exchanges: []exchange{{"probe", list("9", "")}, {"probe", list("9", "")}}}
		run := stream.Run{Start: stream.After("50"), FailOnGap: true}
		got := record(t, newStream(t, s.client(), &setup{Run: run}), time.Minute)
		want := []string{"error: cannot know what happened since resourceVersion 50 (future): " +
			"the server has not reached the resourceVersion to start after"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestFailOnGapEndsWithGapError(t *testing.T) {
	tests := []struct {
		answer answer
		reason stream.GapReason
		oldest string
		why    string
	}{
		{status(410, metav1.StatusReasonGone), stream.GapExpired, "", "410 as a response"},
		{watch("ERROR 410 Expired"), stream.GapExpired, "", "410 as an ERROR event"},
		{func(*http.Request) (*http.Response, error) {
			s := failure(410, metav1.StatusReasonExpired, 0)
			s.Message = "too old resource version: 5 (77)"
			return respondJSON(410, s)
		}, stream.GapExpired, "77", "Oldest returns the version that a watch cache still has"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := &script{t: t, exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", tt.answer}}}
			var last error
			for _, err := range newStream(t, s.client(), &setup{Run: stream.Run{FailOnGap: true}}).Events(anHour(t)) {
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

// UntilSynced ends a run at SYNCED, UntilClosed at the end of the first watch.
func TestUntilOptionsEndTheRun(t *testing.T) {
	testConversations(t, []conversation{
		{"until synced", setup{Run: stream.Run{Until: stream.UntilSynced}},
			[]exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("ADDED b@6", "open")}},
			[]string{"ADDED a@2", "SYNCED 5"},
			"the run ends at SYNCED, before an event of the watch"},
		{"until synced, streamed", setup{Run: stream.Run{Until: stream.UntilSynced}},
			[]exchange{{"watch initial", watch("ADDED a@2", "MARKER @5", "ADDED b@6", "open")}},
			[]string{"ADDED a@2", "SYNCED 5"},
			"a streamed list takes one request"},
		{"until closed", setup{Run: stream.Run{Until: stream.UntilClosed}},
			[]exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("ADDED b@6")}},
			[]string{"ADDED a@2", "SYNCED 5", "ADDED b@6"},
			"the run opens no second watch"},
		{"until closed, with an error", setup{Run: stream.Run{Until: stream.UntilClosed}},
			[]exchange{{"list", list("5", "")}, {"watch 5", watch("ADDED b@6", "ERROR 500 InternalError")}},
			[]string{"SYNCED 5", "ADDED b@6",
				"error: cannot watch widgets.v1.example.com across the cluster: InternalError"},
			"the run ends with the error that closed the watch"},
	})
}

// TestEachRunHasAStartOfItsOwn: a Stream's runs begin where each Run says, and Resume where the last one ended.
func TestEachRunHasAStartOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{
			{"list", list("5", "", "a@2")}, {"watch 5", watch("ADDED b@6", "open")},
			{"watch 6", watch("DELETED a@7", "open")},
			{"watch 7", watch("MODIFIED b@8", "open")},
			{"watch 6", watch("DELETED a@7", "open")},
			{"list", list("9", "", "b@8")}, {"watch 9", watch("open")},
			{"list", list("10", "", "c@10")}, {"watch 10", watch("open")},
		}}
		s := newStream(t, sc.client(), nil)
		tests := []struct {
			start stream.Start
			want  []string
			why   string
		}{
			{stream.Resume(), []string{"ADDED a@2", "SYNCED 5", "ADDED b@6"}, "the first run begins with a snapshot"},
			{stream.Resume(), []string{"SYNCED 6", "DELETED a@7"}, "the next one goes on where it ended"},
			{stream.Resume(), []string{"SYNCED 7", "MODIFIED b@8"}, "so does the one after that"},
			{stream.After("6"), []string{"SYNCED 6", "DELETED a@7"}, "a version is as good a start"},
			{stream.Start{}, []string{"ADDED b@8", "SYNCED 9"}, "a snapshot is one, too"},
			{stream.Resume(), []string{"ADDED c@10 inferred", "DELETED b@8 inferred", "SYNCED 10"},
				"with UntilSynced, Resume delivers the differences"},
		}
		for i, tt := range tests {
			s.run.Start = tt.start
			if i == len(tests)-1 {
				s.run.Until = stream.UntilSynced
			}
			if diff := cmp.Diff(tt.want, record(t, s, time.Second)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		}
	})
}

// Gap.Duration is how long the Stream may have missed events.
func TestGapDurationIsTheMissedTime(t *testing.T) {
	tests := []struct {
		name  string
		watch answer
		want  time.Duration
		why   string
	}{
		{"expired at once", watch("wait 3s", "ADDED b@6", "ERROR 410 Expired"), 0,
			"the watch expired right after an event"},
		{"expired after silence", watch("wait 3s", "ADDED b@6", "wait 20s", "ERROR 410 Expired"), 0,
			"the watch was open all the time"},
		{"broken, expired when resumed", watch("ADDED b@6", "reset"), 25 * time.Second,
			"the time since the last event, including failed requests"},
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
				sc.exchanges = append(sc.exchanges,
					exchange{"list", list("9", "", "a@2")}, exchange{"watch 9", watch("open")})
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
