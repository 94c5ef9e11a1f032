package stream_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// How a watch is taken up again: at once where it ended as planned, after a look
// at the server where it did not.
func TestProbesBeforeResuming(t *testing.T) {
	tests := []struct {
		name  string
		watch answer
		want  []string
		why   string
	}{
		{"on time", watch("ADDED a@6", "wait 300s"), []string{"list", "watch 5", "watch 6"}, "as asked for"},
		{"a moment early", watch("ADDED a@6", "wait 299500ms"), []string{"list", "watch 5", "watch 6"}, "servers have clocks of their own"},
		{"early", watch("ADDED a@6", "wait 200s"), []string{"list", "watch 5", "probe", "watch 6"}, "a restart, perhaps of a server that has gone back in time"},
		{"on time, but it said nothing", watch("wait 300s"), []string{"list", "watch 5", "probe", "watch 5"}, "a watch in the future of its server is silent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := &script{t: t, exchanges: []exchange{
					{"list", list("5", "")}, {"watch 5", tt.watch}, {tt.want[len(tt.want)-1], watch("open")},
				}}
				record(t, newStream(t, sc.client(), &stream.Options{Timeout: 5 * time.Minute, IdleTimeout: 10 * time.Minute}), 302*time.Second)
				if diff := cmp.Diff(tt.want, sc.requests); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
			})
		})
	}
}

// That a server has no streaming lists is asked once, not by every range.
func TestMissingStreamedListsAreRemembered(t *testing.T) {
	tests := []struct {
		name   string
		answer answer
		why    string
	}{
		{"refused", status(422, metav1.StatusReasonInvalid), "as a kube-apiserver without them does"},
		{"not understood", watch("ADDED a@2", "BOOKMARK @5", "open"), "the bookmark is not the one that ends them"},
		{"no end", watch("ADDED a@2", "open"), "it would be waited for each time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := &script{t: t, exchanges: []exchange{
					{"watch initial", tt.answer}, {"list", list("5", "", "a@2")}, {"watch 5", watch("open")},
					{"list", list("6", "", "a@2")}, {"watch 6", watch("open")},
				}}
				s := streamOf(t, sc.client(), widgets(), &stream.Options{})
				for range 2 {
					record(t, s, 30*time.Second)
				}
				if diff := cmp.Diff([]string{"watch initial", "list", "watch 5", "list", "watch 6"}, sc.requests); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
			})
		})
	}
}

// What was refused once all was well is asked for slowly, but often enough that
// rights which come back are noticed within a quarter of a minute.
func TestRefusedRequestsAreRetriedSlowly(t *testing.T) {
	for _, refusal := range []answer{
		status(401, metav1.StatusReasonUnauthorized), status(403, metav1.StatusReasonForbidden), status(404, metav1.StatusReasonNotFound),
	} {
		synctest.Test(t, func(t *testing.T) {
			sc := &script{t: t, exchanges: []exchange{{"list", list("5", "")}, {"watch 5", watch("wait 5s")}, {"", refusal}}}
			record(t, newStream(t, sc.client(), nil), 5*time.Minute)
			refused := sc.times[3:] // after the list, the watch and the first probe
			for i := 1; i < len(refused); i++ {
				if d := refused[i].Sub(refused[i-1]); d < time.Second || d > 15*time.Second {
					t.Errorf("request %d came %v after the one before it, want 1 s to 15 s", i, d)
				}
			}
			if len(refused) < 5*60/15 {
				t.Errorf("%d requests in five minutes: it has given up", len(refused))
			}
		})
	}
}

// Many Streams that began at once must not come back at once.
func TestWatchesEndAtRandomTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{{"list", list("5", "")}, {"", either(list("5", ""), watch("wait 3s"))}}}
		record(t, newStream(t, sc.client(), nil), 2*time.Minute)
		slices.Sort(sc.lifetimes)
		if n := len(sc.lifetimes); n < 30 || sc.lifetimes[n-1]-sc.lifetimes[0] < time.Minute {
			t.Errorf("%d watches were to last %v: that is not between 5 and 10 minutes at random", n, sc.lifetimes)
		}
	})
}

// What a server asks for in a header is honoured in full, seen in Status, and not
// left to client-go, which would ask again at once after a zero.
func TestRetryAfterHeader(t *testing.T) {
	tests := []struct {
		header      string
		least, most time.Duration // until the next request
		why         string
	}{
		{"300", 300 * time.Second, 300 * time.Second, "longer than the opening of a watch may take"},
		{"0", 0, 2 * time.Second, "no time at all: the usual waits"},
		{"-5", 0, 2 * time.Second, "nonsense: the usual waits"},
		{"Fri, 31 Dec 1999 23:59:59 GMT", 0, 2 * time.Second, "a date: the usual waits"},
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
					sc := &script{t: t, exchanges: []exchange{{verb, busy}, {"list", list("5", "")}, {"watch 5", watch("open")}}}
					asked := 0
					if verb != "list" {
						sc.exchanges = []exchange{{"list", list("5", "")}, {verb, busy}, {verb, watch("open")}}
						asked = 1
					}
					client, err := stream.NewClient(&rest.Config{Host: "http://server", Transport: sc, QPS: -1}, nil)
					if err != nil {
						t.Fatal(err)
					}
					s := newStream(t, client, nil)
					if diff := cmp.Diff([]string{"SYNCED 5"}, record(t, s, 310*time.Second)); diff != "" {
						t.Errorf("%s (-want +got):\n%s", tt.why, diff)
					}
					if d := sc.times[asked+1].Sub(sc.times[asked]); d < tt.least || d > tt.most {
						t.Errorf("%s: asked again after %v, want %v to %v", tt.why, d, tt.least, tt.most)
					}
				})
			})
		}
	}
}
