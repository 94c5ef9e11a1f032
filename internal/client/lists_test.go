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
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/internal/client/decode/decodetest"
)

// outcome is what became of a call.
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

// calls are some of what a dynamic client can do: those that are ours, and one of each
// kind that are not.
var calls = map[string]calling{
	"List": lists,
	"List in a namespace": func(ctx context.Context, c dynamic.Interface, o *outcome) {
		o.list, o.err = c.Resource(things).Namespace("ns").List(ctx, metav1.ListOptions{})
	},
	"List in what is no namespace": func(ctx context.Context, c dynamic.Interface, o *outcome) {
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

// callsTheSame makes a call with client-go's client and with that of v, each in a
// bubble: client-go waits before it repeats requests.
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

func TestSameCalls(t *testing.T) {
	const status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no",` +
		`"reason":"Conflict","details":{"name":"a","kind":"things","retryAfterSeconds":1},"code":409}`
	list := `{"apiVersion":"example.com/v1","kind":"ThingList","metadata":{"resourceVersion":"7",` +
		`"continue":"c"},"items":[` + thing + `,{"metadata":{"name":"b"}}]}`
	for name, call := range calls {
		same := func(why string, a served) { callsTheSame(t, nextVariant(), name+", "+why, a, call) }
		for _, text := range []string{thing, list, status, "", "{}", "garbage", "null", `{"kind":"Thing"`} {
			for _, code := range []int{200, 202, 204, 400, 404, 409, 410, 429, 500, 503} {
				same(fmt.Sprint(code), served{status: code, chunks: chunksOf(text)})
			}
		}
		for _, kind := range []string{"", "text/plain", "application/json; charset=utf-8", "application/yaml",
			"application/vnd.kubernetes.protobuf", "application/cbor", ";"} {
			for code, text := range map[int]string{200: list, 404: status} {
				same(kind, served{status: code, header: map[string]string{"Content-Type": kind},
					chunks: chunksOf(text)})
			}
		}
		same("a server that is asked again", served{status: 429, header: map[string]string{"Retry-After": "3"},
			chunks: chunksOf(status)})
		same("a wait that is no number", served{status: 503, header: map[string]string{"Retry-After": "soon"},
			chunks: chunksOf(status)})
		same("a warning", served{header: map[string]string{"Warning": `299 - "deprecated"`}, chunks: chunksOf(thing)})
		same("a body that breaks off", served{chunks: chunksOf(thing[:50]),
			end: errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer")})
	}
}

// TestSameLists is of small ones, and of those that are decoded while they come.
func TestSameLists(t *testing.T) {
	const large = 400 // things, of 220 bytes
	whole := listOf(large, thing)
	gone := errors.New("read: connection reset by peer")
	for i, tt := range []struct {
		why, text string
		end       error
	}{
		{"a list", whole, nil},
		{"of what is decoded at once, almost", listOf(140, thing), nil},
		{"its metadata come last", `{"items":[` + many(large, thing+",") + thing +
			`],"apiVersion":"example.com/v1","kind":"ThingList","metadata":{"continue":"c"}}`, nil},
		{"an object whose kind is not sure at the end", listOf(large, `{"Kind":"x","metadata":{"name":"b"}}`), nil},
		{"at the beginning", strings.Replace(whole, thing, `{"Kind":"x","metadata":{"name":"b"}}`, 1), nil},
		{"no object", listOf(large, `7`), nil},
		{"a number that is none", listOf(large, strings.Replace(thing, "1.5", "1.5.5", 1)), nil},
		{"white space around it", many(40<<10, "\n") + whole + many(40<<10, " "), nil},
		{"two of them", whole + whole, nil},
		{"more after white space", whole + many(40<<10, " ") + "}", nil},
		{"items twice", strings.Replace(whole, `"metadata"`, `"items":[],"metadata"`, 1), nil},
		{"no kind", strings.Replace(whole, `"kind":"ThingList",`, "", 1), nil},
		{"no list at all", many(100<<10, "x"), nil},
		{"it ends within an item", whole[:60<<10], nil},
		{"it lacks the last bracket", strings.TrimSuffix(whole, "}"), nil},
		{"it breaks off", whole[:60<<10], gone},
		{"it breaks off at once", "", gone},
		{"it breaks off at its end", whole, gone},
		{"it breaks off before the end", whole, io.ErrUnexpectedEOF},
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

// TestListThatHangs: who gives up has the answer at once, and nothing is left behind.
func TestListThatHangs(t *testing.T) {
	text := listOf(400, thing)
	for _, come := range []int{0, 100, 40 << 10} {
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{}, 1)
			s := &server{served: served{chunks: chunksOf(text[:come], text[come:]), gate: gate}}
			gate <- struct{}{}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				synctest.Wait()
				cancel()
			}()
			_, err := variants()[0].client(t, s, nil).Resource(things).List(ctx, metav1.ListOptions{})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after %d bytes: %v, want %v", come, err, context.Canceled)
			}
		})
	}
}

// allocationsOfList is how many a list takes that comes in chunks, each of which is
// decoded, as far as it will be, when the next one comes: until the last one, and then.
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

// TestListIsDecodedWhileItComes: most of it is when the end has not come, and an item
// that comes slowly is not decoded anew each time that some of it has come.
func TestListIsDecodedWhileItComes(t *testing.T) {
	if before, then := allocationsOfList(t, every(16<<10, []byte(listOf(2000, thing)))); before < 4*then {
		t.Errorf("%d allocations before the last piece has come, %d after that", before, then)
	}
	large := listOf(0, strings.Replace(thing, `"n":1`, `"l":[`+many(100_000, `{"a":{}},`)+`1]`, 1))
	before, then := allocationsOfList(t, every(16<<10, []byte(large)))
	if _, whole := allocationsOfList(t, chunksOf(large)); before+then > 3*whole {
		t.Errorf("%d allocations, want at most three times the %d of one that comes at once", before+then, whole)
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestListsShareTheirRoom: lists are read into the same memory, unless the garbage
// collector has taken it.
func TestListsShareTheirRoom(t *testing.T) {
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
		t.Errorf("%d bytes were allocated for a list of %d", least, size)
	}
}
