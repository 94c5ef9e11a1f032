package informer_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/bubbles"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
)

// TestRandomInformer compares what handlers received with what happened, while the server fails, versions expire, and
// the type goes away and returns.
func TestRandomInformer(t *testing.T) {
	seedtest.Default(120).Run(t, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { runRandom(t, seed) })
	})
}

func runRandom(t *testing.T, seed uint64) {
	s := scenario.New(t, seed, 41, []gvr.Resource{widgets}, "shop", "home")
	options := stream.Options{Objects: s.Objects(),
		Requests: stream.Requests{PagedLists: s.Chance(30), PageSize: 1 + s.IntN(4)}}
	if s.Chance(20) {
		options.Requests.GiveUpAfter = time.Minute
	}
	if s.Chance(20) {
		options.Namespaces = s.Namespaces
	}
	s.Writes(s.Rand, 10)
	s.Faults(6, "500", "503 plain", "429 retry-after 3s", "410", "close", "reset", "half-open", "hang",
		"slow 2s", "garbage")
	for range s.IntN(5) {
		fault := scenario.Pick(s.Rand, "410 in stream", "reset inside frame", "error frame", "error not status",
			"replay 3", "invalid utf-8", "no name", "frames after error")
		request := scenario.Pick(s.Rand, "watch", "initial")
		line := fmt.Sprintf("%s %d after %d frames: %s", request, 1+s.IntN(12), 1+s.IntN(4), fault)
		if err := s.Server.Apply(line); err == nil {
			s.Note("%s", line)
		} else if !strings.Contains(err.Error(), "can never happen") {
			t.Fatal(err)
		}
	}
	var opts []informer.Option
	if s.Chance(50) {
		opts = append(opts, informer.Compact())
	}
	i, err := informer.NewSharedIndexInformer(newStream(t, s.Server, &options), cache.SharedIndexInformerOptions{
		ResyncPeriod: bubbles.NoResync,
	}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	h := &history{Scenario: s, compact: len(opts) > 0, seen: map[string]*unstructured.Unstructured{},
		gone: map[string]bool{}, byKey: map[string]string{}}
	if _, err := i.AddEventHandler(h); err != nil {
		t.Fatal(err)
	}
	if err := i.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { s.Note("error: %v", err) }); err != nil {
		t.Fatal(err)
	}
	if s.Chance(30) {
		_ = i.SetTransform(func(o any) (any, error) { return o.(*unstructured.Unstructured).DeepCopy(), nil })
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { defer close(done); i.Run(stop) }()
	for range 3 + s.IntN(10) {
		time.Sleep(time.Duration(s.IntN(100_000)) * time.Millisecond)
		s.Writes(s.Rand, 6)
		if s.Chance(60) {
			s.Do(scenario.Pick(s.Rand, "compact", "restart", "widgets close watches", "widgets expire",
				"widgets silence", "widgets delete crd", "widgets create crd", "410 as status", "410 as close"))
		}
	}
	s.Do("heal", "widgets create crd", "410 in stream")
	s.Server.Put(widgets, "shop", "last")
	time.Sleep(time.Hour)
	synctest.Wait()
	h.compare(i)
	close(stop)
	<-done
	if t.Failed() {
		t.Log("the log:\n" + strings.Join(s.Log, "\n"))
		t.Log("the history:\n" + scenario.HistoryText(s.Server.History(widgets, nil)))
	}
}

// history checks what a handler receives.
type history struct {
	*scenario.Scenario
	compact bool
	seen    map[string]*unstructured.Unstructured // the last state of each uid that was added
	gone    map[string]bool
	byKey   map[string]string // from key to uid
}

func key(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }

func state(o *unstructured.Unstructured) string {
	return string(o.GetUID()) + "@" + o.GetResourceVersion()
}

// same reports whether a is the state that b is. A compact informer unpacks it again.
func (h *history) same(a, b *unstructured.Unstructured) bool {
	return a == b || h.compact && reflect.DeepEqual(a, b)
}

func (h *history) OnAdd(obj any, _ bool) {
	o := obj.(*unstructured.Unstructured)
	h.Note("add %s %s", key(o), state(o))
	uid := string(o.GetUID())
	if h.seen[uid] != nil {
		h.Errorf("%s: uid %s is added twice", key(o), uid)
	}
	if h.byKey[key(o)] != "" {
		h.Errorf("%s is added, and exists", key(o))
	}
	h.seen[uid], h.byKey[key(o)] = o, uid
}

func (h *history) OnUpdate(before, after any) {
	old, o := before.(*unstructured.Unstructured), after.(*unstructured.Unstructured)
	h.Note("update %s %s", key(o), state(o))
	if old.GetUID() != o.GetUID() || h.byKey[key(o)] != string(o.GetUID()) {
		h.Errorf("%s is updated from %s to %s", key(o), state(old), state(o))
	}
	if !h.same(h.seen[string(o.GetUID())], old) {
		h.Errorf("%s is updated from another state than the last one", key(o))
	}
	h.seen[string(o.GetUID())] = o
}

func (h *history) OnDelete(obj any) {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = d.Obj
	}
	o := obj.(*unstructured.Unstructured)
	h.Note("delete %s %s", key(o), state(o))
	uid := string(o.GetUID())
	last := h.seen[uid]
	if last == nil || h.gone[uid] || h.byKey[key(o)] != uid {
		h.Errorf("%s: uid %s is deleted, and does not exist", key(o), uid)
		return
	}
	// Either the last state, or the server's newer one.
	isNewer := version(o) > version(last) && o.Object["kind"] == "Widget"
	if !h.same(o, last) && !isNewer {
		h.Errorf("%s is deleted with %s, want the last state %s", key(o), state(o), state(last))
	}
	h.gone[uid] = true
	delete(h.byKey, key(o))
}

func version(o *unstructured.Unstructured) (n int) {
	_, _ = fmt.Sscan(o.GetResourceVersion(), &n)
	return n
}

// compare compares the store, and the handler's log, with the server.
func (h *history) compare(i cache.SharedIndexInformer) {
	want, stored, replayed := map[string]string{}, map[string]string{}, map[string]string{}
	all := h.Server.History(widgets, nil)
	for _, o := range all.At(len(all.Rewinds), "1000000000") {
		want[key(o)] = state(o)
	}
	for _, obj := range i.GetStore().List() {
		o := obj.(*unstructured.Unstructured)
		stored[key(o)] = state(o)
	}
	for k, uid := range h.byKey {
		replayed[k] = state(h.seen[uid])
	}
	if diff := cmp.Diff(want, stored); diff != "" {
		h.Errorf("the store (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, replayed); diff != "" {
		h.Errorf("the handler's log (-want +got):\n%s", diff)
	}
	exists := slices.Collect(maps.Values(h.byKey))
	for uid := range h.seen {
		if !h.gone[uid] && !slices.Contains(exists, uid) {
			h.Errorf("uid %s was added, and its deletion is missing", uid)
		}
	}
	states := map[string]bool{}
	for _, c := range all.Changes {
		states[state(c.Object)] = true
	}
	for uid, o := range h.seen {
		if !states[state(o)] {
			h.Errorf("uid %s: the server never had the state %s", uid, state(o))
		}
	}
}
