package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// listOf is a list of so many things, with a last one.
func listOf(n int, last string) string {
	return `{"apiVersion":"example.com/v1","kind":"ThingList","metadata":{"resourceVersion":"7"},"items":[` + many(n, thing+",") + last + `]}`
}

// TestSameLargeLists is of lists that are decoded while they come.
func TestSameLargeLists(t *testing.T) {
	const large = 400 // things, of 220 bytes
	whole := listOf(large, thing)
	gone := errors.New("read: connection reset by peer")
	for i, tt := range []struct {
		why, text string
		end       error
	}{
		{"a list", whole, nil},
		{"of what is decoded at once, almost", listOf(140, thing), nil},
		{"its metadata come last", `{"items":[` + many(large, thing+",") + thing + `],"apiVersion":"example.com/v1","kind":"ThingList","metadata":{"continue":"c"}}`, nil},
		{"an object whose kind is not sure at the end", listOf(large, `{"Kind":"x","metadata":{"name":"b"}}`), nil},
		{"at the beginning", strings.Replace(whole, thing, `{"Kind":"x","metadata":{"name":"b"}}`, 1), nil},
		{"no object", listOf(large, `7`), nil},
		{"a number that is none", listOf(large, strings.Replace(thing, "1.5", "1.5.5", 1)), nil},
		{"white space around it", many(40<<10, "\n") + whole + many(40<<10, " "), nil},
		{"two of them", whole + whole, nil},
		{"more after white space", whole + many(40<<10, " ") + "}", nil},
		{"no items", strings.Replace(whole, `"items"`, `"things"`, 1), nil},
		{"items twice", strings.Replace(whole, `"metadata"`, `"items":[],"metadata"`, 1), nil},
		{"no kind", strings.Replace(whole, `"kind":"ThingList",`, "", 1), nil},
		{"a Status", strings.Replace(whole, "ThingList", "Status", 1), nil},
		{"no list at all", many(100<<10, "x"), nil},
		{"it ends within an item", whole[:60<<10], nil},
		{"it ends between items", whole[:strings.LastIndex(whole, ",{")], nil},
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
			callsTheSame(t, variants(), tt.why, served{chunks: chunks, end: tt.end, with: with && len(chunks) > 0}, lists)
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
			_, err := variant{opts: &stream.ClientOptions{}}.client(t, s, nil).Resource(things).List(ctx, metav1.ListOptions{})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after %d bytes: %v, want %v", come, err, context.Canceled)
			}
		})
	}
}

// TestSlowLargeItem: an item that comes slowly is not decoded anew each time that some
// of it has come.
func TestSlowLargeItem(t *testing.T) {
	text := listOf(0, strings.Replace(thing, `"n":1`, `"l":[`+many(100_000, `{"a":{}},`)+`1]`, 1))
	c := variant{opts: &stream.ClientOptions{}}
	read := func(chunks [][]byte) int {
		var n int
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			go func() {
				for range len(chunks) + 1 {
					synctest.Wait() // until all that has come is decoded, as far as it will be
					gate <- struct{}{}
				}
			}()
			n = mallocs(func() {
				if _, err := c.client(t, &server{served: served{chunks: chunks, gate: gate}}, nil).Resource(things).List(t.Context(), metav1.ListOptions{}); err != nil {
					t.Error(err)
				}
			})
		})
		return n
	}
	whole, slow := read(chunksOf(text)), read(every(16<<10, []byte(text)))
	if slow > 3*whole {
		t.Errorf("%d allocations, want at most three times the %d of one that comes at once", slow, whole)
	}
}

// TestListIsDecodedWhileItComes: most of it is when the end has not come.
func TestListIsDecodedWhileItComes(t *testing.T) {
	chunks := every(16<<10, []byte(listOf(2000, thing)))
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		c := variant{opts: &stream.ClientOptions{}}.client(t, &server{served: served{chunks: slices.Clone(chunks), gate: gate}}, nil)
		var all sync.WaitGroup
		all.Go(func() {
			if l, err := c.Resource(things).List(t.Context(), metav1.ListOptions{}); err != nil || len(l.Items) != 2001 {
				t.Error(err)
			}
		})
		synctest.Wait()
		before := mallocs(func() {
			for range len(chunks) - 1 {
				gate <- struct{}{}
				synctest.Wait()
			}
		})
		after := mallocs(func() {
			gate <- struct{}{}
			gate <- struct{}{} // the end
			all.Wait()
		})
		if before < 4*after {
			t.Errorf("%d allocations before the last piece has come, %d after that", before, after)
		}
	})
}

// wide serves pages of an object and so much white space, and a watch that is silent.
type wide int

func (w wide) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Has("watch") {
		silent, _ := io.Pipe()
		return respond(200, silent)
	}
	n, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	next := strconv.Itoa(n + 1)
	if n == 20 {
		next = ""
	}
	head := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"WidgetList","metadata":{"resourceVersion":"700","continue":%q},`, next)
	tail := fmt.Sprintf(`"items":[{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w%d","namespace":"one","resourceVersion":"7"}}]}`, n)
	return respond(200, io.NopCloser(io.MultiReader(strings.NewReader(head), io.LimitReader(spaces{}, int64(w)), strings.NewReader(tail))))
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestPagesShareTheirRoom: pages are read into the same memory, and it is let go of
// when all are told.
func TestPagesShareTheirRoom(t *testing.T) {
	const page = 1 << 20
	c, err := stream.NewClient(&rest.Config{Host: "http://server", Transport: wide(page), QPS: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newStream(t, c, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := live()
	var first, last runtime.MemStats
	told := 0
	for ev, err := range s.Events(ctx) {
		if err != nil {
			break
		}
		switch told++; {
		case told == 3:
			runtime.ReadMemStats(&first)
		case ev.Type == stream.Synced:
			runtime.ReadMemStats(&last)
			if kept := int(live()) - int(before); kept > page/2 {
				t.Errorf("%d bytes are kept after the snapshot", kept)
			}
			cancel()
		}
	}
	if made := int(last.TotalAlloc - first.TotalAlloc); told != 22 || made > 18*page/2 {
		t.Errorf("%d events; %d bytes were allocated for 18 pages of %d", told, made, page)
	}
}

// TestBodiesAreLogged: where client-go logs what it has read, that is what came.
func TestBodiesAreLogged(t *testing.T) {
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log), textlogger.Verbosity(8)))
	ctx := klog.NewContext(t.Context(), logger)
	s := &server{served: served{chunks: chunksOf(listOf(0, thing))}}
	if _, err := (variant{opts: &stream.ClientOptions{}}).client(t, s, nil).Resource(things).List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), `managedFields`) {
		t.Errorf("logged: %s", log.String())
	}
}

// TestPagesAreApart: pages are read into the same memory, and no object knows.
func TestPagesAreApart(t *testing.T) {
	srv := streamtest.NewServer(widgets())
	for i := range 450 {
		srv.Put(widgets(), "one", "w"+strconv.Itoa(i), "spec.text="+many(20, strconv.Itoa(i*7919)))
	}
	want, err := srv.Client().Resource(widgets().GroupVersionResource).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]map[string]any{}
	for _, item := range want.Items {
		byName[item.GetName()] = item.Object
	}
	s, err := stream.New(clientOf(t, srv, "ours"), widgets(), &stream.Options{InitialList: stream.ListPaged, PageSize: 100, End: stream.WhenSynced})
	if err != nil {
		t.Fatal(err)
	}
	var told []*unstructured.Unstructured
	for ev, err := range s.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Object != nil {
			told = append(told, ev.Object)
		}
	}
	if len(told) != len(byName) {
		t.Errorf("%d objects were told, want %d", len(told), len(byName))
	}
	for _, o := range told {
		if d := decodetest.Difference(byName[o.GetName()], o.Object); d != "" {
			t.Errorf("%s: %s", o.GetName(), d)
		}
	}
}
