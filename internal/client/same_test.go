package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

// These tests serve the same bytes to client-go's dynamic client and to clients of New, and compare the results.
// Package decode tests how a frame or a list is decoded; these tests check where frames end, when events arrive, and
// errors.

// differentEvents returns the first difference between the events of client-go and those of v, or "".
func differentEvents(v variant, want, got []apiwatch.Event) string {
	if len(want) != len(got) {
		return fmt.Sprintf("want %d events, got %d: %.500v, %.500v", len(want), len(got), want, got)
	}
	for i, want := range want {
		d, got := "", got[i]
		u, ok := want.Object.(*unstructured.Unstructured)
		switch {
		case want.Type != got.Type || fmt.Sprintf("%T", want.Object) != fmt.Sprintf("%T", got.Object):
			d = fmt.Sprintf("want %s of %T, got %s of %T (%v)", want.Type, want.Object, got.Type, got.Object,
				got.Object)
		case !ok:
			d = cmp.Diff(want.Object, got.Object)
		case want.Type == apiwatch.Bookmark || v.opts == nil:
			d = decodetest.Difference(u.Object, got.Object.(*unstructured.Unstructured).Object)
		default:
			d = decodetest.Difference(v.prune(u.Object), got.Object.(*unstructured.Unstructured).Object)
		}
		if d != "" {
			return fmt.Sprintf("event %d: %s", i, d)
		}
	}
	return ""
}

// differentErrors compares the texts, reasons and Statuses of errors.
func differentErrors(want, got error) string {
	type class struct {
		Text   string
		Status *metav1.Status
		Reason metav1.StatusReason
	}
	classOf := func(err error) (c class) {
		if err == nil {
			return c
		}
		c.Text, c.Reason = err.Error(), apierrors.ReasonForError(err)
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			s := status.Status()
			c.Status = &s
		}
		return c
	}
	return cmp.Diff(classOf(want), classOf(got))
}

// side is one of two watches of the same bytes.
type side struct {
	gate   chan struct{}
	err    error
	mu     sync.Mutex
	events []apiwatch.Event
	ended  bool
}

func (s *side) receive(w apiwatch.Interface) {
	for ev := range w.ResultChan() {
		s.mu.Lock()
		s.events = append(s.events, ev)
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
}

func (s *side) seen() (events []apiwatch.Event, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events, s.ended
}

// inSteps watches one answer with client-go and with v, and compares the events after each chunk: v must not wait for
// more data than client-go.
func inSteps(t *testing.T, v variant, why string, a served) {
	t.Helper()
	problem := ""
	synctest.Test(t, func(t *testing.T) {
		var wait sync.WaitGroup
		defer wait.Wait()
		var sides [2]*side
		for i, v := range []variant{stock, v} {
			s := &side{gate: make(chan struct{})}
			sides[i] = s
			a := a
			if a.status == 0 { // an error is read before there is a watch
				a.gate = s.gate
			}
			w, err := v.client(t, &server{served: a}, nil).Resource(things).Watch(t.Context(), metav1.ListOptions{})
			if s.err = err; err == nil {
				wait.Go(func() { s.receive(w) })
				defer w.Stop()
			}
		}
		if problem = differentErrors(sides[0].err, sides[1].err); problem != "" || sides[0].err != nil {
			return
		}
		for step := range len(a.chunks) + 2 {
			synctest.Wait()
			want, wantEnd := sides[0].seen()
			got, gotEnd := sides[1].seen()
			d := differentEvents(v, want, got)
			if wantEnd != gotEnd || step > len(a.chunks) && !wantEnd {
				d += fmt.Sprintf("ended: want %v, got %v", wantEnd, gotEnd)
			}
			if d != "" {
				problem = fmt.Sprintf("after %d of %d chunks: %s", step, len(a.chunks), d)
				return
			}
			for _, s := range sides {
				select {
				case s.gate <- struct{}{}:
				default: // the body is no longer read
				}
			}
		}
	})
	if problem != "" {
		t.Errorf("%s (%s): %.2000s\n%.300q", why, v.name, problem, a.chunks)
	}
}

func TestFramingMatchesClientGo(t *testing.T) {
	pretty := "{\n  \"type\": \"ADDED\",\n  \"object\": {\n    \"apiVersion\": \"v1\",\n    \"kind\": \"Thing\"," +
		"\n    \"metadata\": {\n      \"name\": \"a}{\\\"\"\n    }\n  }\n}"
	for _, test := range []struct {
		why    string
		chunks [][]byte
	}{
		{"no events", nil},
		{"an event without a line end is delivered at once", chunksOf(added)},
		{"two events without line ends", chunksOf(added, deleted)},
		{"two events in a chunk", chunksOf(added + deleted)},
		{"two events on a line", chunksOf(added + " " + deleted + "\n")},
		{"two events on two lines", chunksOf(added + "\n" + deleted + "\n")},
		{"line ends in chunks of their own", chunksOf(added, "\n", deleted, "\n")},
		{"line ends in the chunk of the next event", chunksOf(added, "\n"+deleted, "\n"+added)},
		{"CRLF", chunksOf(added+"\r\n"+deleted+"\r\n", "\r\n", added+"\r", "\n")},
		{"blank lines", chunksOf("\n\n"+added+"\n\n \n", " \t\r\n", deleted+"\n\n")},
		{"white space alone", chunksOf(" ", "\n", "\t\t")},
		{"many events in a chunk", chunksOf(many(300, added+"\n"))},
		{"many events keep their order", chunksOf(changes(1000))},
		{"many events without line ends", chunksOf(many(300, added))},
		{"an event cut in two among many",
			chunksOf(many(100, added+"\n")+added[:50], added[50:]+"\n"+many(50, deleted))},
		{"indented JSON", chunksOf(pretty+"\n", pretty)},
		{"indented JSON without line ends between events", chunksOf(pretty+pretty+added+pretty, pretty)},
		{"indented JSON, a line a chunk",
			chunksOf(slices.Collect(strings.Lines(pretty + "\n" + pretty + "\n" + added))...)},
		{"indented JSON, a byte a chunk", every(1, []byte(pretty+"\n"+pretty+added+"\n"))},
		{"a byte a chunk", every(1, []byte(added+"\n"+deleted+added))},
		{"three bytes a chunk", every(3, []byte(many(3, added+"\n\n"+deleted)))},
		{"the object before the type", chunksOf(`{"object":`+thing+`,"type":"BOOKMARK"}`+"\n",
			`{"object":`+thing+`,"type":"MODIFIED"}`+"\n")},
		{"events after an ERROR", chunksOf(added+"\n"+expired+"\n"+deleted+"\n", expired, added)},
		{"half a frame at the end", chunksOf(added+"\n", deleted[:100])},
		{"garbage at the end", chunksOf(added + "\n" + deleted + "\ngarbage\n")},
		{"broken JSON in the middle", chunksOf(added + "\n" + `{"type":"ADDED","object":{"a":01}}` + "\n" + deleted)},
		{"a frame with an invalid object",
			chunksOf(added + `{"type":"ADDED","object":{}}` + deleted)},
		{"an extra closing brace", chunksOf(added + "}\n" + deleted)},
		{"an unknown type in the middle", chunksOf(added + "\n" + `{"type":"RENAMED","object":` + thing + "}\n" +
			deleted)},
	} {
		for _, v := range variants() {
			inSteps(t, v, test.why, served{chunks: test.chunks})
		}
		inSteps(t, nextVariant(), test.why+", EOF with the last chunk", served{chunks: test.chunks, with: true})
	}
	// What can't be an event is reported at once, even if the server sends nothing more.
	// client-go with Go 1.27 reports a comma only with what follows it.
	for _, garbage := range []string{"garbage\n", "<html>\n", "]", "}", ",{}\n", "data: {}\n", "\xff\n", "\ufeff\n",
		"k8s\x00\n", "1\n", "null\n", "{}", `{"a":1}`, `[]`} {
		for _, before := range []string{"", added + "\n", added} {
			inSteps(t, nextVariant(), "garbage", served{chunks: chunksOf(before+garbage, added)})
		}
	}
}

// The bytes are cut in two places: one that moves, and a fixed one.
func TestEveryCutMatchesClientGo(t *testing.T) {
	const short = `{"type":"ADDED","object":{"kind":"A","apiVersion":"v1","a":[-1.5e3,"\"}é"]}}`
	text := []byte(short + "\n" + expired + short +
		"\r\n{ \"type\" :\n\"BOOKMARK\",\"object\":{\"kind\":\"A\\u00e9\\\"}\",\"apiVersion\":\"v1\"}}" + short)
	for i := range text {
		inSteps(t, nextVariant(), fmt.Sprint("cut at ", i), served{chunks: [][]byte{text[:i], text[i:]}})
		inSteps(t, nextVariant(), fmt.Sprint("ended at ", i), served{chunks: [][]byte{text[:i]}})
	}
}

func TestBigFramesMatchClientGo(t *testing.T) {
	const limit = 16 << 20 // of client-go
	big := func(size int) string {
		const begin, end = `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},` +
			`"data":"`, `"}}`
		return begin + many(size-len(begin)-len(end), "x") + end
	}
	space := many(1000, " \n")
	inSteps(t, variants()[0], "a byte more than client-go's limit",
		served{chunks: chunksOf(added+"\n", big(limit+1)+"\n", deleted)})
	inSteps(t, variants()[0], "as much as client-go's limit",
		served{chunks: chunksOf(added+"\n"+space+big(limit)+space+added,
			deleted+"\n")})
}

// timeout is the error of a connection that has timed out.
type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func TestEndsMatchClientGo(t *testing.T) {
	for _, end := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNRESET, &net.OpError{Op: "read", Net: "tcp",
			Err: syscall.ECONNRESET},
		timeout{}, fmt.Errorf("wrapped: %w", timeout{}), net.ErrClosed, context.Canceled, context.DeadlineExceeded,
		// The texts of HTTP/2 errors of net/http, whose types are not exported.
		errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer"),
		errors.New("http2: client connection lost"), errors.New("http: read on closed response body"),
		fmt.Errorf("wrapped: %w", io.EOF), fmt.Errorf("wrapped: %w", io.ErrUnexpectedEOF), errors.New("something else"),
	} {
		for where, chunks := range map[string][][]byte{
			"before any frame": nil, "after a frame": chunksOf(added + "\n"),
			"after a frame without a line end": chunksOf(added, deleted),
			"within a frame":                   chunksOf(added + "\n" + deleted[:70]),
			"after white space":                chunksOf(added + "\n \n"),
			"after garbage":                    chunksOf(added + "\nnul"),
			"after a number":                   chunksOf("12"),
			"after ERROR":                      chunksOf(expired + "\n"),
			"after many frames":                chunksOf(many(100, added+"\n") + added[:9]),
		} {
			for _, with := range []bool{false, true} {
				inSteps(t, nextVariant(), fmt.Sprintf("%v %s (with the last chunk: %v)", end, where, with),
					served{chunks: chunks, end: end, with: with})
			}
		}
	}
}

func TestHeadersMatchClientGo(t *testing.T) {
	typed := func(kind string) map[string]string { return map[string]string{"Content-Type": kind} }
	for _, kind := range []string{
		"application/json", "application/json;charset=utf-8", "application/json; stream=watch", "APPLICATION/JSON", "",
		"text/plain", "application/yaml", "application/vnd.kubernetes.protobuf;stream=watch", "application/cbor",
		"application/cbor-seq", "no type", ";", "application/json; q=\"", "*/*",
	} {
		// The other variant drops managedFields of JSON only.
		inSteps(t, variants()[0], "content type "+kind,
			served{header: typed(kind), chunks: chunksOf(added+"\n", deleted)})
	}
	for _, code := range []int{201, 204, 301, 400, 401, 403, 404, 410, 422, 429, 500, 502, 503, 504} {
		// As text, package guard takes it for a Status, too.
		status := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no",`+
			`"reason":"Forbidden","details":{"kind":"things"},"code":%d}`, code)
		inSteps(t, nextVariant(), fmt.Sprint(code, ", a Status"), served{status: code, chunks: chunksOf(status)})
		for _, text := range []string{"", "Bad Gateway", added} {
			inSteps(t, nextVariant(), fmt.Sprint(code), served{status: code, chunks: chunksOf(text)})
			inSteps(t, nextVariant(), fmt.Sprint(code, ", no type"),
				served{status: code, header: typed("text/plain"), chunks: chunksOf(text)})
		}
	}
}
