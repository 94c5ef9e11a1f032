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

	"github.com/gvrwatch/gvrwatch/internal/client/decode/decodetest"
)

// These tests serve the same bytes to client-go's dynamic client and to those of
// NewClient, and compare whatever comes of it. What is made of a frame or a list is
// package decode's to test; here it is where they end, and when, and all else.

// differentEvents says in what the events of v are not those of client-go.
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

// differentErrors compares what errors say, and what they are.
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

// side is one of two who watch the same.
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

// inSteps lets client-go and v watch the same answer, one chunk after the other, and
// compares after each what has come: neither waits for more than the other does.
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
			if a.status == 0 { // else it is read before there is a watch
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
				default: // nobody reads any more
				}
			}
		}
	})
	if problem != "" {
		t.Errorf("%s (%s): %.2000s\n%.300q", why, v.name, problem, a.chunks)
	}
}

func TestSameFraming(t *testing.T) {
	pretty := "{\n  \"type\": \"ADDED\",\n  \"object\": {\n    \"apiVersion\": \"v1\",\n    \"kind\": \"Thing\"," +
		"\n    \"metadata\": {\n      \"name\": \"a}{\\\"\"\n    }\n  }\n}"
	for _, test := range []struct {
		why    string
		chunks [][]byte
	}{
		{"nothing", nil},
		{"one without a line end comes at once", chunksOf(added)},
		{"two of them", chunksOf(added, deleted)},
		{"two at once", chunksOf(added + deleted)},
		{"two on a line", chunksOf(added + " " + deleted + "\n")},
		{"two on lines", chunksOf(added + "\n" + deleted + "\n")},
		{"the line end comes later", chunksOf(added, "\n", deleted, "\n")},
		{"it comes with the next one", chunksOf(added, "\n"+deleted, "\n"+added)},
		{"CRLF", chunksOf(added+"\r\n"+deleted+"\r\n", "\r\n", added+"\r", "\n")},
		{"blank lines", chunksOf("\n\n"+added+"\n\n \n", " \t\r\n", deleted+"\n\n")},
		{"white space alone", chunksOf(" ", "\n", "\t\t")},
		{"many at once", chunksOf(many(300, added+"\n"))},
		{"many that differ, whose order counts", chunksOf(changes(1000))},
		{"many without line ends", chunksOf(many(300, added))},
		{"many and a half", chunksOf(many(100, added+"\n")+added[:50], added[50:]+"\n"+many(50, deleted))},
		{"pretty", chunksOf(pretty+"\n", pretty)},
		{"pretty, without line ends between", chunksOf(pretty+pretty+added+pretty, pretty)},
		{"pretty, by line", chunksOf(slices.Collect(strings.Lines(pretty + "\n" + pretty + "\n" + added))...)},
		{"pretty, by byte", every(1, []byte(pretty+"\n"+pretty+added+"\n"))},
		{"by byte", every(1, []byte(added+"\n"+deleted+added))},
		{"by three bytes", every(3, []byte(many(3, added+"\n\n"+deleted)))},
		{"the object first, of a bookmark and of a change", chunksOf(`{"object":`+thing+`,"type":"BOOKMARK"}`+"\n",
			`{"object":`+thing+`,"type":"MODIFIED"}`+"\n")},
		{"ERROR, and what follows", chunksOf(added+"\n"+expired+"\n"+deleted+"\n", expired, added)},
		{"half a frame at the end", chunksOf(added+"\n", deleted[:100])},
		{"garbage at the end", chunksOf(added + "\n" + deleted + "\ngarbage\n")},
		{"broken JSON in the middle", chunksOf(added + "\n" + `{"type":"ADDED","object":{"a":01}}` + "\n" + deleted)},
		{"a frame whose object is broken, and good ones after it",
			chunksOf(added + `{"type":"ADDED","object":{}}` + deleted)},
		{"a closing brace too many", chunksOf(added + "}\n" + deleted)},
		{"an unknown type in the middle", chunksOf(added + "\n" + `{"type":"RENAMED","object":` + thing + "}\n" +
			deleted)},
	} {
		for _, v := range variants() {
			inSteps(t, v, test.why, served{chunks: test.chunks})
		}
		inSteps(t, nextVariant(), test.why+", the end with the last", served{chunks: test.chunks, with: true})
	}
	// What can't be an event is reported at once, also by a server that says no more.
	for _, garbage := range []string{"garbage\n", "<html>\n", "]", "}", ",\n", "data: {}\n", "\xff\n", "\ufeff\n",
		"k8s\x00\n", "1\n", "null\n", "{}", `{"a":1}`, `[]`} {
		for _, before := range []string{"", added + "\n", added} {
			inSteps(t, nextVariant(), "garbage", served{chunks: chunksOf(before+garbage, added)})
		}
	}
}

// TestSameAtEveryOffset cuts in two places: one that moves, and a fixed one.
func TestSameAtEveryOffset(t *testing.T) {
	const short = `{"type":"ADDED","object":{"kind":"A","apiVersion":"v1","a":[-1.5e3,"\"}é"]}}`
	text := []byte(short + "\n" + expired + short +
		"\r\n{ \"type\" :\n\"BOOKMARK\",\"object\":{\"kind\":\"A\\u00e9\\\"}\",\"apiVersion\":\"v1\"}}" + short)
	for i := range text {
		inSteps(t, nextVariant(), fmt.Sprint("cut at ", i), served{chunks: [][]byte{text[:i], text[i:]}})
		inSteps(t, nextVariant(), fmt.Sprint("ended at ", i), served{chunks: [][]byte{text[:i]}})
	}
}

func TestSameBigFrames(t *testing.T) {
	const limit = 16 << 20 // of client-go
	big := func(size int) string {
		const begin, end = `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},` +
			`"data":"`, `"}}`
		return begin + many(size-len(begin)-len(end), "x") + end
	}
	space := many(1000, " \n")
	inSteps(t, variants()[0], "a byte too much", served{chunks: chunksOf(added+"\n", big(limit+1)+"\n", deleted)})
	inSteps(t, variants()[1], "as much as may be", served{chunks: chunksOf(added+"\n"+space+big(limit)+space+added,
		deleted+"\n")})
}

// timeout is an error of a connection that has waited for too long.
type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func TestSameEnds(t *testing.T) {
	for _, end := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNRESET, &net.OpError{Op: "read", Net: "tcp",
			Err: syscall.ECONNRESET},
		timeout{}, fmt.Errorf("wrapped: %w", timeout{}), net.ErrClosed, context.Canceled, context.DeadlineExceeded,
		// As the HTTP/2 of net/http says it, whose types are its own.
		errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer"),
		errors.New("http2: client connection lost"), errors.New("http: read on closed response body"),
		fmt.Errorf("wrapped: %w", io.EOF), fmt.Errorf("wrapped: %w", io.ErrUnexpectedEOF), errors.New("something else"),
	} {
		for where, chunks := range map[string][][]byte{
			"before anything": nil, "after a frame": chunksOf(added +
				"\n"), "after a frame without a line end": chunksOf(added, deleted),
			"within a frame": chunksOf(added + "\n" + deleted[:70]), "after white space": chunksOf(added + "\n \n"),
			"after garbage": chunksOf(added +
				"\nnul"), "after a number": chunksOf("12"), "after ERROR": chunksOf(expired + "\n"),
			"after many": chunksOf(many(100, added+"\n") + added[:9]),
		} {
			for _, with := range []bool{false, true} {
				inSteps(t, nextVariant(), fmt.Sprintf("%v %s (with it: %v)", end, where, with),
					served{chunks: chunks, end: end, with: with})
			}
		}
	}
}

func TestSameHeaders(t *testing.T) {
	typed := func(kind string) map[string]string { return map[string]string{"Content-Type": kind} }
	for _, kind := range []string{
		"application/json", "application/json;charset=utf-8", "application/json; stream=watch", "APPLICATION/JSON", "",
		"text/plain", "application/yaml", "application/vnd.kubernetes.protobuf;stream=watch", "application/cbor",
		"application/cbor-seq", "no type", ";", "application/json; q=\"", "*/*",
	} {
		for _, v := range variants()[:2] { // the others don't drop what is not JSON
			inSteps(t, v, "content type "+kind, served{header: typed(kind), chunks: chunksOf(added+"\n", deleted)})
		}
	}
	const status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no",` +
		`"reason":"Forbidden","details":{"kind":"things"},"code":403}`
	for _, code := range []int{201, 204, 301, 400, 401, 403, 404, 410, 422, 429, 500, 502, 503, 504} {
		for _, text := range []string{status, "", "Bad Gateway", added} {
			inSteps(t, nextVariant(), fmt.Sprint(code), served{status: code, chunks: chunksOf(text)})
			inSteps(t, nextVariant(), fmt.Sprint(code, ", no type"),
				served{status: code, header: typed("text/plain"), chunks: chunksOf(text)})
		}
	}
}
