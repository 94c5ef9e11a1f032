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

// TestConversations: a Stream recovers from what servers and proxies do, without a false deletion or a lost event.
func TestConversations(t *testing.T) {
	testConversations(t, []conversation{
		{"continue token expired", setup{},
			[]exchange{
				{"list", list("5", "p2", "a@2", "b@3")},
				{"list continue=p2", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "a@8", "c@4")},
				{"watch 9", watch("open")},
			},
			[]string{"ADDED a@2", "ADDED b@3",
				"MODIFIED a@8 inferred", "ADDED c@4", "DELETED b@3 inferred", "SYNCED 9"},
			"the list restarts; the differences to the pages already delivered follow"},
		{"pages of two versions", setup{},
			[]exchange{
				{"list", list("5", "p2", "a@2")},
				{"list continue=p2", list("6", "", "b@6")},
				{"list", list("7", "", "a@2", "b@6", "c@4")},
				{"watch 7", watch("open")},
			},
			[]string{"ADDED a@2", "ADDED b@6", "ADDED c@4", "SYNCED 7"},
			"together they show no state that ever was, so the list restarts"},
		{"resume at the last bookmark", setup{},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("ADDED b@6", "BOOKMARK @90")},
				{"watch 90", watch("open")},
			},
			[]string{"ADDED a@2", "SYNCED 5", "ADDED b@6"},
			"bookmarks keep the version of an idle resource recent"},
		{"expired as a response", setup{},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", status(410, metav1.StatusReasonGone)},
				{"list", list("20", "", "a/other@15")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@2",
				"GAP expired from 5 to 20", "DELETED a@2 inferred", "ADDED a/other@15 inferred", "SYNCED 20"},
			"SYNCED waits for an open watch; an object with a new uid is DELETED, then ADDED"},
		{"expired, and the list fails", setup{},
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
			"failed lists deliver no DELETED and no second GAP"},
		{"garbage", setup{},
			[]exchange{
				{"list", list("5", "")},
				{"watch 5", watch("ADDED b@6", "raw not json at all\n", "open")},
				{"watch 6", watch("WHATEVER c@7", "open")},
				{"watch 6", watch("ADDED c@7", `raw {"type":"ADDED","object":{"metadata":{"name":"x"}}}`+"\n")},
				{"watch 7", watch("ADDED @8", "open")},
				{"watch 7", watch("ADDED d@8", `raw {"type":"ADDED","object":{"apiVersion":"example.com/v1",`+
					`"kind":"Widget","metadata":{"name":"e","namespace":7,"resourceVersion":"9"}}}`+"\n")},
				{"watch 8", watch("ADDED e@9", "open")},
			},
			[]string{"SYNCED 5", "ADDED b@6", "ADDED c@7", "ADDED d@8", "ADDED e@9"},
			"a frame that can't be decoded (no JSON, unknown type, no kind, name or namespace) is requested again"},
		{"token refused", setup{},
			[]exchange{
				{"list", list("5", "p2", "a@2")},
				{"list continue=p2", status(400, metav1.StatusReasonBadRequest)},
				{"list", list("6", "", "a@2", "b@6")},
				{"watch 6", watch("open")},
			},
			[]string{"ADDED a@2", "ADDED b@6", "SYNCED 6"},
			"a server that refuses the continue token restarts the list without a GAP"},
		{"deletion at the object's last version", setup{},
			[]exchange{
				{"list", list("5", "", "a@2", "b@5")},
				{"watch 5", watch("DELETED a@2", "DELETED b@5", "ADDED c@6", "DELETED c@6", "open")},
			},
			[]string{"ADDED a@2", "ADDED b@5", "SYNCED 5", "DELETED a@2", "DELETED b@5", "ADDED c@6", "DELETED c@6"},
			"some servers give a deletion no version of its own"},
		{"version 0", setup{},
			[]exchange{
				{"list", list("5", "")},
				{"watch 5", watch("BOOKMARK @0", "ADDED a@6", "BOOKMARK @0")},
				{"watch 6", watch("open")},
			},
			[]string{"SYNCED 5", "ADDED a@6"},
			"a bookmark at version 0 does not change the version to resume at"},
		{"closed after five silent seconds", setup{},
			[]exchange{
				{"list", list("5", "")},
				{"watch 5", watch("wait 5s")}, {"watch 5", watch("wait 5s")},
				{"watch 5", watch("wait 5s")}, {"watch 5", watch("wait 5s")},
				{"watch 5", watch("ADDED a@6", "open")},
			},
			[]string{"SYNCED 5", "ADDED a@6"},
			"a proxy's timeout or rest.Config.Timeout does not mean that the version has expired"},
		{"HTTP/2 connection lost",
			setup{},
			slices.Concat(
				[]exchange{{"list", list("5", "")}},
				slices.Repeat([]exchange{{"watch 5", watch("wait 45s", "lost")}}, 4),
				[]exchange{{"watch 5", watch("ADDED a@6", "open")}},
			),
			[]string{"SYNCED 5", "ADDED a@6"},
			"a lost connection is no unreadable event, although client-go's ERROR is the same"},
		{"broken off while opening", setup{},
			slices.Concat(
				[]exchange{{"list", list("5", "")}},
				// client-go itself tries eleven times before it gives up.
				slices.Repeat([]exchange{{"watch 5", breakOff}}, 4*11),
				[]exchange{{"watch 5", watch("ADDED a@6", "open")}},
			),
			[]string{"SYNCED 5", "ADDED a@6"},
			"client-go turns EOF into an empty watch, which does not mean that the version has expired"},
		{"an object for a list", setup{},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", func(*http.Request) (*http.Response, error) { return respondJSON(200, object("a@9")) }},
				{"list", list("20", "", "a@2")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@2", "SYNCED 5", "GAP expired from 5 to 20", "SYNCED 20"},
			"an object is not an empty list, so nothing is deleted"},
		{"a Table for a list", setup{},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", func(*http.Request) (*http.Response, error) {
					return respondJSON(200, map[string]any{
						"kind": "Table", "apiVersion": "meta.k8s.io/v1",
						"metadata": map[string]any{"resourceVersion": "9"},
					})
				}},
				{"list", list("20", "", "a@2")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@2", "SYNCED 5", "GAP expired from 5 to 20", "SYNCED 20"},
			"a Table has no items, which does not mean that there are no objects"},
		{"a list kind that does not end in List", setup{},
			[]exchange{
				{"list", func(*http.Request) (*http.Response, error) {
					return respondJSON(200, map[string]any{
						"kind": "WidgetCollection", "apiVersion": "example.com/v1",
						"metadata": map[string]any{"resourceVersion": "5"}, "items": []any{object("a@2")},
					})
				}},
				{"watch 5", watch("open")},
			},
			[]string{"ADDED a@2", "SYNCED 5"},
			"a CRD may choose any spec.names.listKind"},
		{"an item without a name", setup{},
			[]exchange{
				{"list", list("5", "", "a@2", "b@2")},
				{"watch 5", watch("ERROR 410 Expired")},
				{"list", list("19", "", "a@2", "@3")},
				{"list", list("20", "", "a@2", "b@2")},
				{"watch 20", watch("open")},
			},
			[]string{"ADDED a@2", "ADDED b@2", "SYNCED 5", "GAP expired from 5 to 20", "SYNCED 20"},
			"a list with a nameless item is read again, and deletes nothing"},
	})
}

// A refusal before the first SYNCED ends the run with a *RequestError.
func TestEarlyRefusalEndsTheRun(t *testing.T) {
	says := func(text string) func(error) bool {
		return func(err error) bool { return strings.Contains(err.Error(), text) }
	}
	tests := []struct {
		verb   string
		answer answer
		is     func(error) bool
		why    string
	}{
		{"list", status(400, metav1.StatusReasonBadRequest), apierrors.IsBadRequest,
			"a field selector that the resource does not support"},
		{"list", status(403, metav1.StatusReasonForbidden), apierrors.IsForbidden, "no right to list"},
		{"list", status(404, metav1.StatusReasonNotFound), apierrors.IsNotFound, "no such resource"},
		{"list", status(405, metav1.StatusReasonMethodNotAllowed), apierrors.IsMethodNotSupported,
			"a resource without the verb list"},
		{"list", status(422, metav1.StatusReasonInvalid), apierrors.IsInvalid, "invalid options"},
		{"watch", status(403, metav1.StatusReasonForbidden), apierrors.IsForbidden,
			"the right to list, but not to watch"},
		{"list", list("5", "", "@2"), says("lacks its name"), "an object without a name"},
		{"list", func(*http.Request) (*http.Response, error) { return respondJSON(200, object("a@9")) },
			says("something else"), "an object instead of a list"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := &script{t: t, exchanges: []exchange{{"list", tt.answer}}}
			if tt.verb == "watch" {
				s.exchanges = []exchange{{"list", list("5", "")}, {"watch 5", tt.answer}}
			}
			events := 0
			var last error
			o := &setup{Options: stream.Options{Namespaces: []string{"default"}}}
			for _, err := range newStream(t, s.client(), o).Events(anHour(t)) {
				events++
				last = err
			}
			var re *stream.RequestError
			if events != 1 || !errors.As(last, &re) || !tt.is(last) {
				t.Fatalf("%s: %d events, the last with %v; want one *RequestError that the predicate recognises",
					tt.why, events, last)
			}
			if re.Verb != tt.verb || re.Resource.String() != "widgets.v1.example.com" || re.Namespace != "default" {
				t.Errorf("the error does not say what failed: %+v", re)
			}
		})
	}
}

// TestBookmarksResetIdleTimeout: a watch that receives only bookmarks stays open.
func TestBookmarksResetIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{
			{"list", list("5", "")},
			{"watch 5", watch("wait 39s", "BOOKMARK @6", "wait 39s", "BOOKMARK @7", "wait 39s", "ADDED a@8", "open")},
		}}
		record(t, newStream(t, sc.client(),
			&setup{Options: stream.Options{Requests: stream.Requests{IdleTimeout: 40 * time.Second}}}), 150*time.Second)
		if diff := cmp.Diff([]string{"list", "watch 5"}, sc.requests); diff != "" {
			t.Errorf("the requests (-want +got):\n%s", diff)
		}
	})
}

// TestNoHotLoop: whatever a server answers, it receives at most 5 requests a second over any 10 s.
func TestNoHotLoop(t *testing.T) {
	expired := status(410, metav1.StatusReasonExpired)
	listed := list("5", "", "a@6")
	tests := map[string][]exchange{
		"every list fails":                           {{"", status(500, metav1.StatusReasonInternalError)}},
		"every request is refused":                   {{"", refuse}},
		"every watch is empty":                       {{"list", list("5", "")}, {"", watch()}},
		"every version is expired":                   {{"", either(listed, expired)}},
		"every watch is expired":                     {{"", either(listed, watch("ERROR 410 Expired"))}},
		"every watch has one event, then is expired": {{"", either(listed, nextEvent("ERROR 410 Expired"))}},
		"continue tokens in a cycle":                 {{"", tokenCycle()}},
		"every watch has one event":                  {{"", either(listed, nextEvent())}},
		"every page is of another version":           {{"", newVersions()}},
		"every page is the same":                     {{"", list("5", "again")}},
		"every watch is garbage":                     {{"", either(list("5", ""), watch("raw }{", "open"))}},
	}
	options := map[string]*setup{
		"pages without end": nil,
		"pages without end, some selected": {Options: stream.Options{
			Select: func(m stream.Meta) bool { return m.GetName() == "a" },
		}},
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
					if j := i + 50; j < len(s.times) && s.times[j].Sub(s.times[i]) < 10*time.Second {
						t.Fatalf("51 requests within %v", s.times[j].Sub(s.times[i]))
					}
				}
				if len(s.times) < 3 {
					t.Errorf("only %d requests in a minute: the Stream has given up", len(s.times))
				}
			})
		})
	}
}

// either answers lists and probes with list, watches with watch.
func either(list, watch answer) answer {
	return func(r *http.Request) (*http.Response, error) {
		if !strings.HasPrefix(describe(r), "watch") {
			return list(r)
		}
		return watch(r)
	}
}

// nextEvent answers each watch with one new event and the frames in after.
func nextEvent(after ...string) answer {
	rv := 5
	return func(r *http.Request) (*http.Response, error) {
		rv++
		return watch(append([]string{fmt.Sprintf("MODIFIED a@%d", rv)}, after...)...)(r)
	}
}

// tokenCycle answers with pages whose continue tokens form a cycle.
func tokenCycle() answer {
	next := map[string]string{"": "x", "x": "y", "y": "z", "z": "x"}
	return func(r *http.Request) (*http.Response, error) {
		return list("5", next[r.URL.Query().Get("continue")])(r)
	}
}

// samePages answers with the same page, each time with another continue token.
func samePages() answer {
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		n++
		return list("5", fmt.Sprint("x", n), "a@1", "b@2")(r)
	}
}

// newVersions answers each page with a new resourceVersion.
func newVersions() answer {
	rv := 5
	return func(r *http.Request) (*http.Response, error) {
		rv++
		return list(fmt.Sprint(rv), "more")(r)
	}
}

// The run ends without an error, whatever the Stream is waiting for. synctest checks that no goroutine is left.
func TestStopEndsARunAtOnce(t *testing.T) {
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
				s.Stop() // before the run: no effect
				go func() {
					time.Sleep(10 * time.Second)
					s.Stop()
					s.Stop()
				}()
				began := time.Now()
				for ev, err := range s.Events(anHour(t)) {
					if err != nil {
						t.Errorf("the run ended with %v, want no error", err)
					} else if ev.Type != stream.Synced {
						t.Errorf("unexpected %s", text(ev))
					}
				}
				if d := time.Since(began); d != 10*time.Second {
					t.Errorf("the run ended after %v, want 10s", d)
				}
				s.Stop()
			})
		})
	}
}

// The next run starts from the beginning.
func TestNoEventFollowsStopInTheBody(t *testing.T) {
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
			t.Errorf("the run that Stop ends (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"ADDED a@1", "SYNCED 5"}, record(t, s, time.Second)); diff != "" {
			t.Errorf("the next run (-want +got):\n%s", diff)
		}
	})
}

// The run yields the cause once.
func TestRunEndsWithItsContextsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{{"list", list("5", "")}, {"watch 5", watch("open")}}}
		s := newStream(t, sc.client(), nil)
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
			t.Errorf("got %v, want the cause of the context, once", errs)
		}
	})
}

// The loop body left with a break or a panic.
func TestStreamRunsAgainAfterALeftLoop(t *testing.T) {
	conversation := func() []exchange {
		return []exchange{{"list", list("5", "")}, {"watch 5", watch("ADDED a@6", "ADDED b@7", "open")}}
	}
	leave := map[string]func(*testing.T, *running){
		"break": func(t *testing.T, s *running) {
			for ev := range s.Events(anHour(t)) {
				if ev.Type == stream.Added {
					break
				}
			}
		},
		"panic": func(t *testing.T, s *running) {
			defer func() {
				if recover() != "mine" {
					t.Error("the panic is lost")
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
				sc := &script{t: t, exchanges: append(conversation(), conversation()...)}
				s := newStream(t, sc.client(), nil)
				f(t, s)
				f(t, s) // ErrBusy if the first run had not ended
			})
		})
	}
}

// A run has ended when it yields its error.
func TestBodyMayRunAgainAtTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forbidden := exchange{"list", status(403, metav1.StatusReasonForbidden)}
		s := newStream(t, (&script{t: t, exchanges: []exchange{forbidden, forbidden}}).client(), nil)
		for _, err := range s.Events(anHour(t)) {
			for _, again := range s.Events(anHour(t)) {
				if !apierrors.IsForbidden(err) || !apierrors.IsForbidden(again) {
					t.Errorf("got %v, then %v, want two errors of the server", err, again)
				}
			}
		}
	})
}

// A second run of a Stream ends with ErrBusy while the first one lasts.
func TestOneRunAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{{"list", list("5", "", "a@1")}}}
		s := newStream(t, sc.client(), nil)
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

// Logger receives failures as warnings.
func TestLoggerReceivesFailuresAndRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		sc := &script{t: t, exchanges: []exchange{
			{"list", refuse}, {"list", list("5", "")}, {"watch 5", watch("open")},
		}}
		o := &setup{Options: stream.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		record(t, newStream(t, sc.client(), o), time.Minute)
		for _, want := range []string{
			"level=WARN", "widgets.v1.example.com", "connection refused", "after=", "level=INFO", "watching again",
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q: %s", want, log.String())
			}
		}
	})
}
