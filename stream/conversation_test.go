package stream_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// script is the server's side of a conversation. It is a transport for client-go's real HTTP client that needs no
// network, so it works in a synctest bubble.
type script struct {
	pageSize int  // of lists; 0 means 500
	noProbes bool // probes are answered only where exchanges have them
	t        *testing.T

	mu        sync.Mutex
	exchanges []exchange
	requests  []string // all requests so far, written as in exchange.request
	times     []time.Time
	lifetimes []time.Duration // the timeouts that the watches requested
}

// exchange is the request that must come next, and its answer. An empty request stands for any request. The last
// exchange of a script, if its request is empty, answers all requests that follow.
type exchange struct {
	request string // "list", "list continue=a", "probe", "watch 5", "watch initial"
	answer  answer
}

type answer func(*http.Request) (*http.Response, error)

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	got := describe(r)
	s.requests = append(s.requests, got)
	s.times = append(s.times, time.Now())
	next := exchange{got, hang}
	switch {
	case got == "probe" && !s.noProbes &&
		(len(s.exchanges) == 0 || s.exchanges[0].request != "" && s.exchanges[0].request != got):
		// Most conversations are not about probes: answer with a version ahead of all others.
		next.answer = list("1000000", "")
	case len(s.exchanges) > 0:
		next = s.exchanges[0]
		if len(s.exchanges) > 1 || next.request != "" {
			s.exchanges = s.exchanges[1:]
		}
	}
	s.mu.Unlock()
	if next.request != "" && next.request != got {
		s.t.Errorf("request %d is %q, want %q", len(s.requests), got, next.request)
		return nil, errors.New("not in the script")
	}
	s.check(r)
	return next.answer(r)
}

// check checks the parameters that every request must have.
func (s *script) check(r *http.Request) {
	q := r.URL.Query()
	if q.Get("watch") == "" {
		limits := []string{"1", strconv.Itoa(cmp.Or(s.pageSize, 500))}
		if q.Has("resourceVersion") || !slices.Contains(limits, q.Get("limit")) {
			s.t.Errorf("a list must request the newest state, in pages: %s", r.URL)
		}
		return
	}
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	s.mu.Lock()
	s.lifetimes = append(s.lifetimes, time.Duration(seconds)*time.Second)
	s.mu.Unlock()
	usual := seconds >= 300 && seconds <= 600 || slices.Contains([]int{3600, 3 * 3600}, seconds)
	if !usual || q.Get("allowWatchBookmarks") != "true" {
		s.t.Errorf("a watch must request bookmarks and a timeout between 5 and 10 minutes: %s", r.URL)
	}
	initial := q.Get("sendInitialEvents") == "true" && q.Get("resourceVersionMatch") == "NotOlderThan"
	if rv := q.Get("resourceVersion"); rv == "0" || (rv == "") != initial {
		s.t.Errorf("a watch must start at a version or request initial events: %s", r.URL)
	}
}

func describe(r *http.Request) string {
	q := r.URL.Query()
	s := "list"
	switch {
	case q.Get("watch") == "true" && q.Get("sendInitialEvents") == "true":
		s = "watch initial"
	case q.Get("watch") == "true":
		s = "watch " + q.Get("resourceVersion")
	case q.Get("limit") == "1":
		s = "probe"
	}
	if q.Has("continue") {
		s += " continue=" + q.Get("continue")
	}
	return s
}

func respond(code int, body io.ReadCloser) (*http.Response, error) {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
	}, nil
}

func respondJSON(code int, v any) (*http.Response, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return respond(code, io.NopCloser(bytes.NewReader(b)))
}

// hang does not answer until the client gives up.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

func breakOff(*http.Request) (*http.Response, error) { return nil, io.EOF }

func refuse(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

// busy asks the client to wait for 7 seconds.
func busy(*http.Request) (*http.Response, error) {
	return respondJSON(429, failure(429, metav1.StatusReasonTooManyRequests, 7))
}

// list answers with objects written "name@version" or "name/uid@version".
func list(rv, token string, objects ...string) answer {
	return func(*http.Request) (*http.Response, error) {
		items := []any{}
		for _, o := range objects {
			items = append(items, object(o))
		}
		return respondJSON(200, map[string]any{
			"apiVersion": "example.com/v1", "kind": "WidgetList", "items": items,
			"metadata": map[string]any{"resourceVersion": rv, "continue": token},
		})
	}
}

func object(s string) map[string]any {
	name, rv, _ := strings.Cut(s, "@")
	name, uid, ok := strings.Cut(name, "/")
	if !ok {
		uid = "uid-" + name
	}
	meta := map[string]any{"name": name, "namespace": "default", "uid": uid}
	if rv != "" {
		meta["resourceVersion"] = rv
	}
	return map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta}
}

func status(code int32, reason metav1.StatusReason) answer {
	return func(*http.Request) (*http.Response, error) { return respondJSON(int(code), failure(code, reason, 0)) }
}

// gateway answers as a gateway does that is no API server, such as a load balancer.
func gateway(code int) answer {
	return func(*http.Request) (*http.Response, error) {
		resp, err := respond(code, io.NopCloser(strings.NewReader("<html><h1>no backend</h1></html>")))
		resp.Header.Set("Content-Type", "text/html; charset=utf-8")
		return resp, err
	}
}

func failure(code int32, reason metav1.StatusReason, retryAfter int32) metav1.Status {
	s := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: string(reason)}
	s.APIVersion, s.Kind = "v1", "Status"
	if retryAfter > 0 {
		s.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	}
	return s
}

// watch answers with frames and closes the connection. Frames are written
//
//	ADDED name@version     or MODIFIED, DELETED
//	BOOKMARK @version
//	MARKER @version        the bookmark that ends initial events
//	ERROR 410 Expired      optionally with retryAfterSeconds
//	raw BYTES
//	wait 5s                lets time pass
//	open                   keeps the connection open until the client closes it
//	reset                  breaks the connection
//	lost                   breaks an HTTP/2 connection whose pings are not answered
func watch(frames ...string) answer {
	return func(r *http.Request) (*http.Response, error) {
		pr, pw := io.Pipe()
		go func() {
			for _, f := range frames {
				if !writeFrame(r.Context(), pw, f) {
					return
				}
			}
			_ = pw.Close()
		}()
		return respond(200, pr)
	}
}

// watchEvent is a frame, with its fields in the order of an API server.
type watchEvent struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

// watchObject answers with one frame and stays open.
func watchObject(kind string, o map[string]any) answer {
	b, err := json.Marshal(watchEvent{kind, o})
	if err != nil {
		panic(err)
	}
	return watch("raw "+string(b)+"\n", "open")
}

func writeFrame(ctx context.Context, w *io.PipeWriter, f string) bool {
	kind, rest, _ := strings.Cut(f, " ")
	var frame any
	switch kind {
	case "open":
		<-ctx.Done()
		_ = w.CloseWithError(context.Cause(ctx))
		return false
	case "reset":
		_ = w.CloseWithError(errors.New("connection reset by peer"))
		return false
	case "lost":
		_ = w.CloseWithError(errors.New("http2: client connection lost"))
		return false
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			panic(err)
		}
		select {
		case <-time.After(d):
			return true
		case <-ctx.Done():
			return false
		}
	case "raw":
		_, err := io.WriteString(w, rest)
		return err == nil
	case "ERROR":
		var code int32
		var reason metav1.StatusReason
		var after int32
		_, _ = fmt.Sscan(rest, &code, &reason, &after)
		frame = failure(code, reason, after)
	case "MARKER":
		o := object(rest)
		o["metadata"].(map[string]any)["annotations"] = map[string]any{metav1.InitialEventsAnnotationKey: "true"}
		kind, frame = "BOOKMARK", o
	default:
		frame = object(rest)
	}
	b, err := json.Marshal(watchEvent{kind, frame})
	if err != nil {
		panic(err)
	}
	_, err = w.Write(append(b, '\n'))
	return err == nil
}

func (s *script) client() dynamic.Interface {
	return dynamic.NewForConfigOrDie(&rest.Config{Host: "http://server", Transport: s, QPS: -1})
}

func widgets() gvr.Resource {
	r := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	r.Group, r.Version, r.Resource = "example.com", "v1", "widgets"
	return r
}

// text returns an event as the frames of a script are written.
func text(ev stream.Event) string {
	var s string
	switch ev.Type {
	case stream.Gap:
		s = fmt.Sprintf("GAP %s from %s to %s", ev.Gap.Reason, ev.Gap.From, ev.Gap.To)
		if ev.Gap.HistoryLost {
			s += " history lost"
		}
		return s
	case stream.Bookmark:
		return "BOOKMARK " + ev.ResourceVersion
	case stream.Synced:
		return "SYNCED " + ev.ResourceVersion
	default:
		m := ev.Meta()
		s = fmt.Sprintf("%s %s@%s", ev.Type, m.GetName(), ev.ResourceVersion)
		if uid := string(m.GetUID()); uid != "" && uid != "uid-"+m.GetName() {
			s = fmt.Sprintf("%s %s/%s@%s", ev.Type, m.GetName(), uid, ev.ResourceVersion)
		}
	}
	if ev.Inferred {
		s += " inferred"
	}
	return s
}

var errTimeUp = errors.New("time is up")

// record runs s for a time and returns the events as text, and the error that ended the run, if any.
func record(t *testing.T, s *running, d time.Duration) []string {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errTimeUp)
	defer cancel()
	var got []string
	for ev, err := range s.Events(ctx) {
		switch {
		case errors.Is(err, errTimeUp):
		case err != nil:
			got = append(got, "error: "+err.Error())
		default:
			got = append(got, text(ev))
		}
	}
	return got
}

func watchAt(rv int) string { return fmt.Sprint("watch ", rv) }
func addedAt(rv int) string { return fmt.Sprintf("ADDED o%d@%d", rv, rv) }

// anHour returns a context that ends a run that should have ended long before: in a bubble, a run that never ends would
// spin for ever.
func anHour(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errTimeUp)
	t.Cleanup(cancel)
	return ctx
}

// noError ends the test on an error.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
