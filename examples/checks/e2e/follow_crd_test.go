package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// maxAttachTime limits how long attaching and detaching may take on a busy machine. Follow promises two seconds, which
// its synctest tests check; these tests log the times.
const maxAttachTime = 10 * time.Second

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// definitions creates, changes and deletes CRDs.
type definitions struct {
	t      *testing.T
	client dynamic.Interface
}

func newDefinitions(t *testing.T) *definitions {
	return &definitions{t, dynamic.NewForConfigOrDie(shared.Config())}
}

// create creates a CRD, and returns the time when the server answered a list of its objects with 200.
func (d *definitions) create(crd devserver.CRD) time.Time {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), timeout)
	defer cancel()
	if err := devserver.CreateCRDs(ctx, d.client, crd); err != nil {
		d.t.Fatal(err)
	}
	return time.Now()
}

// delete deletes a CRD. It returns the time of the request, and the time when the server answered a list with 404.
func (d *definitions) delete(crd devserver.CRD) (requested, gone time.Time) {
	d.t.Helper()
	requested = time.Now()
	d.remove(crd)
	if !poll(d.t.Context(), timeout, func() bool {
		_, err := d.client.Resource(crd.Resource()).List(d.t.Context(), metav1.ListOptions{Limit: 1})
		return apierrors.IsNotFound(err)
	}) {
		d.t.Fatalf("%s is still served", sourceOf(crd))
	}
	return requested, time.Now()
}

// remove deletes a CRD without waiting.
func (d *definitions) remove(crd devserver.CRD) {
	d.t.Helper()
	crds := d.client.Resource(crdResource)
	if err := crds.Delete(d.t.Context(), crd.Object().GetName(), metav1.DeleteOptions{}); err != nil {
		d.t.Fatal(err)
	}
}

// awaitRemoved waits until the CRD itself is gone, so that it can be created again.
func (d *definitions) awaitRemoved(crd devserver.CRD) {
	d.t.Helper()
	crds := d.client.Resource(crdResource)
	if !poll(d.t.Context(), timeout, func() bool {
		_, err := crds.Get(d.t.Context(), crd.Object().GetName(), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}) {
		d.t.Fatalf("the CRD of %s still exists", sourceOf(crd))
	}
}

// update changes the spec of a CRD, and retries on conflicts.
func (d *definitions) update(crd devserver.CRD, change func(spec map[string]any)) {
	d.t.Helper()
	crds := d.client.Resource(crdResource)
	for {
		o, err := crds.Get(d.t.Context(), crd.Object().GetName(), metav1.GetOptions{})
		if err == nil {
			change(o.Object["spec"].(map[string]any))
			_, err = crds.Update(d.t.Context(), o, metav1.UpdateOptions{})
		}
		switch {
		case err == nil:
			return
		case !apierrors.IsConflict(err):
			d.t.Fatal(err)
		}
	}
}

// serve makes the server serve these versions only.
func (d *definitions) serve(crd devserver.CRD, served ...string) {
	d.t.Helper()
	d.update(crd, func(spec map[string]any) {
		for _, v := range spec["versions"].([]any) {
			of := v.(map[string]any)
			of["served"] = slices.Contains(served, of["name"].(string))
		}
	})
}

// object creates an object. The server delays that if the CRD is new.
func (d *definitions) object(crd devserver.CRD, ns, name string) *unstructured.Unstructured {
	d.t.Helper()
	c := dynamic.ResourceInterface(d.client.Resource(crd.Resource()))
	if ns != "" {
		c = d.client.Resource(crd.Resource()).Namespace(ns)
	}
	o, err := c.Create(d.t.Context(), newObject(crd, name), metav1.CreateOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	return o
}

func sourceOf(crd devserver.CRD) string { return crd.Resource().GroupResource().String() }

func TestFollowCRDCreatedAndDeleted(t *testing.T) {
	t.Parallel()
	rights := &permissions{cluster: true}
	srv := startServer(t, &devserver.Options{Allow: rights.allow})
	for _, by := range []string{"name", "pattern", "pattern, without the right to watch CRDs"} {
		t.Run("by "+by, func(t *testing.T) {
			t.Parallel()
			d, cfg := &definitions{t, dynamic.NewForConfigOrDie(srv.Config())}, srv.Config()
			crd := devserver.CRD{Group: unique("comes") + ".example.com", Kind: "Thing", Namespaced: true}
			source, sel := sourceOf(crd), follow.Selection{Resources: []string{sourceOf(crd)}}
			if by != "name" {
				sel.Resources = []string{"*." + crd.Group}
			}
			refreshed := by == "name" || by == "pattern"
			if !refreshed {
				cfg = srv.LimitedConfig()
			}
			var discovered atomic.Bool
			cfg = rest.CopyConfig(cfg)
			cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					response, err := next.RoundTrip(r)
					if err == nil && r.URL.Path == "/apis" {
						discovered.Store(true)
					}
					return response, err
				})
			})
			f := followOn(t, cfg, sel, nil)
			f.await("discovery without the CRD", discovered.Load)
			var attached, detached, ended, whole []time.Duration
			at := 0
			for incarnation := 1; incarnation <= 3; incarnation++ {
				served := d.create(crd)
				i, synced := f.awaitSynced(source, at)
				attached = append(attached, synced.at.Sub(served))
				for _, name := range []string{"a", "b", "c"} {
					d.object(crd, "default", name)
				}
				at = i + 1
				f.awaitEvent(source, "ADDED c", at, isEvent(stream.Added, "c"))
				// A poll may miss that a CRD was gone for a moment.
				got := f.awaitState(source, follow.Watching).Incarnation
				if got != incarnation && (refreshed || got > incarnation) {
					t.Errorf("incarnation %d, want %d", got, incarnation)
				}
				requested, gone := d.delete(crd)
				var last timedEvent
				for _, name := range []string{"a", "b", "c"} {
					i, ev := f.awaitEvent(source, "DELETED "+name, at, isEvent(stream.Deleted, name))
					at = max(at, i+1)
					if ev.at.After(last.at) {
						last = ev
					}
				}
				state := f.awaitState(source, follow.Gone)
				ended = append(ended, last.at.Sub(requested))
				detached = append(detached, state.at.Sub(gone))
				whole = append(whole, state.at.Sub(requested))
				if state.Cause != nil {
					t.Errorf("Gone has cause %v, want none", state.Cause)
				}
				d.awaitRemoved(crd)
				at = len(f.eventsOf(source))
			}
			t.Logf("SYNCED after the first list with 200: %v", attached)
			t.Logf("last DELETED after the deletion of the CRD: %v", ended)
			t.Logf("Gone after the first list with 404: %v; after the deletion of the CRD: %v", detached, whole)
			for i := range attached {
				if attached[i] > maxAttachTime {
					t.Errorf("attaching took %v, want at most %v", attached[i], maxAttachTime)
				}
				if detached[i] > maxAttachTime {
					t.Errorf("detaching took %v, want at most %v", detached[i], maxAttachTime)
				}
			}
			events := f.eventsOf(source)
			checkSequence(t, events)
			// Between incarnations a GAP may come, since the versions expire.
			objects := slices.DeleteFunc(texts(events), func(s string) bool { return s == "GAP" || s == "SYNCED" })
			var all []string
			for range 3 {
				for _, kind := range []string{"ADDED", "DELETED"} {
					for _, name := range []string{"a", "b", "c"} {
						all = append(all, kind+" default/"+name)
					}
				}
			}
			if diff := cmp.Diff(all, objects); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// isEvent matches the events of a type with an object of a name.
func isEvent(kind stream.Type, name string) func(stream.Event) bool {
	return func(ev stream.Event) bool { return ev.Type == kind && ev.Object.GetName() == name }
}

func TestFollowScopeChange(t *testing.T) {
	t.Parallel()
	// A resource with the same name is namespaced, then not, then namespaced again.
	d := newDefinitions(t)
	crd := devserver.CRD{Group: unique("scope") + ".example.com", Kind: "Thing", Namespaced: true}
	source := sourceOf(crd)
	f := followOn(t, shared.Config(), follow.Selection{Resources: []string{source}}, nil)
	at := 0
	for _, namespaced := range []bool{true, false, true} {
		crd.Namespaced = namespaced
		served := d.create(crd)
		i, synced := f.awaitSynced(source, at)
		if took := synced.at.Sub(served); took > maxAttachTime {
			t.Errorf("attaching took %v, want at most %v", took, maxAttachTime)
		} else {
			t.Logf("namespaced %v: SYNCED %v after the first list with 200", namespaced, took)
		}
		at = i + 1
		ns := ""
		if namespaced {
			ns = "default"
		}
		d.object(crd, ns, "one")
		f.awaitEvent(source, "ADDED one", at, func(ev stream.Event) bool { return ev.Type == stream.Added })
		d.delete(crd)
		f.awaitEvent(source, "DELETED one", at, func(ev stream.Event) bool { return ev.Type == stream.Deleted })
		f.awaitState(source, follow.Gone)
		d.awaitRemoved(crd)
		at = len(f.eventsOf(source))
	}
	events := f.eventsOf(source)
	checkSequence(t, events)
	got := slices.DeleteFunc(texts(events), func(s string) bool { return s == "GAP" || s == "SYNCED" })
	want := []string{
		"ADDED default/one", "DELETED default/one", "ADDED one", "DELETED one",
		"ADDED default/one", "DELETED default/one",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFollowCRDRecreatedAtOnce(t *testing.T) {
	t.Parallel()
	// The CRD exists again, with objects of the same names, before a poll could notice that it was gone.
	d := newDefinitions(t)
	crd := devserver.CRD{Group: unique("again") + ".example.com", Kind: "Thing", Namespaced: true}
	source := sourceOf(crd)
	f := followOn(t, shared.Config(), follow.Selection{Resources: []string{source}}, nil)
	uids := map[string][]string{}
	for range 3 {
		d.create(crd)
		for _, name := range []string{"a", "b"} {
			uid := string(d.object(crd, "default", name).GetUID())
			uids[name] = append(uids[name], uid)
			f.awaitEvent(source, "ADDED "+name, 0, func(ev stream.Event) bool {
				return ev.Type == stream.Added && string(ev.Object.GetUID()) == uid
			})
		}
		d.remove(crd)
		d.awaitRemoved(crd)
	}
	d.create(crd)
	f.awaitState(source, follow.Watching)
	f.await("six DELETED", func() bool {
		n := 0
		for _, ev := range f.events[source] {
			if ev.Type == stream.Deleted {
				n++
			}
		}
		return n == 6
	})
	events := f.eventsOf(source)
	checkSequence(t, events)
	order := map[string][]string{}
	for _, ev := range events {
		if ev.Object != nil {
			name := ev.Object.GetName()
			order[name] = append(order[name], fmt.Sprint(ev.Type, " ", ev.Object.GetUID()))
		}
	}
	for name, of := range uids {
		var want []string
		for _, uid := range of {
			want = append(want, "ADDED "+uid, "DELETED "+uid)
		}
		if diff := cmp.Diff(want, order[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFollowPatternAtRandom creates and deletes several CRDs of a group for ten seconds, independently of each other
// and with objects in them.
func TestFollowPatternAtRandom(t *testing.T) {
	t.Parallel()
	seedtest.Default(1).Run(t, followPatternAtRandom)
}

func followPatternAtRandom(t *testing.T, seed uint64) {
	const kinds = 5
	d := newDefinitions(t)
	group := unique("random") + ".example.com"
	f := followOn(t, shared.Config(), follow.Selection{Resources: []string{"*." + group}}, nil)
	type history struct {
		crd     devserver.CRD
		writes  []write
		alive   map[string]string // uid by name
		created int               // how often the CRD was created
	}
	all := make([]*history, kinds)
	var running sync.WaitGroup
	until := time.Now().Add(10 * time.Second)
	for k := range kinds {
		crd := devserver.CRD{Group: group, Kind: fmt.Sprintf("Kind%d", k), Namespaced: k%2 == 0}
		w := &history{crd: crd, alive: map[string]string{}}
		all[k] = w
		running.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(k)))
			ns := ""
			if w.crd.Namespaced {
				ns = "default"
			}
			c := dynamic.ResourceInterface(d.client.Resource(w.crd.Resource()))
			if ns != "" {
				c = d.client.Resource(w.crd.Resource()).Namespace(ns)
			}
			for time.Now().Before(until) {
				if err := devserver.CreateCRDs(t.Context(), d.client, w.crd); err != nil {
					t.Error(err)
					return
				}
				w.created++
				for range random.IntN(20) {
					name := fmt.Sprint("o-", random.IntN(4))
					if uid := w.alive[name]; uid == "" {
						o, err := c.Create(t.Context(), newObject(w.crd, name), metav1.CreateOptions{})
						if err != nil {
							t.Errorf("create: %v", err)
							return
						}
						uid = string(o.GetUID())
						w.alive[name] = uid
						w.writes = append(w.writes, write{stream.Added, uid, name, o.GetResourceVersion()})
					} else {
						if err := c.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
							t.Errorf("delete: %v", err)
							return
						}
						delete(w.alive, name)
						w.writes = append(w.writes, write{stream.Deleted, uid, name, ""})
					}
					time.Sleep(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
				}
				if !time.Now().Before(until) && random.IntN(2) == 0 {
					return // the CRD stays
				}
				crds, name := d.client.Resource(crdResource), w.crd.Object().GetName()
				if err := crds.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
					return
				}
				for name, uid := range w.alive {
					w.writes = append(w.writes, write{stream.Deleted, uid, name, ""})
				}
				clear(w.alive)
				if !poll(t.Context(), timeout, func() bool {
					_, err := crds.Get(t.Context(), name, metav1.GetOptions{})
					return apierrors.IsNotFound(err)
				}) {
					t.Errorf("the CRD %s still exists", name)
					return
				}
				time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
			}
		})
	}
	running.Wait()
	if t.Failed() {
		return
	}
	for _, w := range all {
		source := sourceOf(w.crd)
		f.awaitOutcome(source, w.writes)
		events := f.eventsOf(source)
		checkSequence(t, events)
		gaps, alive := 0, map[string]string{}
		known := map[string]bool{}
		for _, x := range w.writes {
			known[x.uid] = true
		}
		for _, ev := range events {
			switch ev.Type {
			case stream.Gap:
				gaps++
			case stream.Added:
				alive[ev.Object.GetName()] = string(ev.Object.GetUID())
			case stream.Deleted:
				delete(alive, ev.Object.GetName())
			}
			if ev.Object != nil && !known[string(ev.Object.GetUID())] {
				t.Errorf("%s: delivered but never written: %s", source, texts([]stream.Event{ev})[0])
			}
		}
		if diff := cmp.Diff(w.alive, alive); diff != "" {
			t.Errorf("%s: objects at the end (-written +delivered):\n%s", source, diff)
		}
		t.Logf("%s: %d incarnations, %d writes, %d events, %d GAPs",
			source, w.created, len(w.writes), len(events), gaps)
	}
}
