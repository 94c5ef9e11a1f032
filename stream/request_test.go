package stream_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// TestProbesBeforeResuming: a watch that ended as planned is resumed at once, any other one after a probe.
func TestProbesBeforeResuming(t *testing.T) {
	tests := []struct {
		name  string
		watch answer
		want  []string
		why   string
	}{
		{"on time", watch("ADDED a@6", "wait 300s"), []string{"list", "watch 5", "watch 6"},
			"the watch ended at its timeout"},
		{"a moment early", watch("ADDED a@6", "wait 299500ms"), []string{"list", "watch 5", "watch 6"},
			"the server's clock may differ slightly"},
		{"early", watch("ADDED a@6", "wait 200s"), []string{"list", "watch 5", "probe", "watch 6"},
			"the server may have restarted and gone back in time"},
		{"on time, without an event", watch("wait 300s"), []string{"list", "watch 5", "probe", "watch 5"},
			"a watch at a version ahead of the server is silent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := &script{t: t, exchanges: []exchange{
					{"list", list("5", "")}, {"watch 5", tt.watch}, {tt.want[len(tt.want)-1], watch("open")},
				}}
				o := &setup{Options: stream.Options{Requests: stream.Requests{WatchLifetime: 5 * time.Minute,
					IdleTimeout: 10 * time.Minute}}}
				record(t, newStream(t, sc.client(), o), 302*time.Second)
				if diff := cmp.Diff(tt.want, sc.requests); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
			})
		})
	}
}

// TestMissingStreamedListsAreRemembered: on a server without streaming lists, a Stream tries them once, not in every
// run.
func TestMissingStreamedListsAreRemembered(t *testing.T) {
	tests := []struct {
		name   string
		answer answer
		why    string
	}{
		{"refused", status(422, metav1.StatusReasonInvalid), "a kube-apiserver without streaming lists answers 422"},
		{"not understood", watch("ADDED a@2", "BOOKMARK @5", "open"), "the bookmark is not the marker of the end"},
		{"no marker", watch("ADDED a@2", "open"), "each run would wait for the marker"},
		{"no marker, never silent for long", watch(slices.Repeat([]string{"ADDED a@2", "wait 9s"}, 100)...),
			"a streaming list may be silent for five minutes in all"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := &script{t: t, exchanges: []exchange{
					{"watch initial", tt.answer}, {"list", list("5", "", "a@2")}, {"watch 5", watch("open")},
					{"list", list("6", "", "a@2")}, {"watch 6", watch("open")},
				}}
				s := streamOf(t, sc.client(), widgets(),
					&setup{Options: stream.Options{
						Requests: stream.Requests{IdleTimeout: time.Hour, WatchLifetime: time.Hour}}})
				for range 2 {
					record(t, s, 6*time.Minute)
				}
				want := []string{"watch initial", "list", "watch 5", "list", "watch 6"}
				if diff := cmp.Diff(want, sc.requests); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
			})
		})
	}
}

// TestRefusedRequestsAreRetried: after the first SYNCED, refused requests are retried after waits that grow up to 15
// seconds, so that a Stream notices within 15 seconds that its rights are back.
func TestRefusedRequestsAreRetried(t *testing.T) {
	for _, refusal := range []answer{
		status(401, metav1.StatusReasonUnauthorized),
		status(403, metav1.StatusReasonForbidden),
		status(404, metav1.StatusReasonNotFound),
	} {
		synctest.Test(t, func(t *testing.T) {
			sc := &script{t: t, exchanges: []exchange{
				{"list", list("5", "")}, {"watch 5", watch("wait 5s")}, {"", refusal},
			}}
			record(t, newStream(t, sc.client(), nil), 5*time.Minute)
			refused := sc.times[3:] // after the list, the watch and the first probe
			for i := 1; i < len(refused); i++ {
				if d := refused[i].Sub(refused[i-1]); d > 15*time.Second {
					t.Errorf("request %d came %v after the previous one, want at most 15s", i, d)
				}
			}
			// About 20 until the waits are 7.5 to 15 s long, then 20 in the rest of the time.
			if len(refused) < 20 || len(refused) > 60 {
				t.Errorf("%d requests in five minutes, want 20 to 60", len(refused))
			}
		})
	}
}

// TestTimeoutsGrow: a request without an answer is repeated with a longer timeout, for a page that takes minutes, or a
// server that queues the watch. The timeouts have a limit.
func TestTimeoutsGrow(t *testing.T) {
	const m = time.Minute
	for _, tt := range []struct {
		verb   string
		script []exchange
		want   []time.Duration
		why    string
	}{
		{"list", []exchange{{"", hang}}, []time.Duration{2 * m, 4 * m, 8 * m, 16 * m, 16 * m}, "up to 16 minutes"},
		{"watch", append([]exchange{{"list", list("5", "")}}, slices.Repeat([]exchange{{"watch 5", hang}}, 6)...),
			[]time.Duration{m / 2, m, 2 * m, 4 * m, 4 * m}, "up to 4 minutes"},
		{"probe", []exchange{{"list", list("5", "")}, {"watch 5", watch("wait 5s")}, {"", hang}},
			[]time.Duration{m / 4, m / 4, m / 4, m / 4, m / 4}, "one object is a small answer"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []time.Duration
			s := newStream(t, (&script{t: t, exchanges: tt.script}).client(),
				&setup{Options: stream.Options{Trace: &stream.Trace{RequestDone: func(r stream.Request) {
					if r.Verb != tt.verb || r.Err == nil || len(got) == len(tt.want) {
						return
					}
					got = append(got, r.Duration)
					if !strings.Contains(r.Err.Error(), "did not answer in time") {
						t.Errorf("%s: the error does not say what is wrong: %v", tt.verb, r.Err)
					}
				}}}})
			record(t, s, 50*m)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", tt.verb, tt.why, diff)
			}
		})
	}
}

// TestWatchesEndAtRandomTimes: watches that start together do not end together.
func TestWatchesEndAtRandomTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{
			{"list", list("5", "")}, {"", either(list("5", ""), watch("wait 3s"))},
		}}
		record(t, newStream(t, sc.client(), nil), 2*time.Minute)
		slices.Sort(sc.lifetimes)
		if n := len(sc.lifetimes); n < 30 || sc.lifetimes[n-1]-sc.lifetimes[0] < time.Minute {
			t.Errorf("%d watches requested %v, want random times between 5 and 10 minutes", n, sc.lifetimes)
		}
	})
}

// The client does not leave the header to client-go, which would retry at once after a zero.
func TestRetryAfterIsWaitedForInFull(t *testing.T) {
	tests := []struct {
		header      string
		least, most time.Duration // until the next request
		why         string
	}{
		{"300", 300 * time.Second, 300 * time.Second, "a wait longer than the timeout for opening a watch"},
		{"0", 0, 2 * time.Second, "zero seconds: the usual waits"},
		{"-5", 0, 2 * time.Second, "an invalid value: the usual waits"},
		{"Fri, 31 Dec 1999 23:59:59 GMT", 0, 2 * time.Second, "a date, which is not supported: the usual waits"},
	}
	for _, verb := range []string{"list", "watch 5"} {
		for _, tt := range tests {
			t.Run(verb+" "+tt.header, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					busy := func(*http.Request) (*http.Response, error) {
						resp, err := respondJSON(503, failure(503, metav1.StatusReasonServiceUnavailable, 0))
						resp.Header.Set("Retry-After", tt.header)
						return resp, err
					}
					sc := &script{t: t, exchanges: []exchange{
						{verb, busy}, {"list", list("5", "")}, {"watch 5", watch("open")},
					}}
					failed := 0 // index of the request that fails
					if verb != "list" {
						sc.exchanges = []exchange{{"list", list("5", "")}, {verb, busy}, {verb, watch("open")}}
						failed = 1
					}
					client, err := stream.NewClient(&rest.Config{Host: "http://server", Transport: sc, QPS: -1}, nil)
					if err != nil {
						t.Fatal(err)
					}
					s := newStream(t, client, nil)
					if diff := cmp.Diff([]string{"SYNCED 5"}, record(t, s, 310*time.Second)); diff != "" {
						t.Errorf("%s (-want +got):\n%s", tt.why, diff)
					}
					if d := sc.times[failed+1].Sub(sc.times[failed]); d < tt.least || d > tt.most {
						t.Errorf("%s: retried after %v, want %v to %v", tt.why, d, tt.least, tt.most)
					}
				})
			})
		}
	}
}
