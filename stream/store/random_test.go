package store_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
)

const randomSeeds = seedtest.Default(40)

// TestRandom runs a Store with readers and subscribers under random changes and faults.
//
//   - Each state that a reader sees is, in each watched namespace, one that the server had.
//   - Old of each change is what the subscriber had, and SYNCED and GAP take turns.
//   - In the end the Store, its index and what each subscriber has are what the server has.
//
// go test ./stream/store -run TestRandom -seed 4711
func TestRandom(t *testing.T) {
	randomSeeds.Run(t, func(t *testing.T, n uint64) {
		synctest.Test(t, func(t *testing.T) {
			p := &randomRun{Scenario: scenario.New(t, n, 9, []gvr.Resource{widgets()}, "one", "two")}
			p.run()
		})
	})
}

// randomRun is one seed.
type randomRun struct {
	*scenario.Scenario
	options stream.Options
	store   *store.Store

	mu   sync.Mutex
	seen map[string]string // when a state was first seen, by its text
}

func (p *randomRun) run() {
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	p.seen = map[string]string{}
	p.choose()
	p.Writes(p.Rand, 20)
	p.Faults(8, "500", "503", "slow 2s", "close", "reset", "410")
	var others sync.WaitGroup
	var replicas []*replica
	for i := range 1 + p.IntN(4) {
		r := &replica{randomRun: p, name: fmt.Sprint("subscriber ", i), has: map[string]string{}}
		r.slowest = time.Duration(p.IntN(3)*p.IntN(20_000)) * time.Millisecond
		r.from = time.Duration(p.IntN(2)*p.IntN(100)) * time.Second
		r.Rand = rand.New(rand.NewPCG(p.Uint64(), uint64(i)))
		replicas = append(replicas, r)
		others.Go(func() { r.run(ctx) })
	}
	own := rand.New(rand.NewPCG(p.Uint64(), 99))
	others.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Duration(own.IntN(5000)) * time.Millisecond)
			p.look()
		}
	})
	stop := start(ctx, p.store)
	for range 3 + p.IntN(12) {
		time.Sleep(time.Duration(p.IntN(20_000)) * time.Millisecond)
		switch p.IntN(12) {
		case 0:
			p.Do(scenario.Pick(p.Rand, "compact", "restart", "widgets expire", "widgets close watches",
				"widgets silence", "bookmarks every 5s"))
		case 1, 2:
			p.Do("widgets close watches", "compact")
		case 3:
			p.Note("stop")
			_ = stop()
			time.Sleep(time.Duration(p.IntN(10_000)) * time.Millisecond)
			p.Note("start")
			stop = start(ctx, p.store)
		case 4:
			p.Do("widgets delete crd")
			time.Sleep(time.Duration(p.IntN(10_000)) * time.Millisecond)
			p.Do("widgets create crd")
		default:
			p.Writes(p.Rand, 9)
		}
	}
	p.Do("heal")
	_ = stop() // a refusal may have ended the run before
	stop = start(ctx, p.store)
	time.Sleep(time.Hour)
	p.look()
	for _, r := range replicas {
		r.compare()
	}
	cancel()
	if err := stop(); ctx.Err() == nil {
		p.Errorf("the run ended with %v", err)
	}
	others.Wait()
	p.checkStates()
	if p.Failed() {
		h := p.Server.History(widgets(), nil)
		p.Logf("options %+v\n%s\n%s", p.options, strings.Join(p.Log, "\n"), scenario.HistoryText(h))
	}
}

func (p *randomRun) choose() {
	o := &p.options
	o.Objects = []stream.ObjectsMode{stream.Full, stream.Raw, stream.Metadata}[p.IntN(3)]
	switch p.IntN(4) {
	case 0:
		o.Namespaces = []string{"one", "two"}
	case 1:
		o.LabelSelector = "colour=red"
	}
	if p.Chance(40) {
		o.Requests.PagedLists, o.Requests.PageSize = true, 1+p.IntN(4)
	}
	client := p.Server.Client()
	if p.Chance(70) {
		var err error
		if client, err = stream.NewClient(p.Server.Config(), nil); err != nil {
			p.Fatal(err)
		}
	}
	s, err := stream.New(client, widgets(), o)
	if err != nil {
		p.Fatal(err)
	}
	p.store = newStore(p.T, s, &store.Options{
		Compress: p.Chance(50), Indexes: indexes{"colour": byLabel("colour")}})
}

// stateText returns a state as one text.
func stateText(texts []string) string { return strings.Join(texts, " ") }

// look reads the Store, with the index.
func (p *randomRun) look() {
	for _, q := range p.queries() {
		texts := stateText(listed(p.T, p.store, q))
		p.mu.Lock()
		key := fmt.Sprint(q.Namespace, ",", q.Value, ": ", texts)
		if p.seen[key] == "" {
			p.seen[key] = time.Now().Format("04:05.000")
		}
		p.mu.Unlock()
	}
}

func (p *randomRun) queries() []store.Query {
	namespaces := []string{""}
	if len(p.options.Namespaces) > 0 {
		namespaces = p.options.Namespaces
	}
	var queries []store.Query
	for _, n := range namespaces {
		queries = append(queries, store.Query{Namespace: n}, store.Query{Namespace: n, Index: "colour", Value: "red"})
	}
	return queries
}

// checkStates checks that the server had each state that was seen.
func (p *randomRun) checkStates() {
	had := map[string]bool{}
	for _, q := range p.queries() {
		had[fmt.Sprint(q.Namespace, ",", q.Value, ": ")] = true
		o := p.options
		if q.Namespace != "" {
			o.Namespaces = []string{q.Namespace}
		}
		h := p.Server.History(widgets(), &o)
		for _, c := range h.Changes {
			objects := h.At(0, c.ResourceVersion)
			had[fmt.Sprint(q.Namespace, ",", q.Value, ": ", stateText(texts(objects, q.Value)))] = true
		}
	}
	for state, at := range p.seen {
		if !had[state] {
			p.Errorf("at %s a reader saw what the server never had: %s", at, state)
		}
	}
}

func texts(objects map[types.NamespacedName]*unstructured.Unstructured, colour string) (list []string) {
	for _, o := range objects {
		if colour == "" || o.GetLabels()["colour"] == colour {
			list = append(list, fmt.Sprintf("%s/%s@%s", o.GetNamespace(), o.GetName(), o.GetResourceVersion()))
		}
	}
	slices.Sort(list)
	return list
}

// replica is what a subscriber has.
type replica struct {
	*randomRun
	*rand.Rand
	name          string
	from, slowest time.Duration

	mu     sync.Mutex
	has    map[string]string // uid and content, by namespace/name
	synced bool
	first  bool // SYNCED has been received
}

func (r *replica) run(ctx context.Context) {
	time.Sleep(r.from)
	for c, err := range r.store.Subscribe(ctx) {
		if err != nil {
			return
		}
		r.apply(c)
		if r.slowest > 0 {
			time.Sleep(time.Duration(r.Rand.Int64N(int64(r.slowest))))
		}
	}
}

func (r *replica) apply(c store.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, content := c.New.Namespace()+"/"+c.New.Name(), content(c.New)
	switch before := r.has[name]; {
	case c.Type == stream.Gap:
		if !r.synced {
			r.Errorf("%s: GAP while it is not synced", r.name)
		}
		r.synced = false
	case c.Type == stream.Synced:
		if r.synced {
			r.Errorf("%s: SYNCED twice", r.name)
		}
		r.synced, r.first = true, true
	case c.Type == stream.Deleted:
		name = c.Old.Namespace() + "/" + c.Old.Name()
		r.checkOld(c, r.has[name])
		delete(r.has, name)
	case c.Type == stream.Added && before == "":
		r.has[name] = content
	case c.Type == stream.Modified && before != "" && c.Old.UID() == c.New.UID():
		r.checkOld(c, before)
		r.has[name] = content
	default:
		r.Errorf("%s: %s %s after %q", r.name, c.Type, text(c.New), before)
	}
}

func (r *replica) checkOld(c store.Change, had string) {
	if got := content(c.Old); got != had {
		r.Errorf("%s: Old of %s is %q, but it had %q", r.name, c.Type, got, had)
	}
}

func content(o store.Object) string {
	json, _ := o.JSON()
	return fmt.Sprint(o.UID(), " ", string(json))
}

// compare compares the subscriber with the Store, and that with the server.
func (r *replica) compare() {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, err := r.store.List(store.Query{})
	if err != nil {
		r.Fatal(err)
	}
	want, objects := map[string]string{}, map[types.NamespacedName]string{}
	for o := range all {
		want[o.Namespace()+"/"+o.Name()] = content(o)
		objects[types.NamespacedName{Namespace: o.Namespace(), Name: o.Name()}] = text(o)
		if got, ok := r.store.Get(o.Namespace(), o.Name()); !ok || content(got) != content(o) {
			r.Errorf("Get and List return different objects of %s", text(o))
		}
	}
	if len(want) != r.store.Len() {
		r.Errorf("Len returns %d, and List %d objects", r.store.Len(), len(want))
	}
	if diff := cmp.Diff(want, r.has); diff != "" || !r.synced || !r.first {
		r.Errorf("%s (synced %v) and the Store (-Store +subscriber):\n%s", r.name, r.synced, diff)
	}
	h := r.Server.History(widgets(), &r.options)
	truth := h.At(0, "1000000000")
	if diff := cmp.Diff(texts(truth, ""), slices.Sorted(maps.Values(objects))); diff != "" {
		r.Errorf("the Store (-server +store):\n%s", diff)
	}
	for name, o := range truth {
		got, _ := r.store.Get(name.Namespace, name.Name)
		if u, err := got.Decode(); err != nil || u.GetUID() != o.GetUID() ||
			r.options.Objects != stream.Metadata && !cmp.Equal(o.Object["spec"], u.Object["spec"]) {
			r.Errorf("%s: got %v, %v, want %v", name, u, err, o)
		}
	}
}
