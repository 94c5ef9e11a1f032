package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
)

func TestConversations(t *testing.T) {
	testConversations(t, []conversation{
		{"continue token expired", stream.Options{},
			[]exchange{
				{"list", list("5", "p2", "a@2", "b@3")},
				{"list continue=p2", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "a@8", "c@4")},
				{"watch 9", watch("open")},
			},
			[]string{"ADDED a@2", "ADDED b@3", "MODIFIED a@8 inferred", "ADDED c@4", "DELETED b@3 inferred", "SYNCED 9"},
			"the list begins again, and what it told before is corrected"},
		{"resume at the last bookmark", stream.Options{},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("ADDED b@6", "BOOKMARK @90")},
				{"watch 90", watch("open")},
			},
			[]string{"ADDED a@2", "SYNCED 5", "ADDED b@6"},
			"a quiet resource keeps a version the server knows"},
		{"expired as a response", stream.Options{},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", status(410, metav1.StatusReasonGone)},
				{"list", list("20", "", "a/other@15")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@2", "GAP expired from 5 to 20", "DELETED a@2 inferred", "ADDED a/other@15 inferred", "SYNCED 20"},
			"SYNCED waits for a watch; a successor is not its predecessor"},
		{"expired, and the list fails", stream.Options{},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", status(403, metav1.StatusReasonForbidden)},
				{"list", status(404, metav1.StatusReasonNotFound)},
				{"list", refuse},
				{"list", list("20", "", "a@2")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@2", "SYNCED 5", "GAP expired from 5 to 20", "SYNCED 20"},
			"one GAP; no failure is a deletion"},
		{"garbage", stream.Options{},
			[]exchange{
				{"list", list("5", "")},
				{"watch 5", watch("ADDED b@6", "raw not json at all\n", "open")},
				{"watch 6", watch("WHATEVER c@7", "open")},
				{"watch 6", watch("ADDED c@7", `raw {"type":"ADDED","object":{"metadata":{"name":"x"}}}`+"\n")},
				{"watch 7", watch("ADDED @8", "open")},
				{"watch 7", watch("ADDED d@8", `raw {"type":"ADDED","object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"e","namespace":7,"resourceVersion":"9"}}}`+"\n")},
				{"watch 8", watch("ADDED e@9", "open")},
			},
			[]string{"SYNCED 5", "ADDED b@6", "ADDED c@7", "ADDED d@8", "ADDED e@9"},
			"no JSON, an unknown type, no kind, no name, no namespace: nothing is told, nothing is passed over"},
		{"token refused", stream.Options{},
			[]exchange{
				{"list", list("5", "p2", "a@2")},
				{"list continue=p2", status(400, metav1.StatusReasonBadRequest)},
				{"list", list("6", "", "a@2", "b@6")},
				{"watch 6", watch("open")},
			},
			[]string{"ADDED a@2", "ADDED b@6", "SYNCED 6"},
			"a server of another version knows no such token; the list is none the worse"},
		{"end at the last version", stream.Options{},
			[]exchange{
				{"list", list("5", "", "a@2", "b@5")},
				{"watch 5", watch("DELETED a@2", "DELETED b@5", "ADDED c@6", "DELETED c@6", "open")},
			},
			[]string{"ADDED a@2", "ADDED b@5", "SYNCED 5", "DELETED a@2", "DELETED b@5", "ADDED c@6", "DELETED c@6"},
			"a server that does not give deletions a version of their own"},
		{"version 0", stream.Options{},
			[]exchange{
				{"list", list("5", "")},
				{"watch 5", watch("BOOKMARK @0", "ADDED a@6", "BOOKMARK @0")},
				{"watch 6", watch("open")},
			},
			[]string{"SYNCED 5", "ADDED a@6"},
			"never back to version 0"},
		{"closed after five seconds, quietly", stream.Options{},
			[]exchange{
				{"list", list("5", "")},
				{"watch 5", watch("wait 5s")}, {"watch 5", watch("wait 5s")}, {"watch 5", watch("wait 5s")}, {"watch 5", watch("wait 5s")},
				{"watch 5", watch("ADDED a@6", "open")},
			},
			[]string{"SYNCED 5", "ADDED a@6"},
			"an impatient proxy, or rest.Config.Timeout: nothing has expired"},
		{"broken off while opening", stream.Options{},
			slices.Concat(
				[]exchange{{"list", list("5", "")}},
				// client-go itself tries eleven times before it gives up.
				slices.Repeat([]exchange{{"watch 5", breakOff}}, 4*11),
				[]exchange{{"watch 5", watch("ADDED a@6", "open")}},
			),
			[]string{"SYNCED 5", "ADDED a@6"},
			"client-go makes an empty watch of it; it is no answer of the server, so nothing has expired"},
		{"an object for a list", stream.Options{},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", func(*http.Request) (*http.Response, error) { return respondJSON(200, object("a@9")) }},
				{"list", list("20", "", "a@2")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@2", "SYNCED 5", "GAP expired from 5 to 20", "SYNCED 20"},
			"it lists nothing, and deletes nothing"},
		{"a Table for a list", stream.Options{},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", func(*http.Request) (*http.Response, error) {
					return respondJSON(200, map[string]any{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{"resourceVersion": "9"}})
				}},
				{"list", list("20", "", "a@2")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@2", "SYNCED 5", "GAP expired from 5 to 20", "SYNCED 20"},
			"it has no items, which does not mean that there are none"},
		{"a list of a kind that is not called so", stream.Options{},
			[]exchange{
				{"list", func(*http.Request) (*http.Response, error) {
					return respondJSON(200, map[string]any{"kind": "WidgetCollection", "apiVersion": "example.com/v1", "metadata": map[string]any{"resourceVersion": "5"}, "items": []any{object("a@2")}})
				}},
				{"watch 5", watch("open")},
			},
			[]string{"ADDED a@2", "SYNCED 5"},
			"spec.names.listKind is up to the CRD"},
		{"an item without a name", stream.Options{},
			[]exchange{
				{"list", list("5", "", "a@2", "b@2")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", list("19", "", "a@2", "@3")},
				{"list", list("20", "", "a@2", "b@2")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@2", "ADDED b@2", "SYNCED 5", "GAP expired from 5 to 20", "SYNCED 20"},
			"such a list is a base for nothing"},
	})
}

func TestFinalErrors(t *testing.T) {
	tests := []struct {
		verb   string
		answer answer
		is     func(error) bool
		why    string
	}{
		{"list", status(400, metav1.StatusReasonBadRequest), apierrors.IsBadRequest, "a field selector the resource does not know"},
		{"list", status(401, metav1.StatusReasonUnauthorized), apierrors.IsUnauthorized, "a wrong token"},
		{"list", status(403, metav1.StatusReasonForbidden), apierrors.IsForbidden, "no right to list"},
		{"list", status(404, metav1.StatusReasonNotFound), apierrors.IsNotFound, "no such resource"},
		{"list", status(405, metav1.StatusReasonMethodNotAllowed), apierrors.IsMethodNotSupported, "not a resource that lists"},
		{"list", status(422, metav1.StatusReasonInvalid), apierrors.IsInvalid, "invalid options"},
		{"list", list("0", ""), func(err error) bool { return strings.Contains(err.Error(), "resourceVersion") }, "version 0 is any version"},
		{"watch", status(403, metav1.StatusReasonForbidden), apierrors.IsForbidden, "the right to list, but not to watch"},
		{"list", list("5", "", "@2"), func(err error) bool { return strings.Contains(err.Error(), "lacks its name") }, "objects that can't be told from each other"},
		{"list", func(*http.Request) (*http.Response, error) { return respondJSON(200, object("a@9")) }, func(err error) bool { return strings.Contains(err.Error(), "something else") }, "an object for a list"},
		{"list", list("", ""), func(err error) bool { return strings.Contains(err.Error(), "resourceVersion") }, "a list that can't be watched from"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := &script{t: t, exchanges: []exchange{{"list", tt.answer}}}
			if tt.verb == "watch" {
				s.exchanges = []exchange{{"list", list("5", "")}, {"watch 5", tt.answer}}
			}
			events := 0
			var last error
			for _, err := range newStream(t, s.client(), &stream.Options{Namespaces: []string{"default"}}).Events(anHour(t)) {
				events++
				last = err
			}
			var re *stream.RequestError
			if events != 1 || !errors.As(last, &re) || !tt.is(last) {
				t.Fatalf("%s: %d events, last %v; want one *RequestError that the predicate sees through", tt.why, events, last)
			}
			if re.Verb != tt.verb || re.Resource.String() != "widgets.v1.example.com" || re.Namespace != "default" {
				t.Errorf("the error does not say what failed: %+v", re)
			}
		})
	}
}

func TestBookmarksResetIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{{"list", list("5", "")}, {"watch 5", watch("wait 39s", "BOOKMARK @6", "wait 39s", "BOOKMARK @7", "wait 39s", "ADDED a@8", "open")}}}
		record(t, newStream(t, sc.client(), &stream.Options{IdleTimeout: 40 * time.Second}), 150*time.Second)
		if diff := cmp.Diff([]string{"list", "watch 5"}, sc.requests); diff != "" {
			t.Errorf("bookmarks are signs of life (-want +got):\n%s", diff)
		}
	})
}

func TestSlowPage(t *testing.T) {
	// Five minutes for a page: too long at first, but not for ever.
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, exchanges: []exchange{{"", func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Has("watch") {
				return watch("open")(r)
			}
			select {
			case <-time.After(5 * time.Minute):
				return list("5", "", "a@1")(r)
			case <-r.Context().Done():
				return nil, context.Cause(r.Context())
			}
		}}}}
		if diff := cmp.Diff([]string{"ADDED a@1", "SYNCED 5"}, record(t, newStream(t, s.client(), nil), 15*time.Minute)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestNoHotLoop(t *testing.T) {
	object := "a@6"
	tests := map[string][]exchange{
		"every list fails":                         {{"", status(500, metav1.StatusReasonInternalError)}},
		"every request is refused":                 {{"", refuse}},
		"every watch is empty":                     {{"list", list("5", "")}, {"", watch()}},
		"every version is expired":                 {{"", either(list("5", "", object), status(410, metav1.StatusReasonExpired))}},
		"every watch says expired":                 {{"", either(list("5", "", object), watch("ERROR 410 Expired"))}},
		"every watch says one thing, then expired": {{"", either(list("5", "", object), nextEvent("ERROR 410 Expired"))}},
		"pages in a circle":                        {{"", tokenCycle()}},
		"every watch says one thing":               {{"", either(list("5", "", object), nextEvent())}},
		"every list is of other versions":          {{"", newVersions()}},
		"every page is the same":                   {{"", list("5", "again")}},
		"every watch is garbage":                   {{"", either(list("5", ""), watch("raw }{", "open"))}},
	}
	options := map[string]*stream.Options{
		"pages without end":                nil,
		"pages without end, some selected": {Select: func(m stream.Meta) bool { return m.GetName() == "a" }},
		"pages without end, and no index":  {NoIndex: true},
	}
	for name := range options {
		tests[name] = []exchange{{"", samePages()}}
	}
	for name, exchanges := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{t: t, exchanges: exchanges}
				record(t, newStream(t, s.client(), options[name]), time.Minute)
				for i := range s.times {
					// At most 5 a second on average over any 10 s.
					if j := i + 50; j < len(s.times) && s.times[j].Sub(s.times[i]) < 10*time.Second {
						t.Fatalf("51 requests within %v", s.times[j].Sub(s.times[i]))
					}
				}
				if len(s.times) < 3 {
					t.Errorf("only %d requests in a minute: it has given up", len(s.times))
				}
			})
		})
	}
}

// either answers lists and watches differently.
func either(list, watch answer) answer {
	return func(r *http.Request) (*http.Response, error) {
		if !strings.HasPrefix(describe(r), "watch") {
			return list(r)
		}
		return watch(r)
	}
}

func nextEvent(after ...string) answer {
	rv := 5
	return func(r *http.Request) (*http.Response, error) {
		rv++
		return watch(append([]string{fmt.Sprintf("MODIFIED a@%d", rv)}, after...)...)(r)
	}
}

func tokenCycle() answer {
	next := map[string]string{"": "x", "x": "y", "y": "z", "z": "x"}
	return func(r *http.Request) (*http.Response, error) {
		return list("5", next[r.URL.Query().Get("continue")])(r)
	}
}

// samePages is a list that repeats a page, always with another token.
func samePages() answer {
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		n++
		return list("5", fmt.Sprint("x", n), "a@1", "b@2")(r)
	}
}

func newVersions() answer {
	rv := 5
	return func(r *http.Request) (*http.Response, error) {
		rv++
		return list(fmt.Sprint(rv), "more")(r)
	}
}

func TestStop(t *testing.T) {
	tests := map[string][]exchange{
		"while listing":    {{"list", hang}},
		"while connecting": {{"list", list("5", "")}, {"watch 5", hang}},
		"while streaming":  {{"list", list("5", "")}, {"watch 5", watch("open")}},
		"while waiting":    {{"list", list("5", "")}, {"watch 5", watch("ERROR 429 TooManyRequests 3600")}},
		"while client-go waits": {{"list", list("5", "")}, {"watch 5", func(*http.Request) (*http.Response, error) {
			resp, err := respondJSON(429, failure(429, metav1.StatusReasonTooManyRequests, 0))
			resp.Header.Set("Retry-After", "3600")
			return resp, err
		}}},
		"while probing": {{"list", list("5", "")}, {"watch 5", watch()}, {"probe", hang}},
		"while probes fail": {{"list", list("5", "")}, {"watch 5", watch()},
			{"", status(500, metav1.StatusReasonInternalError)}},
	}
	for name, exchanges := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(t, (&script{t: t, exchanges: exchanges}).client(), nil)
				s.Stop() // of nothing
				go func() {
					time.Sleep(10 * time.Second)
					s.Stop()
					s.Stop()
				}()
				began := time.Now()
				for ev, err := range s.Events(anHour(t)) {
					if err != nil {
						t.Errorf("Stop is no error: %v", err)
					} else if ev.Type != stream.Synced {
						t.Errorf("unexpected %s", text(ev))
					}
				}
				if d := time.Since(began); d != 10*time.Second {
					t.Errorf("it ended after %v, want 10 s", d)
				}
				s.Stop()
				// The bubble fails if a goroutine is left.
			})
		})
	}
}

func TestStopInLoopBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{
			{"list", list("5", "", "a@1", "b@2", "c@3")},
			{"list", list("5", "", "a@1")},
			{"watch 5", watch("open")},
		}}
		s := newStream(t, sc.client(), nil)
		var got []string
		for ev := range s.Events(anHour(t)) {
			got = append(got, text(ev))
			s.Stop()
		}
		if diff := cmp.Diff([]string{"ADDED a@1"}, got); diff != "" {
			t.Errorf("Stop in the loop's body (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"ADDED a@1", "SYNCED 5"}, record(t, s, time.Second)); diff != "" {
			t.Errorf("ranged over again, from the beginning (-want +got):\n%s", diff)
		}
	})
}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t, (&script{t: t, exchanges: []exchange{{"list", list("5", "")}, {"watch 5", watch("open")}}}).client(), nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		why := errors.New("enough")
		var errs []error
		for _, err := range s.Events(ctx) {
			if err != nil {
				errs = append(errs, err)
			}
			cancel(why)
		}
		if len(errs) != 1 || !errors.Is(errs[0], why) {
			t.Errorf("got %v, want the cause of the context, once and last", errs)
		}
	})
}

func TestLeaveLoop(t *testing.T) {
	conversation := func() []exchange {
		return []exchange{{"list", list("5", "")}, {"watch 5", watch("ADDED a@6", "ADDED b@7", "open")}}
	}
	leave := map[string]func(*testing.T, *stream.Stream){
		"break": func(t *testing.T, s *stream.Stream) {
			for ev := range s.Events(anHour(t)) {
				if ev.Type == stream.Added {
					break
				}
			}
		},
		"panic": func(t *testing.T, s *stream.Stream) {
			defer func() {
				if recover() != "mine" {
					t.Error("the panic was lost")
				}
			}()
			for ev := range s.Events(anHour(t)) {
				if ev.Type == stream.Added {
					panic("mine")
				}
			}
		},
	}
	for name, f := range leave {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(t, (&script{t: t, exchanges: append(conversation(), conversation()...)}).client(), nil)
				f(t, s)
				f(t, s) // it has let go of everything, or this would be ErrBusy
			})
		})
	}
}

func TestRunAgainAfterFinalError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forbidden := exchange{"list", status(403, metav1.StatusReasonForbidden)}
		s := newStream(t, (&script{t: t, exchanges: []exchange{forbidden, forbidden}}).client(), nil)
		for _, err := range s.Events(anHour(t)) {
			for _, again := range s.Events(anHour(t)) {
				if !apierrors.IsForbidden(err) || !apierrors.IsForbidden(again) {
					t.Errorf("got %v, then %v: the first range was over with its error", err, again)
				}
			}
		}
	})
}

func TestOneRunAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t, (&script{t: t, exchanges: []exchange{{"list", list("5", "", "a@1")}}}).client(), nil)
		for range s.Events(anHour(t)) {
			var errs []error
			for _, err := range s.Events(anHour(t)) {
				errs = append(errs, err)
			}
			if len(errs) != 1 || !errors.Is(errs[0], stream.ErrBusy) {
				t.Errorf("got %v, want ErrBusy", errs)
			}
			break
		}
	})
}

func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		sc := &script{t: t, exchanges: []exchange{{"list", refuse}, {"list", list("5", "")}, {"watch 5", watch("open")}}}
		record(t, newStream(t, sc.client(), &stream.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}), time.Minute)
		for _, want := range []string{"level=WARN", "widgets.v1.example.com", "connection refused", "after=", "level=INFO", "watching again"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q: %s", want, log.String())
			}
		}
	})
}
