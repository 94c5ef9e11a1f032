package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/internal/seedtest"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// maxAttachTime is how long attaching and parking may take at most here. Two seconds are
// promised, and what the bubbles of package mux hold Follow to; a busy machine may
// need longer, and what it took is printed.
const maxAttachTime = 10 * time.Second

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definitions makes and changes CRDs.
type definitions struct {
	t      *testing.T
	client dynamic.Interface
}

func newDefinitions(t *testing.T) *definitions {
	return &definitions{t, dynamic.NewForConfigOrDie(shared.Config())}
}

// create returns when a list of the resource is answered with 200.
func (d *definitions) create(crd devserver.CRD) time.Time {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), timeout)
	defer cancel()
	if err := devserver.CreateCRDs(ctx, d.client, crd); err != nil {
		d.t.Fatal(err)
	}
	return time.Now()
}

// delete returns when it was asked to and when lists were answered with 404.
func (d *definitions) delete(crd devserver.CRD) (asked, gone time.Time) {
	d.t.Helper()
	asked = time.Now()
	if err := d.client.Resource(crdResource).Delete(d.t.Context(), crd.Object().GetName(), metav1.DeleteOptions{}); err != nil {
		d.t.Fatal(err)
	}
	for time.Since(asked) < timeout {
		_, err := d.client.Resource(crd.Resource()).List(d.t.Context(), metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) {
			return asked, time.Now()
		}
		time.Sleep(5 * time.Millisecond)
	}
	d.t.Fatal("the CRD does not go away")
	return
}

// awaitRemoved waits until the CRD itself is gone, so that it can be created again.
func (d *definitions) awaitRemoved(crd devserver.CRD) {
	d.t.Helper()
	for began := time.Now(); time.Since(began) < timeout; time.Sleep(5 * time.Millisecond) {
		if _, err := d.client.Resource(crdResource).Get(d.t.Context(), crd.Object().GetName(), metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return
		}
	}
	d.t.Fatal("the CRD does not go away")
}

// update changes the spec.
func (d *definitions) update(crd devserver.CRD, change func(spec map[string]any)) {
	d.t.Helper()
	for {
		o, err := d.client.Resource(crdResource).Get(d.t.Context(), crd.Object().GetName(), metav1.GetOptions{})
		if err == nil {
			change(o.Object["spec"].(map[string]any))
			_, err = d.client.Resource(crdResource).Update(d.t.Context(), o, metav1.UpdateOptions{})
		}
		switch {
		case err == nil:
			return
		case !apierrors.IsConflict(err):
			d.t.Fatal(err)
		}
	}
}

// serve says which versions are served.
func (d *definitions) serve(crd devserver.CRD, served ...string) {
	d.t.Helper()
	d.update(crd, func(spec map[string]any) {
		for _, v := range spec["versions"].([]any) {
			of := v.(map[string]any)
			of["served"] = slices.Contains(served, of["name"].(string))
		}
	})
}

// object makes an object, which takes a while if the CRD is young.
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

func TestFollowCRDThatComesAndGoes(t *testing.T) {
	t.Parallel()
	rights := &permissions{cluster: true}
	srv := startServer(t, &devserver.Options{Allow: rights.allow})
	for _, by := range []string{"name", "pattern", "pattern, where CRDs may not be watched"} {
		t.Run("by "+by, func(t *testing.T) {
			t.Parallel()
			d, cfg := &definitions{t, dynamic.NewForConfigOrDie(srv.Config())}, srv.Config()
			crd := devserver.CRD{Group: unique("comes") + ".example.com", Kind: "Thing", Namespaced: true}
			source, sel := sourceOf(crd), follow.Selection{Resources: []string{sourceOf(crd)}}
			if by != "name" {
				sel.Resources = []string{"*." + crd.Group}
			}
			kicked := by == "name" || by == "pattern"
			if !kicked {
				cfg = srv.LimitedConfig()
			}
			f := followOn(t, cfg, sel, nil)
			time.Sleep(200 * time.Millisecond) // so that it begins without the CRD
			var attached, parked, ended, whole []time.Duration
			at := 0
			for incarnation := 1; incarnation <= 3; incarnation++ {
				served := d.create(crd)
				i, synced := f.awaitSynced(source, at)
				attached = append(attached, synced.at.Sub(served))
				for _, name := range []string{"a", "b", "c"} {
					d.object(crd, "default", name)
				}
				at = i + 1
				f.awaitEvent(source, "ADDED c", at, func(ev stream.Event) bool { return ev.Type == stream.Added && ev.Object.GetName() == "c" })
				// Who polls may see nothing of a CRD that was gone for a moment.
				if got := f.awaitState(source, follow.Watching).Incarnation; got != incarnation && (kicked || got > incarnation) {
					t.Errorf("it is incarnation %d, want %d", got, incarnation)
				}
				asked, gone := d.delete(crd)
				var last timedEvent
				for _, name := range []string{"a", "b", "c"} {
					i, ev := f.awaitEvent(source, "DELETED "+name, at, func(ev stream.Event) bool { return ev.Type == stream.Deleted && ev.Object.GetName() == name })
					at = max(at, i+1)
					if ev.at.After(last.at) {
						last = ev
					}
				}
				state := f.awaitState(source, follow.Gone)
				ended = append(ended, last.at.Sub(asked))
				parked = append(parked, state.at.Sub(gone))
				whole = append(whole, state.at.Sub(asked))
				if state.Cause != nil {
					t.Errorf("being gone is no error: %v", state.Cause)
				}
				d.awaitRemoved(crd)
				at = len(f.eventsOf(source))
			}
			t.Logf("SYNCED so long after a list was answered: %v", attached)
			t.Logf("all DELETED so long after DELETE of the CRD: %v", ended)
			t.Logf("Gone so long after lists are 404: %v; after DELETE: %v", parked, whole)
			for i := range attached {
				if attached[i] > maxAttachTime {
					t.Errorf("attaching took %v, more than %v", attached[i], maxAttachTime)
				}
				if parked[i] > maxAttachTime {
					t.Errorf("parking took %v, more than %v", parked[i], maxAttachTime)
				}
			}
			events := f.eventsOf(source)
			checkSequence(t, events)
			// Between incarnations a GAP may come: the versions are expired.
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

func TestFollowScopeThatChanges(t *testing.T) {
	t.Parallel()
	// The same name, namespaced first and then not, and back.
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
			t.Errorf("attaching took %v, more than %v", took, maxAttachTime)
		} else {
			t.Logf("namespaced %v: SYNCED %v after it was served", namespaced, took)
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
	if diff := cmp.Diff([]string{"ADDED default/one", "DELETED default/one", "ADDED one", "DELETED one", "ADDED default/one", "DELETED default/one"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFollowCRDRecreatedAtOnce(t *testing.T) {
	t.Parallel()
	// The CRD is there again, with objects of the same names, before anyone who looks
	// from time to time could see that it was gone.
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
			f.awaitEvent(source, "ADDED "+name, 0, func(ev stream.Event) bool { return ev.Type == stream.Added && string(ev.Object.GetUID()) == uid })
		}
		if err := d.client.Resource(crdResource).Delete(t.Context(), crd.Object().GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		d.awaitRemoved(crd)
	}
	d.create(crd)
	f.awaitState(source, follow.Watching)
	f.await("the end of the last ones", func() bool {
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
			order[ev.Object.GetName()] = append(order[ev.Object.GetName()], fmt.Sprint(ev.Type, " ", ev.Object.GetUID()))
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

// TestFollowPatternAtRandom has several CRDs of a group come and go for ten seconds,
// each on its own, with objects in them.
func TestFollowPatternAtRandom(t *testing.T) {
	t.Parallel()
	seedtest.Default(1).Run(t, followPatternAtRandom)
}

func followPatternAtRandom(t *testing.T, seed uint64) {
	const kinds = 5
	d := newDefinitions(t)
	group := unique("random") + ".example.com"
	f := followOn(t, shared.Config(), follow.Selection{Resources: []string{"*." + group}}, nil)
	type wrote struct {
		crd    devserver.CRD
		writes []write
		alive  map[string]string // uid by name
		lives  int
	}
	all := make([]*wrote, kinds)
	var running sync.WaitGroup
	until := time.Now().Add(10 * time.Second)
	for k := range kinds {
		w := &wrote{crd: devserver.CRD{Group: group, Kind: fmt.Sprintf("Kind%d", k), Namespaced: k%2 == 0}, alive: map[string]string{}}
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
				w.lives++
				for range random.IntN(20) {
					name := fmt.Sprint("o-", random.IntN(4))
					if uid := w.alive[name]; uid == "" {
						o, err := c.Create(t.Context(), newObject(w.crd, name), metav1.CreateOptions{})
						if err != nil {
							t.Errorf("create: %v", err)
							return
						}
						w.alive[name] = string(o.GetUID())
						w.writes = append(w.writes, write{stream.Added, string(o.GetUID()), name, o.GetResourceVersion()})
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
					return // it stays
				}
				if err := d.client.Resource(crdResource).Delete(t.Context(), w.crd.Object().GetName(), metav1.DeleteOptions{}); err != nil {
					t.Error(err)
					return
				}
				for name, uid := range w.alive {
					w.writes = append(w.writes, write{stream.Deleted, uid, name, ""})
				}
				clear(w.alive)
				for t.Context().Err() == nil {
					_, err := d.client.Resource(crdResource).Get(t.Context(), w.crd.Object().GetName(), metav1.GetOptions{})
					if apierrors.IsNotFound(err) {
						break
					}
					time.Sleep(5 * time.Millisecond)
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
		gaps, is := 0, map[string]string{}
		known := map[string]bool{}
		for _, x := range w.writes {
			known[x.uid] = true
		}
		for _, ev := range events {
			switch ev.Type {
			case stream.Gap:
				gaps++
			case stream.Added:
				is[ev.Object.GetName()] = string(ev.Object.GetUID())
			case stream.Deleted:
				delete(is, ev.Object.GetName())
			}
			if ev.Object != nil && !known[string(ev.Object.GetUID())] {
				t.Errorf("%s: told but never written: %s", source, texts([]stream.Event{ev})[0])
			}
		}
		if diff := cmp.Diff(w.alive, is); diff != "" {
			t.Errorf("%s: what is there in the end (-written +told):\n%s", source, diff)
		}
		t.Logf("%s: %d lives, %d writes, %d events, %d GAPs", source, w.lives, len(w.writes), len(events), gaps)
	}
}
