package informer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream/informer"
)

// both are what is compared.
var both = map[string]newInformer{"plain": cache.NewSharedIndexInformer, "compact": informer.NewCompact}

// doorPages is a source of unstructured objects, in pages of one.
type doorPages struct{ names []string }

func (doorPages) IsWatchListSemanticsUnSupported() bool { return true }

func (s doorPages) List(o metav1.ListOptions) (runtime.Object, error) {
	l := &unstructured.UnstructuredList{}
	l.SetResourceVersion("9")
	for i, name := range s.names {
		if name <= o.Continue {
			continue
		}
		u := unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Door"}}
		u.SetName(name)
		u.SetResourceVersion("5")
		l.Items = append(l.Items, u)
		if i+1 < len(s.names) {
			l.SetContinue(name)
		}
		break
	}
	return l, nil
}

func (doorPages) Watch(metav1.ListOptions) (watch.Interface, error) {
	return watch.NewRaceFreeFake(), nil
}

// TestUnpackableObjectsInPages: of a list in pages, too, the transform receives each object once.
func TestUnpackableObjectsInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := map[string]string{}
		for name, made := range both {
			i := startCompact(t, func(lw cache.ListerWatcher, _ runtime.Object, d time.Duration,
				x cache.Indexers) cache.SharedIndexInformer {
				return made(lw, &unstructured.Unstructured{}, d, x)
			}, doorPages{[]string{"a", "b", "c"}}, nil, func(i cache.SharedIndexInformer) {
				set(t, i.SetTransform(func(obj any) (any, error) {
					u := obj.(*unstructured.Unstructured)
					n, _ := u.Object["visits"].(int) // an int: it cannot be packed
					u.Object["visits"] = n + 1
					return u, nil
				}))
			})
			for _, o := range i.GetStore().List() {
				got[name] += fmt.Sprint(o.(*unstructured.Unstructured).GetName(), "=",
					o.(*unstructured.Unstructured).Object["visits"], " ")
			}
			got[name] = fmt.Sprint(strings.Count(got[name], "=1"), " of 3 transformed once")
		}
		if got["plain"] != got["compact"] {
			t.Error(cmp.Diff(got["plain"], got["compact"]))
		}
	})
}

// TestHandlersGetCopiesOfUnpackableObjects: what a handler does to an object that cannot be packed, the store does not
// see.
func TestHandlersGetCopiesOfUnpackableObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := startCompact(t, informer.NewCompact, newSource("a"), nil, func(i cache.SharedIndexInformer) {
			set(t, i.SetTransform(func(obj any) (any, error) {
				o := obj.(*corev1.ConfigMap)
				return &hidden{ObjectMeta: o.ObjectMeta, Hidden: "x"}, nil
			}))
			_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
				o.(*hidden).Hidden = "changed by a handler"
			}})
			set(t, err)
		})
		o, _, _ := i.GetStore().GetByKey("shop/a")
		if o.(*hidden).Hidden != "x" {
			t.Errorf("the store has %q", o.(*hidden).Hidden)
		}
	})
}

type hidden struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Hidden            string `json:"-"`
}

func (h *hidden) DeepCopyObject() runtime.Object { c := *h; return &c }

// TestLateIndexesLeaveTheCallersSlice: a slice that a function of an index returns remains the caller's. The race
// detector sees it.
func TestLateIndexesLeaveTheCallersSlice(t *testing.T) {
	all := []string{"all"} // as a function may return, that never changes it
	index := func(any) ([]string, error) { return all, nil }
	var running sync.WaitGroup
	for range 2 {
		x := informer.NewCompact(newSource(), &corev1.ConfigMap{}, 0, nil).GetIndexer()
		set(t, x.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
		running.Go(func() { set(t, x.AddIndexers(cache.Indexers{"all": index})) })
	}
	running.Wait()
}

// fragile has JSON that it does not read for some objects.
type fragile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Level             level `json:"level"`
}

type level string

func (l *level) UnmarshalJSON(b []byte) error {
	if *l = level(strings.Trim(string(b), `"`)); *l == "" {
		return errors.New("invalid level")
	}
	return nil
}

func (f *fragile) DeepCopyObject() runtime.Object { c := *f; return &c }

// TestUpdatesOfUndecodableObjects: an update arrives if only the old object cannot be decoded.
func TestUpdatesOfUndecodableObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := map[string]string{}
		for name, made := range both {
			s := newSource()
			for n := range 20 {
				s.put(fmt.Sprintf("n%02d", n), "first")
			}
			startCompact(t, made, s, nil, func(i cache.SharedIndexInformer) {
				set(t, i.SetTransform(func(obj any) (any, error) {
					o := obj.(*corev1.ConfigMap)
					f := &fragile{ObjectMeta: o.ObjectMeta, Level: "high"}
					if o.Data["value"] == "empty" {
						f.Level = ""
					}
					return f, nil
				}))
				_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
					UpdateFunc: func(_, o any) { got[name] += "update to " + string(o.(*fragile).Level) + "; " },
				})
				set(t, err)
			})
			s.put("n19", "empty")
			pause(5 * time.Second)
			s.put("n19", "second")
			pause(5 * time.Second)
		}
		if got["plain"] != got["compact"] {
			t.Error(cmp.Diff(got["plain"], got["compact"]))
		}
	})
}

// restless changes between the pages of a list, so that tokens expire, or fails.
type restless struct {
	*source
	r *rand.Rand
}

func (s *restless) List(o metav1.ListOptions) (runtime.Object, error) {
	if o.Continue != "" {
		switch s.r.IntN(4) {
		case 0:
			s.put(string(rune('a'+s.r.IntN(5))), fmt.Sprint("between", s.r.IntN(3)))
		case 1:
			s.remove(string(rune('a' + s.r.IntN(5))))
		case 2:
			if s.r.IntN(4) == 0 {
				return nil, apierrors.NewInternalError(errors.New("x"))
			}
		}
	}
	return s.source.List(o)
}

// TestChangesBetweenPages: what changes between the pages of a list, and pages that fail, lead to what they lead to
// without packing.
func TestChangesBetweenPages(t *testing.T) {
	seedtest.Default(40).Run(t, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			run := func(made newInformer) (seen []any) {
				s := &restless{newSource("a", "b", "c", "d"), rand.New(rand.NewPCG(seed, 1))}
				s.page = 1 + int(seed%3)
				l := &log{}
				i := startCompact(t, made, s, cache.Indexers{"value": byValue}, func(i cache.SharedIndexInformer) {
					if seed%2 == 0 {
						set(t, i.SetTransform(func(obj any) (any, error) {
							o := obj.(*corev1.ConfigMap)
							o.Annotations = map[string]string{"transformed": o.Annotations["transformed"] + "x"}
							return o, nil
						}))
					}
					_, err := i.AddEventHandler(l)
					set(t, err)
				})
				for n := range 10 {
					pause(3 * time.Minute)
					seen = append(seen, contents(i), i.HasSynced())
					seen = append(seen, keysOf(i.GetIndexer().ByIndex("value", "between1")))
					s.put(string(rune('a'+n%5)), fmt.Sprint("between", n%3))
					s.expire()
				}
				pause(time.Hour)
				return append(seen, byObject(l.take()), contents(i))
			}
			if diff := cmp.Diff(run(cache.NewSharedIndexInformer), run(informer.NewCompact)); diff != "" {
				t.Errorf("seed %d (-plain +compact):\n%s", seed, diff)
			}
		})
	})
}

// TestRefusedPage: a list in pages of which the transform refuses an object is not stored in part.
func TestRefusedPage(t *testing.T) {
	for page := 1; page <= 3; page++ {
		synctest.Test(t, func(t *testing.T) {
			s := newSource("a", "b", "c", "d")
			s.page = page
			i := startCompact(t, informer.NewCompact, s, nil, func(i cache.SharedIndexInformer) {
				set(t, i.SetTransform(func(obj any) (any, error) {
					if obj.(*corev1.ConfigMap).Name == "c" {
						return nil, errors.New("refused")
					}
					return obj, nil
				}))
			})
			pause(time.Minute)
			if keys := i.GetStore().ListKeys(); len(keys) > 0 || i.HasSynced() {
				t.Errorf("pages of %d: synced %t with %v", page, i.HasSynced(), keys)
			}
		})
	}
}

// TestUndecodableObjects: an object that cannot be decoded is left out by List and late indexes, which do not panic,
// and its deletion arrives.
func TestUndecodableObjects(t *testing.T) {
	x := informer.NewCompact(newSource(), &fragile{}, 0, cache.Indexers{}).GetIndexer()
	for n := range 20 {
		f := &fragile{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(n)}, Level: "high"}
		if n == 19 {
			f.Level = "" // as if the server has not sent the field
		}
		set(t, x.Add(f))
	}
	set(t, x.AddIndexers(cache.Indexers{"level": func(o any) ([]string, error) {
		return []string{string(o.(*fragile).Level)}, nil
	}}))
	if items, err := x.ByIndex("level", "high"); len(items) != 19 || err != nil {
		t.Errorf("ByIndex: %d objects, %v", len(items), err)
	}
	if n := len(x.List()); n != 19 {
		t.Errorf("List has %d of 19", n)
	}
	if _, _, err := x.GetByKey("19"); err == nil {
		t.Error("GetByKey returned an object that cannot be decoded")
	}
	synctest.Test(t, func(t *testing.T) {
		var got []any
		s := newSource()
		for n := range 20 {
			s.put(fmt.Sprintf("n%02d", n), "first")
		}
		startCompact(t, informer.NewCompact, s, nil, func(i cache.SharedIndexInformer) {
			set(t, i.SetTransform(func(obj any) (any, error) {
				o := obj.(*corev1.ConfigMap)
				f := &fragile{ObjectMeta: o.ObjectMeta, Level: "high"}
				if o.Name == "n19" {
					f.Level = ""
				}
				return f, nil
			}))
			_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
				DeleteFunc: func(o any) { got = append(got, o) },
			})
			set(t, err)
		})
		pause(time.Minute)
		s.remove("n19")
		pause(time.Minute)
		if len(got) != 1 {
			t.Errorf("OnDelete was called %d times, want once", len(got))
		}
	})
}
