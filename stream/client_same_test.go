package stream_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
	"github.com/gvrwatch/gvrwatch/stream"
)

// The tests of sameness serve the same bytes to client-go's dynamic client and to
// those of NewClient, and compare whatever comes of it.

var things = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}

const recordings = "../testdata/objects"

// variant is a client, and what its options leave out.
type variant struct {
	name string
	opts *stream.ClientOptions // nil for client-go's
	drop [][]string
}

var stock = variant{name: "client-go"}

// variants are clients of NewClient.
func variants() []variant {
	drop := [][]string{{"status"}, {"spec", "template"}, {"metadata", "annotations", "k8s.io/initial-events-end"}, {"kind", "x"}}
	return []variant{
		{"plain", &stream.ClientOptions{}, nil},
		{"2 workers", &stream.ClientOptions{DecodeWorkers: 2, Compression: true}, nil},
		{"4 workers", &stream.ClientOptions{DecodeWorkers: 4}, nil},
		{"drop", &stream.ClientOptions{Drop: drop, DropManagedFields: true}, append(drop, []string{"metadata", "managedFields"})},
		{"drop, 2 workers", &stream.ClientOptions{Drop: drop, DecodeWorkers: 2}, drop},
	}
}

func (v variant) client(t testing.TB, s *server, warn rest.WarningHandler) dynamic.Interface {
	t.Helper()
	cfg := &rest.Config{Host: "http://server.test", QPS: -1, Transport: s, WarningHandler: warn}
	if warn == nil {
		cfg.WarningHandler = rest.NoWarnings{}
	}
	if v.opts == nil {
		c, err := dynamic.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c, err := stream.NewClient(cfg, v.opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// prune is what v leaves out of an object that another client has whole.
func (v variant) prune(o map[string]any) map[string]any {
	o = decodetest.Copy(o)
	for _, path := range v.drop {
		unstructured.RemoveNestedField(o, path...)
	}
	return o
}

// differentEvents says in what the events of v are not those of client-go.
func differentEvents(v variant, want, got []apiwatch.Event) string {
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) {
			return fmt.Sprintf("want %d events %v, got %d %v", len(want), typesOf(want), len(got), typesOf(got))
		}
		if d := differentEvent(v, want[i], got[i]); d != "" {
			return fmt.Sprintf("event %d: %s", i, d)
		}
	}
	return ""
}

func typesOf(events []apiwatch.Event) (types []apiwatch.EventType) {
	for _, ev := range events[max(0, len(events)-8):] {
		types = append(types, ev.Type)
	}
	return types
}

func differentEvent(v variant, want, got apiwatch.Event) string {
	if want.Type != got.Type || fmt.Sprintf("%T", want.Object) != fmt.Sprintf("%T", got.Object) {
		return fmt.Sprintf("want %s of %T, got %s of %T (%v)", want.Type, want.Object, got.Type, got.Object, got.Object)
	}
	o, ok := want.Object.(*unstructured.Unstructured)
	if !ok {
		return cmp.Diff(want.Object, got.Object)
	}
	content := o.Object
	if want.Type != apiwatch.Bookmark {
		content = v.prune(content)
	}
	return decodetest.Difference(content, got.Object.(*unstructured.Unstructured).Object)
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

// inSteps lets client-go and v watch the same answer, one chunk after the other,
// and compares after each what has been told: neither waits for more than the
// other does.
func inSteps(t *testing.T, v variant, a served) error {
	t.Helper()
	var problem error
	synctest.Test(t, func(t *testing.T) {
		type side struct {
			gate   chan struct{}
			mu     sync.Mutex
			events []apiwatch.Event
			ended  bool
		}
		var sides [2]*side
		var wait sync.WaitGroup
		defer wait.Wait()
		var errs [2]error
		for i, v := range []variant{stock, v} {
			s := &side{gate: make(chan struct{})}
			sides[i] = s
			a := a
			if a.status == 0 { // else it is read before there is a watch
				a.gate = s.gate
			}
			a.chunks = slices.Clone(a.chunks)
			w, err := v.client(t, &server{served: a}, nil).Resource(things).Watch(t.Context(), metav1.ListOptions{})
			if errs[i] = err; err != nil {
				continue
			}
			wait.Go(func() {
				for ev := range w.ResultChan() {
					s.mu.Lock()
					s.events = append(s.events, ev)
					s.mu.Unlock()
				}
				s.mu.Lock()
				s.ended = true
				s.mu.Unlock()
			})
			defer w.Stop()
		}
		if d := differentErrors(errs[0], errs[1]); d != "" {
			problem = errors.New("to watch: " + d)
			return
		}
		compared := 0
		for step := range len(a.chunks) + 2 {
			if errs[0] == nil {
				synctest.Wait()
			}
			sides[0].mu.Lock()
			sides[1].mu.Lock()
			d := differentEvents(v, sides[0].events[compared:], sides[1].events[compared:])
			compared = len(sides[0].events)
			if d == "" && sides[0].ended != sides[1].ended {
				d = fmt.Sprintf("ended: want %v, got %v", sides[0].ended, sides[1].ended)
			}
			sides[1].mu.Unlock()
			sides[0].mu.Unlock()
			if d != "" {
				problem = fmt.Errorf("after %d of %d chunks: %s", step, len(a.chunks), d)
				return
			}
			for _, s := range sides {
				select {
				case s.gate <- struct{}{}:
				default: // nobody reads any more
				}
			}
		}
		if errs[0] == nil && !sides[0].ended {
			problem = errors.New("the watch did not end")
		}
	})
	return problem
}

// watchesTheSame is inSteps for all variants.
func watchesTheSame(t *testing.T, why string, a served) {
	t.Helper()
	for _, v := range variants() {
		if err := inSteps(t, v, a); err != nil {
			t.Errorf("%s (%s): %v\n%.200q", why, v.name, err, a.chunks)
		}
	}
}

func chunksOf(texts ...string) (chunks [][]byte) {
	for _, text := range texts {
		chunks = append(chunks, []byte(text))
	}
	return chunks
}

// every cuts data into chunks of n bytes.
func every(n int, data []byte) [][]byte { return slices.Collect(slices.Chunk(data, n)) }

const (
	thing   = `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"7","managedFields":[{"manager":"m"}]},"spec":{"n":1,"f":1.5,"s":"\u00e9"},"status":{"ok":true}}`
	added   = `{"type":"ADDED","object":` + thing + `}`
	deleted = `{"type":"DELETED","object":` + thing + `}`
	expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}}`
)

// many is text, so many times.
func many(n int, text string) string { return strings.Repeat(text, n) }

// broken says whether there is something in text that is no JSON, which client-go
// may see before the frame ends in which it is.
func broken(text string) bool {
	for {
		n, more, err := decodetest.Frame([]byte(text))
		if more || err != nil {
			return err != nil
		}
		text = text[n:]
	}
}
