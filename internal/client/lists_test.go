package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

// outcome is the result of a call.
type outcome struct {
	object *unstructured.Unstructured
	list   *unstructured.UnstructuredList
	err    error
	asked  []string
	warned warnings
}

type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(code int, agent, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, fmt.Sprint(code, " ", agent, " ", text))
}

type calling func(context.Context, dynamic.Interface, *outcome)

func lists(ctx context.Context, c dynamic.Interface, o *outcome) {
	o.list, o.err = c.Resource(things).List(ctx, metav1.ListOptions{Limit: 500, LabelSelector: "a=b",
		ResourceVersion: "7"})
}

// calls are lists, which this package decodes, and one of each kind of call that it does not change.
var calls = map[string]calling{
	"List": lists,
	"List in a namespace": func(ctx context.Context, c dynamic.Interface, o *outcome) {
		o.list, o.err = c.Resource(things).Namespace("ns").List(ctx, metav1.ListOptions{})
	},
	"List in an invalid namespace": func(ctx context.Context, c dynamic.Interface, o *outcome) {
		o.list, o.err = c.Resource(things).Namespace("..").List(ctx, metav1.ListOptions{})
	},
	"Get": func(ctx context.Context, c dynamic.Interface, o *outcome) {
		o.object, o.err = c.Resource(things).Namespace("ns").Get(ctx, "a", metav1.GetOptions{ResourceVersion: "7"},
			"scale")
	},
	"Delete": func(ctx context.Context, c dynamic.Interface, o *outcome) {
		o.err = c.Resource(things).Namespace("ns").Delete(ctx, "a",
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("u")})
	},
}

// callsTheSame compares a call of client-go's client with the same call of v. Each runs in a bubble, because client-go
// waits before it repeats requests.
func callsTheSame(t *testing.T, v variant, why string, a served, f calling) {
	t.Helper()
	var both [2]outcome
	for i, v := range []variant{stock, v} {
		synctest.Test(t, func(t *testing.T) {
			s, o := &server{served: a}, &both[i]
			f(t.Context(), v.client(t, s, &o.warned), o)
			o.asked = s.asked
		})
	}
	want, got := &both[0], &both[1]
	d := differentErrors(want.err, got.err) + cmp.Diff(want.asked, got.asked) +
		cmp.Diff(want.warned.texts, got.warned.texts)
	switch {
	case (want.object == nil) != (got.object == nil), (want.list == nil) != (got.list == nil):
		d += fmt.Sprintf("want an object: %v, a list: %v; got %v, %v", want.object != nil, want.list != nil,
			got.object != nil, got.list != nil)
	case want.object != nil:
		d += decodetest.Difference(want.object.Object, got.object.Object)
	case want.list != nil:
		for i := range want.list.Items {
			want.list.Items[i].Object = v.prune(want.list.Items[i].Object)
		}
		d += decodetest.DifferenceOfLists(want.list, got.list)
	}
	if d != "" {
		t.Errorf("%s (%s): %.2000s\n%.300q", why, v.name, d, a.chunks)
	}
}

func TestCallsMatchClientGo(t *testing.T) {
	status := func(code int) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no",`+
			`"reason":"Conflict","details":{"name":"a","kind":"things","retryAfterSeconds":1},"code":%d}`, code)
	}
	list := `{"apiVersion":"example.com/v1","kind":"ThingList","metadata":{"resourceVersion":"7",` +
		`"continue":"c"},"items":[` + thing + `,{"metadata":{"name":"b"}}]}`
	for name, call := range calls {
		same := func(why string, a served) { callsTheSame(t, nextVariant(), name+", "+why, a, call) }
		for _, code := range []int{200, 202, 204, 400, 404, 409, 410, 429, 500, 503} {
			for _, text := range []string{thing, list, status(code), "", "{}", "garbage", "null", `{"kind":"Thing"`} {
				same(fmt.Sprint(code), served{status: code, chunks: chunksOf(text)})
			}
		}
		for _, kind := range []string{"", "text/plain", "application/json; charset=utf-8", "application/yaml",
			"application/vnd.kubernetes.protobuf", "application/cbor", ";"} {
			for code, text := range map[int]string{200: list, 404: thing} { // a Status: see package guard
				same(kind, served{status: code, header: map[string]string{"Content-Type": kind},
					chunks: chunksOf(text)})
			}
		}
		same("a Retry-After", served{status: 429, header: map[string]string{"Retry-After": "3"},
			chunks: chunksOf(status(429))})
		same("a Retry-After that is not a number", served{status: 503, header: map[string]string{"Retry-After": "soon"},
			chunks: chunksOf(status(503))})
		same("a warning", served{header: map[string]string{"Warning": `299 - "deprecated"`}, chunks: chunksOf(thing)})
		same("a body that breaks off", served{chunks: chunksOf(thing[:50]),
			end: errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer")})
	}
}

// Some lists are decoded at once, others while they are read.
func TestListsMatchClientGo(t *testing.T) {
	const large = 400 // things, of 220 bytes
	whole := listOf(large, thing)
	gone := errors.New("read: connection reset by peer")
	for i, tt := range []struct {
		why, text string
		end       error
	}{
		{"a list", whole, nil},
		{"a list that is just small enough to be decoded at once", listOf(140, thing), nil},
		{"metadata after the items", `{"items":[` + many(large, thing+",") + thing +
			`],"apiVersion":"example.com/v1","kind":"ThingList","metadata":{"continue":"c"}}`, nil},
		{"an ambiguous kind in the last item", listOf(large, `{"Kind":"x","metadata":{"name":"b"}}`), nil},
		{"an ambiguous kind in the first item",
			strings.Replace(whole, thing, `{"Kind":"x","metadata":{"name":"b"}}`, 1), nil},
		{"an item that is a number", listOf(large, `7`), nil},
		{"an invalid number", listOf(large, strings.Replace(thing, "1.5", "1.5.5", 1)), nil},
		{"white space around the list", many(40<<10, "\n") + whole + many(40<<10, " "), nil},
		{"two lists", whole + whole, nil},
		{"more after white space", whole + many(40<<10, " ") + "}", nil},
		{"items twice", strings.Replace(whole, `"metadata"`, `"items":[],"metadata"`, 1), nil},
		{"no kind", strings.Replace(whole, `"kind":"ThingList",`, "", 1), nil},
		{"not a list", many(100<<10, "x"), nil},
		{"an end within an item", whole[:60<<10], nil},
		{"no last bracket", strings.TrimSuffix(whole, "}"), nil},
		{"the connection breaks within an item", whole[:60<<10], gone},
		{"the connection breaks before the list", "", gone},
		{"the connection breaks after the list", whole, gone},
		{"an unexpected end after the list", whole, io.ErrUnexpectedEOF},
	} {
		r := rand.New(rand.NewPCG(6, uint64(i)))
		for _, with := range []bool{false, true} {
			var chunks [][]byte
			for text := tt.text; len(text) > 0; {
				n := min(len(text), 1+r.IntN(20<<10))
				chunks = append(chunks, []byte(text[:n]))
				text = text[n:]
			}
			callsTheSame(t, nextVariant(), tt.why, served{chunks: chunks, end: tt.end, with: with && len(chunks) > 0},
				lists)
		}
	}
}

// List leaves no goroutine.
func TestListEndsWithItsContext(t *testing.T) {
	text := listOf(600, thing)
	for _, come := range []int{0, 100, 40 << 10, 80 << 10} {
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{}, 1)
			s := &server{served: served{chunks: chunksOf(text[:come], text[come:]), gate: gate}}
			gate <- struct{}{}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				synctest.Wait()
				cancel()
			}()
			_, err := nextVariant().client(t, s, nil).Resource(things).List(ctx, metav1.ListOptions{})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after %d bytes: %v, want %v", come, err, context.Canceled)
			}
		})
	}
}

// allocationsOfList counts the allocations of a List whose answer arrives in chunks: before the last chunk, and then.
// It sends a chunk once the one before has been decoded as far as possible.
func allocationsOfList(t *testing.T, chunks [][]byte) (before, then int) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		c := variants()[0].client(t, &server{served: served{chunks: slices.Clone(chunks), gate: gate}}, nil)
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := c.Resource(things).List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		before = mallocs(func() {
			for range len(chunks) - 1 {
				gate <- struct{}{}
				synctest.Wait()
			}
		})
		then = mallocs(func() {
			gate <- struct{}{}
			gate <- struct{}{} // the end
			all.Wait()
		})
	})
	return before, then
}

// TestListIsDecodedWhileItArrives: most of a list is decoded before its end arrives, and an item that arrives slowly is
// not decoded again for each piece.
func TestListIsDecodedWhileItArrives(t *testing.T) {
	if before, then := allocationsOfList(t, every(16<<10, []byte(listOf(2000, thing)))); before < 4*then {
		t.Errorf("%d allocations before the last chunk arrived, %d after that", before, then)
	}
	large := listOf(0, strings.Replace(thing, `"n":1`, `"l":[`+many(100_000, `{"a":{}},`)+`1]`, 1))
	before, then := allocationsOfList(t, every(16<<10, []byte(large)))
	if _, whole := allocationsOfList(t, chunksOf(large)); before+then > 3*whole {
		t.Errorf("%d allocations, want at most three times the %d of a list that arrives at once", before+then, whole)
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestListsShareBuffers: a list is read into the buffer of an earlier one, unless the garbage collector has freed that.
func TestListsShareBuffers(t *testing.T) {
	const size = 1 << 20
	text := listOf(0, thing)
	c := variants()[0].client(t, transportFunc(func(*http.Request) (*http.Response, error) {
		return respond(200, io.NopCloser(io.MultiReader(io.LimitReader(spaces{}, size), strings.NewReader(text))))
	}), nil)
	least := uint64(size)
	for range 20 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if l, err := c.Resource(things).List(t.Context(), metav1.ListOptions{}); err != nil || len(l.Items) != 1 {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > size/2 {
		t.Errorf("%d bytes allocated for a list of %d bytes, want at most half of that", least, size)
	}
}

// refusedBody begins with an item of 40 MiB. Its Read takes a second to notice Close.
type refusedBody struct {
	io.Reader
	closed  chan struct{}
	reading atomic.Int32
}

func (b *refusedBody) Read(p []byte) (int, error) {
	b.reading.Add(1)
	defer b.reading.Add(-1)
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	<-b.closed
	time.Sleep(client.ClosingTime / 2)
	return 0, io.ErrUnexpectedEOF
}

func (b *refusedBody) Close() error { close(b.closed); return nil }

func (b *refusedBody) RoundTrip(*http.Request) (*http.Response, error) { return respond(200, b) }

// A list that is refused before its end leaves no goroutine that reads it.
func TestRefusedListIsNotReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := strings.TrimSuffix(listOf(0, `{"x":"`+many(40<<20, "x")+`"},`), "]}")
		b := &refusedBody{Reader: strings.NewReader(begin), closed: make(chan struct{})}
		_, err := variants()[0].client(t, b, nil).Resource(things).List(t.Context(), metav1.ListOptions{})
		if refused := (*guard.Error)(nil); !errors.As(err, &refused) || !refused.TooLarge {
			t.Errorf("%v, want an error about the size", err)
		}
		if n := b.reading.Load(); n != 0 {
			t.Errorf("%d goroutines read the list after List has returned", n)
		}
	})
}
