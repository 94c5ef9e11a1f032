package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

var unauthorized = status(401, metav1.StatusReasonUnauthorized)

// TestRefusedCredentialsAreTriedAgain: a credential plugin is asked for others after a 401 only, so the first one is
// not the last word. Credentials that are wrong end the run soon nevertheless.
func TestRefusedCredentialsAreTriedAgain(t *testing.T) {
	tests := []struct {
		streamed bool
		script   []exchange
		want     []string
		ends     bool
		why      string
	}{
		{false, []exchange{{"list", unauthorized}, {"list", list("5", "", "a@3")}, {"watch 5", watch("open")}},
			[]string{"ADDED a@3", "SYNCED 5"}, false, "the list is tried again"},
		{false, []exchange{{"list", unauthorized}, {"list", unauthorized}, {"list", list("5", "")},
			{"watch 5", watch("open")}},
			[]string{"SYNCED 5"}, false, "twice"},
		{false, []exchange{{"list", unauthorized}, {"list", unauthorized}, {"list", unauthorized}}, nil, true,
			"the third 401 is final"},
		{false, []exchange{{"list", list("5", "")}, {"watch 5", unauthorized}, {"watch 5", watch("open")}},
			[]string{"SYNCED 5"}, false, "the first watch is tried again"},
		{false, []exchange{{"list", unauthorized}, {"list", list("5", "")}, {"watch 5", unauthorized},
			{"watch 5", unauthorized}, {"watch 5", watch("open")}},
			[]string{"SYNCED 5"}, false, "the list was accepted meanwhile"},
		{false, []exchange{{"list", list("5", "k", "a@3")}, {"list continue=k", unauthorized},
			{"list continue=k", list("5", "", "b@4")}, {"watch 5", watch("open")}},
			[]string{"ADDED a@3", "ADDED b@4", "SYNCED 5"}, false, "credentials that expire within a list"},
		{true, []exchange{{"watch initial", unauthorized}, {"watch initial", watch("MARKER @5", "open")}},
			[]string{"SYNCED 5"}, false, "a streaming list is tried again"},
		{true, []exchange{{"watch initial", unauthorized}, {"watch initial", unauthorized},
			{"watch initial", unauthorized}}, nil, true, "three times"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := &script{t: t, exchanges: tt.script}
				o := &setup{Options: stream.Options{Requests: stream.Requests{PagedLists: !tt.streamed}}}
				s := streamOf(t, sc.client(), widgets(), o)
				began := time.Now()
				var got []string
				var last error
				for ev, err := range s.Events(anHour(t)) {
					if last = err; err != nil {
						break
					}
					got = append(got, text(ev))
					if ev.Type == stream.Synced {
						break
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				var refused *stream.RequestError
				if tt.ends != (errors.As(last, &refused) && apierrors.IsUnauthorized(last) && refused.Verb != "") {
					t.Errorf("the run ends with %v", last)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v, want at most 1 s", took)
				}
				if n := sc.left(); n > 0 {
					t.Errorf("the last %d requests were not sent", n)
				}
			})
		})
	}
}

// TestGatewayRefusesNothing: what a gateway answers in the place of the server is not the server's word. It ends no
// run, and is no evidence that a version has expired or that lists are forbidden.
func TestGatewayRefusesNothing(t *testing.T) {
	answers := map[string]func(code int) answer{
		"HTML": gateway,
		"JSON that is no Status": func(code int) answer {
			return func(*http.Request) (*http.Response, error) {
				return respondJSON(code, map[string]any{"error": "no backend", "code": code})
			}
		},
		"a page of 1.8 MB": func(code int) answer {
			return func(*http.Request) (*http.Response, error) {
				return respond(code, io.NopCloser(strings.NewReader(strings.Repeat("<p>no</p>", 200_000))))
			}
		},
		"a Status with another code": func(code int) answer {
			return func(*http.Request) (*http.Response, error) {
				return respondJSON(code, failure(int32(code)+30, metav1.StatusReasonForbidden, 0))
			}
		},
		"null": func(code int) answer {
			return func(*http.Request) (*http.Response, error) { return respondJSON(code, nil) }
		},
	}
	for body, of := range answers {
		for _, code := range []int{400, 401, 403, 404, 405, 409, 406, 410, 422} {
			bad := of(code)
			times := 4 // more often than a 401 with a Status is tried again
			if code == 410 {
				times = 1 // after many failures, a 410 to a probe lets the watch decide
			}
			again := slices.Repeat([]exchange{{"list", bad}}, times)
			for name, exchanges := range map[string][]exchange{
				"before SYNCED": append(slices.Clone(again), exchange{"list", list("5", "")},
					exchange{"watch 5", bad}, exchange{"probe", bad}, exchange{"probe", list("6", "")},
					exchange{"watch 5", watch("ADDED a@7", "open")}),
				"later": {{"list", list("5", "")}, {"watch 5", watch("wait 3s")}, {"probe", bad}, {"probe", bad},
					{"probe", list("6", "")}, {"watch 5", bad}, {"probe", list("6", "")},
					{"watch 5", watch("ADDED a@7", "open")}},
			} {
				t.Run(fmt.Sprintf("%s, %d, %s", body, code, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						sc := &script{t: t, exchanges: exchanges, noProbes: true}
						client, err := stream.NewClient(&rest.Config{Host: "http://server", Transport: sc}, nil)
						if err != nil {
							t.Fatal(err)
						}
						if body == "HTML" {
							client = sc.client() // client-go's
						}
						got := record(t, newStream(t, client, nil), 3*time.Minute)
						if diff := cmp.Diff([]string{"SYNCED 5", "ADDED a@7"}, got); diff != "" {
							t.Errorf("(-want +got):\n%s", diff)
						}
					})
				})
			}
		}
	}
}

// TestFirstListIsAnotherDocument: a JSON document that says of which kind it is, and is no list of the resource, is the
// server's word, and ends a run that has not synced. What says nothing of the kind is retried.
func TestFirstListIsAnotherDocument(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		ends       bool
	}{
		{"nothing", "", false},
		{"HTML", "<html></html>", false},
		{"null", "null", false},
		{"no object", "[]", false},
		{"an empty object", "{}", false},
		{"no kind", `{"apiVersion":"example.com/v1","metadata":{"resourceVersion":"5"},"items":[]}`, false},
		{"a Status", `{"kind":"Status","apiVersion":"v1","status":"Success"}`, true},
		{"a Table", `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},"rows":[]}`,
			true},
		{"one object", `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a"}}`, true},
		{"a list of another group", `{"kind":"WidgetList","apiVersion":"v1","items":[]}`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				document := func(*http.Request) (*http.Response, error) {
					return respond(200, io.NopCloser(strings.NewReader(tt.body)))
				}
				sc := &script{t: t, exchanges: []exchange{{"list", document}}, noProbes: true}
				want := []string(nil)
				if !tt.ends {
					sc.exchanges = append(sc.exchanges, exchange{"list", list("5", "")},
						exchange{"watch 5", watch("open")})
					want = []string{"SYNCED 5"}
				}
				var got []string
				var last error
				for ev, err := range newStream(t, sc.client(), nil).Events(anHour(t)) {
					if last = err; err != nil || ev.Type == stream.Synced {
						if err == nil {
							got = append(got, text(ev))
						}
						break
					}
				}
				var refused *stream.RequestError
				if diff := cmp.Diff(want, got); diff != "" || errors.As(last, &refused) != tt.ends {
					t.Errorf("it ends with %v, -want +got:\n%s", last, diff)
				}
			})
		})
	}
}

// TestGatewayWithoutStreamingLists: 405 and 422 show that streaming lists are not to be had, from whomever they are.
func TestGatewayWithoutStreamingLists(t *testing.T) {
	for _, code := range []int{405, 422} {
		synctest.Test(t, func(t *testing.T) {
			sc := &script{t: t, exchanges: []exchange{
				{"watch initial", gateway(code)}, {"list", list("5", "")}, {"watch 5", watch("open")},
			}}
			began := time.Now()
			got := record(t, streamOf(t, sc.client(), widgets(), nil), time.Minute)
			if diff := cmp.Diff([]string{"SYNCED 5"}, got); diff != "" {
				t.Errorf("%d (-want +got):\n%s", code, diff)
			}
			if at := sc.times[1].Sub(began); at > 0 {
				t.Errorf("%d: the list came after %v, want at once", code, at)
			}
		})
	}
}

// TestPathThatNoAPIHas: a kube-apiserver answers with the plain text of http.NotFound for a group that it doesn't
// serve.
func TestPathThatNoAPIHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{{"list", func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			http.NotFound(w, r)
			return w.Result(), nil
		}}}}
		var last error
		for _, last = range newStream(t, sc.client(), nil).Events(anHour(t)) {
		}
		if !apierrors.IsNotFound(last) || len(sc.requests) != 1 {
			t.Errorf("the run ends with %v after %d requests, want 404 after one", last, len(sc.requests))
		}
	})
}

// TestExpiredVersionWithoutAStatus: a server that says 410 in its own way again and again is believed.
func TestExpiredVersionWithoutAStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{{"list", list("5", "")}, {"watch 5", watch("wait 3s")},
			{"watch 5", gateway(410)}, {"watch 5", gateway(410)}, {"watch 5", gateway(410)},
			{"list", list("9", "", "a@8")}, {"watch 9", watch("open")}}}
		got := record(t, newStream(t, sc.client(), nil), time.Minute)
		want := []string{"SYNCED 5", "GAP expired from 5 to 9", "ADDED a@8 inferred", "SYNCED 9"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestRetryRefused: a program may be earlier than its CRD, its rights or its token.
func TestRetryRefused(t *testing.T) {
	for _, tt := range []struct {
		answer answer
		state  stream.State
		why    string
	}{
		{status(404, metav1.StatusReasonNotFound), stream.Gone, "a CRD that is late"},
		{status(403, metav1.StatusReasonForbidden), stream.Forbidden, "a right that is late"},
		{unauthorized, stream.Unauthorized, "a token that is late"},
		{status(400, metav1.StatusReasonBadRequest), stream.Backoff, "a selectable field that is late"},
		{status(405, metav1.StatusReasonMethodNotAllowed), stream.Backoff, "a verb that is late"},
		{status(200, ""), stream.Backoff, "a list that can't be used"},
	} {
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.why, ", streamed: ", streamed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					late := time.Now().Add(5 * time.Minute)
					answers := func(r *http.Request) (*http.Response, error) {
						switch got := describe(r); {
						case time.Now().Before(late):
							return tt.answer(r)
						case got == "list" || got == "probe":
							return list("5", "", "a@3")(r)
						case got == "watch initial":
							return watch("ADDED a@3", "MARKER @5", "open")(r)
						}
						return watch("open")(r)
					}
					sc := &script{t: t, exchanges: []exchange{{"", answers}}}
					o := &setup{Run: stream.Run{RetryRefused: true}}
					o.Requests.PagedLists = !streamed
					s := streamOf(t, sc.client(), widgets(), o)
					go func() {
						time.Sleep(4 * time.Minute)
						st := s.Status()
						if st.State != tt.state || st.Synced || st.Cause == nil || !st.NextTry.After(time.Now()) ||
							time.Until(st.NextTry) > 15*time.Second {
							t.Errorf("after 4 minutes Status is %+v, want %s with a cause and a next try", st, tt.state)
						}
					}()
					var synced time.Time
					for ev, err := range s.Events(anHour(t)) {
						noError(t, err)
						if ev.Type == stream.Synced {
							synced = time.Now()
							break
						}
					}
					if d := synced.Sub(late); d < 0 || d > 31*time.Second {
						t.Errorf("SYNCED came %v after the server was ready, want at most two waits of 15 s", d)
					}
					if n := len(sc.requests); n > 120 {
						t.Errorf("%d requests in 5 minutes, want at most 120", n)
					}
				})
			})
		}
	}
}

// TestRetryRefusedGivesUp: GiveUpAfter bounds the retries of refusals, too.
func TestRetryRefusedGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{{"", status(403, metav1.StatusReasonForbidden)}}}
		o := &setup{Run: stream.Run{RetryRefused: true}}
		o.Requests.GiveUpAfter = time.Minute
		began := time.Now()
		var last error
		for _, last = range newStream(t, sc.client(), o).Events(anHour(t)) {
		}
		if gaveUp := (*stream.GaveUpError)(nil); !errors.As(last, &gaveUp) || !apierrors.IsForbidden(gaveUp.Err) {
			t.Errorf("the run ends with %v, want a GaveUpError about 403", last)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %v, want a minute", took)
		}
	})
}

// TestRetryAfterReplacesTheBackoff: after a long outage a wait would be 15 to 30 s, but the server says when it is
// back.
func TestRetryAfterReplacesTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outage, busy := time.Now().Add(10*time.Minute), time.Now().Add(11*time.Minute)
		var asked []time.Duration
		var last time.Time
		answers := func(r *http.Request) (*http.Response, error) {
			switch now := time.Now(); {
			case now.Before(outage):
				return refuse(r)
			case now.Before(busy):
				if !last.IsZero() {
					asked = append(asked, now.Sub(last))
				}
				last = now
				resp, err := respondJSON(503, failure(503, metav1.StatusReasonServiceUnavailable, 0))
				resp.Header.Set("Retry-After", "1")
				return resp, err
			case describe(r) == "list":
				return list("5", "")(r)
			}
			return watch("open")(r)
		}
		sc := &script{t: t, exchanges: []exchange{{"", answers}}}
		client, err := stream.NewClient(&rest.Config{Host: "http://server", Transport: sc}, nil)
		noError(t, err)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 12*time.Minute, errTimeUp)
		defer cancel()
		synced := time.Duration(0)
		for ev, err := range newStream(t, client, nil).Events(ctx) {
			if err == nil && ev.Type == stream.Synced {
				synced = time.Since(busy)
				break
			}
		}
		if len(asked) < 20 || slices.Max(asked) > 1200*time.Millisecond || slices.Min(asked) < time.Second {
			t.Errorf("waits while the server asks for 1 s: %v, want 1 to 1.2 s", asked)
		}
		if synced <= 0 || synced > 1500*time.Millisecond {
			t.Errorf("SYNCED came %v after the server was ready, want at most 1.5 s", synced)
		}
	})
}

// TestRetryAfterForEverIsBounded: many Streams that are asked to wait for a second, again and again, do not send a
// request each second.
func TestRetryAfterForEverIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 500, clients["NewClient"],
			setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}})
		f.apply("any *: 503 retry-after 1s\nat 1ms: close watches\nat 1m: heal")
		time.Sleep(time.Minute - time.Millisecond)
		if counts := f.perSecond(); slices.Max(counts) > 50 {
			t.Errorf("requests per second: %v, want at most 50", counts)
		}
		f.await(stream.Streaming, 10*time.Second)
	})
}
