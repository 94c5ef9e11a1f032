package informer_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/internal/testing/bubbles"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// stripped makes an object of another type, and keeps nothing of the text that it was decoded from.
func stripped(o *unstructured.Unstructured) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: strings.Clone(o.GetName()), Namespace: strings.Clone(o.GetNamespace()),
		UID:             types.UID(strings.Clone(string(o.GetUID()))),
		ResourceVersion: strings.Clone(o.GetResourceVersion()),
	}}
}

// texts has a byte of the text of each object.
type texts []weak.Pointer[byte]

func (t *texts) add(o *unstructured.Unstructured) {
	*t = append(*t, weak.Make(unsafe.StringData(string(o.GetUID()))))
}

// alive returns how many texts are in memory.
func (t *texts) alive() (n int) {
	runtime.GC()
	runtime.GC()
	for _, p := range *t {
		if p.Value() != nil {
			n++
		}
	}
	return n
}

// With a transform that strips objects, whole ones are in memory only on their way, a few at a time, while a list is
// read, too.
func TestStrippedObjectsLeaveMemory(t *testing.T) {
	const objects, most = 500, 20
	for _, tt := range []struct {
		why      string
		requests stream.Requests
	}{
		{"a streaming list", stream.Requests{}},
		{"pages", stream.Requests{PagedLists: true, PageSize: 50}},
	} {
		inBubble(t, func(t *testing.T, srv *streamtest.Server) {
			var whole texts
			mostAlive := 0
			tt.requests.GiveUpAfter = time.Minute
			s := newStream(t, srv, &stream.Options{Requests: tt.requests})
			for n := range objects {
				srv.Put(widgets, "shop", fmt.Sprint("lamp-", n), "spec.text="+strings.Repeat("x", 2000))
			}
			r := startStripping(t, s, func(o *unstructured.Unstructured) {
				whole.add(o)
				if len(whole)%100 == 0 {
					mostAlive = max(mostAlive, whole.alive())
				}
			})
			defer r.stop()
			outage(t, srv)
			time.Sleep(5 * time.Minute)
			if got := len(r.GetStore().List()); got != objects+2 || len(whole) != 2*got {
				t.Errorf("%s: %d objects, %d calls of the transform; want two lists", tt.why, got, len(whole))
			}
			if mostAlive > most {
				t.Errorf("%s: %d whole objects were in memory during a list, want at most %d", tt.why, mostAlive, most)
			}
			if got := whole.alive(); got > most {
				t.Errorf("%s: %d whole objects are still in memory, want at most %d", tt.why, got, most)
			}
		})
	}
}

// startStripping starts an informer of stripped objects.
func startStripping(t *testing.T, s *stream.Stream, transformed func(*unstructured.Unstructured)) *running {
	t.Helper()
	return start(t, s, func(i cache.SharedIndexInformer) {
		_ = i.SetTransform(func(obj any) (any, error) {
			o := obj.(*unstructured.Unstructured)
			transformed(o)
			return stripped(o), nil
		})
	})
}

// The transform is called once for each object that is stored, of a list as of a watch, and never sees what it has
// made. Recreated objects of a second list arrive as OnDelete, then OnAdd.
func TestTransformIsCalledOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		s := newStream(t, srv, &stream.Options{Requests: stream.Requests{GiveUpAfter: time.Minute}})
		calls := map[string]int{}
		r := startStripping(t, s, func(o *unstructured.Unstructured) {
			calls[o.GetName()+" "+o.GetResourceVersion()]++
		})
		defer r.stop()
		for _, phase := range []struct {
			why          string
			act          func()
			calls, lines []string
		}{
			{"the first list", func() {}, []string{"door", "window"}, []string{"add door 1", "add window 1"}},
			{"a watch", func() {
				srv.Put(widgets, "shop", "door", "spec.n=1")
				srv.Put(widgets, "shop", "roof")
				srv.Put(widgets, "shop", "stair")
				remove(t, srv, "stair")
			}, []string{"door", "roof", "stair", "stair"},
				[]string{"add roof 1", "add stair 1", "delete stair 1", "update door 1"}},
			{"a gap", func() {
				do(t, srv, "widgets silence")
				remove(t, srv, "window")
				srv.Put(widgets, "shop", "stair")
				do(t, srv, "restart")
			}, []string{"stair"}, []string{"add stair 2", "delete window 1"}},
			{"a second list", func() {
				do(t, srv, "widgets silence")
				remove(t, srv, "door")
				srv.Put(widgets, "shop", "door")
				remove(t, srv, "roof")
				srv.Put(widgets, "shop", "stair", "spec.n=1")
				outage(t, srv)
			}, []string{"door", "stair"},
				[]string{"add door 2", "delete unknown door 1", "delete unknown roof 1", "update stair 2"}},
			{"the watch after it", func() {
				srv.Put(widgets, "shop", "door", "spec.n=2")
				remove(t, srv, "door")
			}, []string{"door", "door"}, []string{"delete door 2", "update door 2"}},
		} {
			phase.act()
			time.Sleep(5 * time.Minute)
			if diff := cmp.Diff(phase.lines, sorted(r.take())); diff != "" {
				t.Errorf("%s: handlers (-want +got):\n%s", phase.why, diff)
			}
			var got []string
			for call, n := range calls {
				name, _, _ := strings.Cut(call, " ")
				for range n {
					got = append(got, name)
				}
			}
			if diff := cmp.Diff(phase.calls, sorted(got)); diff != "" {
				t.Errorf("%s: calls of the transform (-want +got):\n%s", phase.why, diff)
			}
			clear(calls)
		}
	})
}

// A list that the transform refuses names the object, and the error is that of the transform.
func TestErrorOfTheTransform(t *testing.T) {
	refused := errors.New("refused")
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		i, err := informer.NewSharedIndexInformer(newStream(t, srv, nil), cache.SharedIndexInformerOptions{
			ResyncPeriod: bubbles.NoResync,
		})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		_ = i.SetTransform(func(obj any) (any, error) {
			if calls++; calls < 4 && obj.(*unstructured.Unstructured).GetName() == "window" {
				return nil, refused
			}
			return obj, nil
		})
		r := startInformer(t, i)
		defer r.stop()
		if errs := r.errors(); len(errs) == 0 || !errors.Is(errs[0], refused) ||
			!strings.Contains(errs[0].Error(), "shop/window") {
			t.Errorf("errors %v, want one of the transform for shop/window", errs)
		}
		time.Sleep(5 * time.Minute)
		if diff := cmp.Diff([]string{"add door 1", "add window 1"}, r.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
