package stream_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
)

// outcome is what became of a call.
type outcome struct {
	object *unstructured.Unstructured
	list   *unstructured.UnstructuredList
	err    error
	asked  []string
	warned []string
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

// call makes a request with the client of v, in a bubble: client-go waits before
// it repeats requests.
func (v variant) call(t *testing.T, a served, f func(context.Context, dynamic.Interface, *outcome)) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a.chunks = slices.Clone(a.chunks)
		s, w := &server{served: a}, &warnings{}
		f(t.Context(), v.client(t, s, w), &o)
		o.asked, o.warned = s.asked, w.texts
	})
	return o
}

func differentOutcomes(v variant, want, got outcome) string {
	if d := differentErrors(want.err, got.err); d != "" {
		return "the error: " + d
	}
	if d := cmp.Diff(want.asked, got.asked) + cmp.Diff(want.warned, got.warned); d != "" {
		return "what was asked, or warned of: " + d
	}
	switch {
	case (want.object == nil) != (got.object == nil), (want.list == nil) != (got.list == nil):
		return fmt.Sprintf("want an object: %v, a list: %v; got %v, %v", want.object != nil, want.list != nil, got.object != nil, got.list != nil)
	case want.object != nil:
		return decodetest.Difference(want.object.Object, got.object.Object)
	case want.list != nil:
		pruned := &unstructured.UnstructuredList{Object: want.list.Object, Items: slices.Clone(want.list.Items)}
		for i := range pruned.Items {
			pruned.Items[i].Object = v.prune(pruned.Items[i].Object)
		}
		return decodetest.DifferenceOfLists(pruned, got.list)
	}
	return ""
}

func callsTheSame(t *testing.T, of []variant, why string, a served, f func(context.Context, dynamic.Interface, *outcome)) {
	t.Helper()
	want := stock.call(t, a, f)
	for _, v := range of {
		if d := differentOutcomes(v, want, v.call(t, a, f)); d != "" {
			t.Errorf("%s (%s): %.2000s\n%.300q", why, v.name, d, a.chunks)
		}
	}
}

func lists(ctx context.Context, c dynamic.Interface, o *outcome) {
	o.list, o.err = c.Resource(things).List(ctx, metav1.ListOptions{Limit: 500, LabelSelector: "a=b", ResourceVersion: "7"})
}

func TestSameRecordedLists(t *testing.T) {
	for _, r := range decodetest.ReadRecorded(t, recordings) {
		if !r.Watch {
			callsTheSame(t, variants(), r.Name, served{chunks: [][]byte{r.Data}}, lists)
			callsTheSame(t, variants(), r.Name+" in pieces", served{chunks: every(777, r.Data)}, lists)
		}
	}
}

func TestSameLists(t *testing.T) {
	for i, c := range decodetest.Lists() {
		if len(c.Text) > 2<<10 {
			continue
		}
		v, a := variants()[i%len(variants())], served{chunks: chunksOf(c.Text)}
		if d := differentOutcomes(v, stock.call(t, a, lists), v.call(t, a, lists)); d != "" {
			t.Errorf("%s (%s): %s\n%.300q", c.Why, v.name, d, c.Text)
		}
	}
}

// calls are all that a dynamic client can do but to watch.
func calls() map[string]func(context.Context, dynamic.Interface, *outcome) {
	object := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"n": int64(1), "f": 0.5, "s": "<é>"},
		}}
	}
	return map[string]func(context.Context, dynamic.Interface, *outcome){
		"Get": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.object, o.err = c.Resource(things).Namespace("ns").Get(ctx, "a", metav1.GetOptions{ResourceVersion: "7"})
		},
		"Get of a subresource": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.object, o.err = c.Resource(things).Namespace("ns").Get(ctx, "a", metav1.GetOptions{}, "scale")
		},
		"Get without a name": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.object, o.err = c.Resource(things).Get(ctx, "", metav1.GetOptions{})
		},
		"Get of a name that is none": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.object, o.err = c.Resource(things).Get(ctx, "a/b", metav1.GetOptions{})
		},
		"List": lists,
		"List in a namespace": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.list, o.err = c.Resource(things).Namespace("ns").List(ctx, metav1.ListOptions{})
		},
		"List in what is no namespace": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.list, o.err = c.Resource(things).Namespace("..").List(ctx, metav1.ListOptions{})
		},
		"Create": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.object, o.err = c.Resource(things).Namespace("ns").Create(ctx, object(), metav1.CreateOptions{FieldManager: "m"})
		},
		"Update": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.object, o.err = c.Resource(things).Namespace("ns").Update(ctx, object(), metav1.UpdateOptions{DryRun: []string{"All"}})
		},
		"UpdateStatus": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.object, o.err = c.Resource(things).UpdateStatus(ctx, object(), metav1.UpdateOptions{})
		},
		"Delete": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.err = c.Resource(things).Namespace("ns").Delete(ctx, "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("u")})
		},
		"DeleteCollection": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.err = c.Resource(things).Namespace("ns").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "a"})
		},
		"Patch": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.object, o.err = c.Resource(things).Namespace("ns").Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":null}`), metav1.PatchOptions{})
		},
		"Apply": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.object, o.err = c.Resource(things).Namespace("ns").Apply(ctx, "a", object(), metav1.ApplyOptions{FieldManager: "m", Force: true})
		},
		"ApplyStatus": func(ctx context.Context, c dynamic.Interface, o *outcome) {
			o.object, o.err = c.Resource(things).ApplyStatus(ctx, "a", object(), metav1.ApplyOptions{FieldManager: "m"})
		},
	}
}

func TestSameCalls(t *testing.T) {
	const status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"Conflict","details":{"name":"a","kind":"things","retryAfterSeconds":1},"code":409}`
	const list = `{"apiVersion":"example.com/v1","kind":"ThingList","metadata":{"resourceVersion":"7","continue":"c"},"items":[` + thing + `,{"metadata":{"name":"b"}}]}`
	json := func(s string) map[string]string { return map[string]string{"Content-Type": s} }
	names := slices.Sorted(maps.Keys(calls()))
	for i, name := range names {
		call := calls()[name]
		of := variants()[i%len(variants()):][:1]
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{thing, list, status, "", "{}", "garbage", "null", `{"kind":"Thing"`} {
				for _, code := range []int{200, 201, 202, 204, 400, 401, 404, 409, 410, 422, 429, 500, 503} {
					callsTheSame(t, of, fmt.Sprint(code), served{status: code, chunks: chunksOf(text)}, call)
				}
			}
			for _, kind := range []string{"", "text/plain", "application/json; charset=utf-8", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor", ";"} {
				callsTheSame(t, of, kind, served{header: json(kind), chunks: chunksOf(list)}, call)
				callsTheSame(t, of, kind, served{status: 404, header: json(kind), chunks: chunksOf(status)}, call)
			}
			callsTheSame(t, of, "a server that is asked again", served{status: 429, header: map[string]string{"Retry-After": "3"}, chunks: chunksOf(status)}, call)
			callsTheSame(t, of, "a wait that is no number", served{status: 503, header: map[string]string{"Retry-After": "soon"}, chunks: chunksOf(status)}, call)
			callsTheSame(t, of, "a warning", served{header: map[string]string{"Warning": `299 - "deprecated"`}, chunks: chunksOf(thing)}, call)
			callsTheSame(t, of, "a body that breaks off", served{chunks: chunksOf(thing[:50]), end: errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer")}, call)
			callsTheSame(t, of, "a body that is reset", served{chunks: chunksOf(list), end: errors.New("read: connection reset by peer")}, call)
		})
	}
}

// TestSameRoundTrip: what is read through one client goes back through it as it
// came.
func TestSameRoundTrip(t *testing.T) {
	for _, text := range []string{thing, `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},"f":1.0,"e":1e3,"big":123456789012345678901234567890,"z":-0,"n":null,"s":"\u003cé\ud83d\ude00\ud800\u2028","l":[[],{}]}`} {
		list := `{"apiVersion":"v1","kind":"ThingList","metadata":{},"items":[` + strings.TrimSpace(text) + `]}`
		callsTheSame(t, variants(), "a list, and an update of its item", served{chunks: chunksOf(list)}, func(ctx context.Context, c dynamic.Interface, o *outcome) {
			if o.list, o.err = c.Resource(things).List(ctx, metav1.ListOptions{}); o.err != nil {
				return
			}
			item := o.list.Items[0].DeepCopy()
			// Whole again: the clients that drop parts must not be used like this.
			for key, value := range map[string]any{"status": map[string]any{}} {
				item.Object[key] = value
			}
			unstructured.RemoveNestedField(item.Object, "metadata", "managedFields")
			o.object, o.err = c.Resource(things).Update(ctx, item, metav1.UpdateOptions{})
		})
	}
}
