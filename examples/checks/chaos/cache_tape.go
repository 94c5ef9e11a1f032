package main

import (
	"context"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// tape is the ListerWatcher of an informer. It keeps copies of what the server answered, and what that leads to: the
// objects that client-go's informer has when it has handled everything.
type tape struct {
	lw      cache.ListerWatcherWithContext
	streams bool // whether the informer may list by a watch (WatchList)

	mu     sync.Mutex
	sent   map[sentKey][]crclient.Object // all that was ever sent; several if a restored etcd used a version again
	pages  map[string]crclient.Object    // of a list that is not complete
	last   answered
	listed chan struct{} // has an entry after a list
}

// answered is what the answers lead to.
type answered struct {
	step    int                        // counts the changes of objects
	objects map[string]crclient.Object // by key; nil before the first list
	// unversioned is whether the last list had no resourceVersion, as {} has none: a typed client takes that for an
	// empty list, and watches from anywhere.
	unversioned bool
}

// sentKey is a version of an object.
type sentKey struct {
	uid     types.UID
	version string
}

func newTape(lw cache.ListerWatcher, streams bool) *tape {
	return &tape{
		lw: cache.ToListerWatcherWithContext(lw), streams: streams, sent: map[sentKey][]crclient.Object{},
		listed: make(chan struct{}, 1),
	}
}

// IsWatchListSemanticsUnSupported is what client-go asks.
func (t *tape) IsWatchListSemanticsUnSupported() bool { return !t.streams }

// List and Watch are those without a context.
func (t *tape) List(o metav1.ListOptions) (runtime.Object, error) {
	return t.ListWithContext(context.Background(), o)
}

func (t *tape) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return t.WatchWithContext(context.Background(), o)
}

func (t *tape) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := t.lw.ListWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.Continue == "" {
		t.pages = map[string]crclient.Object{}
	}
	for _, item := range items {
		c := t.note(item.(crclient.Object))
		t.pages[keyOf(c)] = c
	}
	if about.GetContinue() == "" {
		t.replace(t.pages, about.GetResourceVersion() == "")
	}
	return list, nil
}

// note keeps a copy of what was sent, and returns it.
func (t *tape) note(o crclient.Object) crclient.Object {
	k := sentKey{o.GetUID(), o.GetResourceVersion()}
	for _, c := range t.sent[k] {
		if same(c, o) {
			return c
		}
	}
	c := o.DeepCopyObject().(crclient.Object)
	t.sent[k] = append(t.sent[k], c)
	return c
}

// same compares objects as package informer promises it. Typed objects may lack their apiVersion and kind.
func same(want, got crclient.Object) bool {
	if kind := want.GetObjectKind().GroupVersionKind(); kind != got.GetObjectKind().GroupVersionKind() {
		got = got.DeepCopyObject().(crclient.Object)
		got.GetObjectKind().SetGroupVersionKind(kind)
	}
	return equality.Semantic.DeepEqual(want, got)
}

func (t *tape) replace(objects map[string]crclient.Object, unversioned bool) {
	t.last = answered{t.last.step + 1, maps.Clone(objects), unversioned}
	select {
	case t.listed <- struct{}{}:
	default:
	}
}

// now returns what the answers lead to.
func (t *tape) now() answered {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.last
	now.objects = maps.Clone(now.objects)
	return now
}

// isSent reports whether the server sent exactly this object.
func (t *tape) isSent(o crclient.Object) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.sent[sentKey{o.GetUID(), o.GetResourceVersion()}] {
		if same(c, o) {
			return true
		}
	}
	return false
}

func (t *tape) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	from, err := t.lw.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	w := &tapeWatch{
		tape: t, from: from, events: make(chan watch.Event), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		w.initial = map[string]crclient.Object{}
	}
	go w.run()
	return w, nil
}

// tapeWatch hands on the events of a watch.
type tapeWatch struct {
	tape        *tape
	from        watch.Interface
	initial     map[string]crclient.Object // a list by a watch that is not complete
	events      chan watch.Event
	once        sync.Once
	stop, ended chan struct{}
}

func (w *tapeWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop returns when the tape has what was handed on.
func (w *tapeWatch) Stop() {
	w.once.Do(func() { close(w.stop) })
	w.from.Stop()
	<-w.ended
}

func (w *tapeWatch) run() {
	defer close(w.ended)
	defer close(w.events)
	for {
		select {
		case ev, ok := <-w.from.ResultChan():
			if !ok || !w.hand(ev) {
				return
			}
		case <-w.stop:
			return
		}
	}
}

// hand hands an event on, and then follows it: an event that the informer does not take changes nothing.
func (w *tapeWatch) hand(ev watch.Event) bool {
	o, isObject := ev.Object.(crclient.Object)
	isObject = isObject && ev.Type != watch.Error
	var c crclient.Object
	complete := false
	if isObject && ev.Type == watch.Bookmark {
		complete = o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
	} else if isObject {
		w.tape.mu.Lock()
		c = w.tape.note(o)
		w.tape.mu.Unlock()
	}
	select {
	case w.events <- ev:
	case <-w.stop:
		return false
	}
	w.tape.mu.Lock()
	defer w.tape.mu.Unlock()
	switch {
	case complete && w.initial != nil:
		w.tape.replace(w.initial, false)
		w.initial = nil
	case c == nil:
	case w.initial != nil:
		apply(w.initial, ev.Type, c)
	case w.tape.last.objects != nil:
		apply(w.tape.last.objects, ev.Type, c)
		w.tape.last.step++
	}
	return true
}

func apply(state map[string]crclient.Object, kind watch.EventType, o crclient.Object) {
	if state[keyOf(o)] = o; kind == watch.Deleted {
		delete(state, keyOf(o))
	}
}
