package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func byLabel(name string) func(stream.Event) []string {
	return func(ev stream.Event) []string {
		if v, ok := ev.Meta().GetLabels()[name]; ok {
			return []string{v}
		}
		return nil
	}
}

func bySpec(name string) func(stream.Event) []string {
	return func(ev stream.Event) []string {
		o, err := ev.Decode()
		if err != nil {
			return nil
		}
		return []string{fmt.Sprint(o.Object["spec"].(map[string]any)[name])}
	}
}

// TestStoreFollowsTheServer: for each form of objects, the Store has what the server has, and finds it by name, label
// and index.
func TestStoreFollowsTheServer(t *testing.T) {
	for _, o := range []stream.Options{
		{}, {Objects: stream.Raw}, {Objects: stream.Metadata},
		{Requests: stream.Requests{PagedLists: true, PageSize: 2}},
		{Namespaces: []string{"b", "a"}}, {Namespaces: []string{"b", "a"}, Objects: stream.Raw},
	} {
		for _, compress := range []bool{false, true} {
			t.Run(fmt.Sprint(o.Objects, o.Requests.PagedLists, o.Namespaces, compress), func(t *testing.T) {
				inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
					testStoreFollowsTheServer(t, ctx, srv, o, compress)
				})
			})
		}
	}
}

func testStoreFollowsTheServer(t *testing.T, ctx context.Context, srv *streamtest.Server, so stream.Options,
	compress bool) {
	srv.Put(widgets(), "b", "x", "labels.colour=red", "spec.size=1")
	srv.Put(widgets(), "a", "y", "labels.colour=blue", "spec.size=1")
	srv.Put(widgets(), "a", "x", "labels.colour=red", "spec.size=1")
	s := started(t, ctx, srv, &so, &store.Options{Compress: compress,
		Indexes: indexes{"colour": byLabel("colour"), "both": func(ev stream.Event) []string {
			return []string{"z", ev.Meta().GetName(), "z"}
		}}})
	check := func(q store.Query, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, listed(t, s, q)); diff != "" {
			t.Errorf("List(%+v) (-want +got):\n%s", q, diff)
		}
	}
	red, err := labels.Parse("colour=red")
	if err != nil {
		t.Fatal(err)
	}
	check(store.Query{}, "a/x@4", "a/y@3", "b/x@2")
	check(store.Query{Namespace: "a"}, "a/x@4", "a/y@3")
	check(store.Query{Namespace: "aa"})
	check(store.Query{Labels: red}, "a/x@4", "b/x@2")
	check(store.Query{Labels: labels.Everything(), Namespace: "b"}, "b/x@2")
	check(store.Query{Index: "colour", Value: "red"}, "a/x@4", "b/x@2")
	check(store.Query{Index: "colour", Value: "red", Namespace: "b"}, "b/x@2")
	check(store.Query{Index: "colour", Value: "re"})
	check(store.Query{Index: "colour"})
	check(store.Query{Index: "both", Value: "z", Labels: red}, "a/x@4", "b/x@2")
	check(store.Query{Index: "both", Value: "y"}, "a/y@3")
	before, err := s.List(store.Query{Index: "colour", Value: "red"})
	if err != nil {
		t.Fatal(err)
	}

	srv.Put(widgets(), "a", "x", "labels.colour=blue", "spec.size=2")
	srv.Put(widgets(), "b", "z", "labels.colour=red", "spec.size=3")
	remove(t, srv, "b", "x")
	if err := s.WaitFor(ctx, "7"); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	check(store.Query{}, "a/x@5", "a/y@3", "b/z@6")
	check(store.Query{Index: "colour", Value: "red"}, "b/z@6")
	check(store.Query{Index: "colour", Value: "blue"}, "a/x@5", "a/y@3")
	check(store.Query{Index: "both", Value: "x"}, "a/x@5")
	if n := s.Len(); n != 3 {
		t.Errorf("Len returns %d, want 3", n)
	}
	var old []string
	for o := range before {
		old = append(old, text(o))
		if m := o.Meta(); m.GetLabels()["colour"] != "red" || m.GetName() != "x" || m.GetUID() != o.UID() {
			t.Errorf("an old state of %s has the labels %v", text(o), m.GetLabels())
		}
	}
	if diff := cmp.Diff([]string{"a/x@4", "b/x@2"}, old); diff != "" {
		t.Errorf("a List of an old state (-want +got):\n%s", diff)
	}

	for _, name := range []string{"x", "y"} {
		o, ok := s.Get("a", name)
		if !ok {
			t.Fatal("a/" + name + " is missing")
		}
		got, err := o.Decode()
		if err != nil {
			t.Fatal(err)
		}
		want := streamtest.History.At(srv.History(widgets(), nil), 0, "99")[nameOf("a", name)]
		if so.Objects == stream.Metadata {
			delete(want.Object, "spec")
		}
		if diff := cmp.Diff(want.Object, got.Object); diff != "" {
			t.Errorf("a/%s (-want +got):\n%s", name, diff)
		}
		got.SetName("changed") // it belongs to the caller
		if again, _ := o.Decode(); again.GetName() != name {
			t.Errorf("the caller changed the object of the Store")
		}
	}
	if _, ok := s.Get("b", "x"); ok {
		t.Error("Get returns an object that was deleted")
	}
	if _, ok := s.Get("c", "x"); ok {
		t.Error("Get returns an object of another namespace")
	}
}

// TestTypedView: As decodes into structs and pointers, with case-sensitive names.
func TestTypedView(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		type widget struct {
			Spec struct {
				Size int `json:"size"`
				SIZE int
			} `json:"spec"`
		}
		srv.Put(widgets(), "a", "x", "spec.size=7")
		s := started(t, ctx, srv, nil, &store.Options{Compress: true})
		o, _ := s.Get("a", "x")
		value, err := store.As[widget](o)
		if err != nil || value.Spec.Size != 7 || value.Spec.SIZE != 0 {
			t.Errorf("As returns %+v, %v", value, err)
		}
		pointer, err := store.As[*widget](o)
		if err != nil || pointer.Spec.Size != 7 {
			t.Errorf("As returns %+v, %v", pointer, err)
		}
		wrong, err := store.As[struct {
			Metadata struct{} `json:"metadata"`
			Spec     string   `json:"spec"`
		}](o)
		if err == nil || strings.Contains(err.Error(), "7") || wrong.Spec != "" {
			t.Errorf("As returns %+v, %v for a type that does not fit", wrong, err)
		}
		if _, err := store.As[widget](store.Object{}); err == nil {
			t.Error("As of the zero Object returns no error")
		}
	})
}

// TestGapIsPublishedAsAWhole: while the snapshot after a gap is read, readers see the state before it. A subscriber
// receives the last state of what was deleted meanwhile, and an object that took its name as another one.
func TestGapIsPublishedAsAWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		for _, name := range []string{"a", "b", "c", "d"} {
			srv.Put(widgets(), "n", name, "spec.size=1")
		}
		s := started(t, ctx, srv, &stream.Options{Requests: stream.Requests{PagedLists: true, PageSize: 2}}, nil)
		sub := subscribe(t, ctx, s, nil)
		synctest.Wait()
		want := []string{"ADDED n/a@2", "ADDED n/b@3", "ADDED n/c@4", "ADDED n/d@5", "SYNCED"}
		if diff := cmp.Diff(want, sub.take()); diff != "" {
			t.Errorf("at first (-want +got):\n%s", diff)
		}
		if err := srv.Apply("widgets list 1-5: 500\nwidgets page 1: slow 1m"); err != nil {
			t.Fatal(err)
		}
		do(t, srv, "widgets close watches")
		remove(t, srv, "n", "a")
		remove(t, srv, "n", "b")
		srv.Put(widgets(), "n", "b", "spec.size=2")
		srv.Put(widgets(), "n", "c", "spec.size=2")
		srv.Put(widgets(), "n", "e", "spec.size=2")
		do(t, srv, "compact")
		time.Sleep(30 * time.Second)
		waitFor(t, "the GAP", func() bool { return len(sub.list) > 0 }, sub)
		if diff := cmp.Diff([]string{"GAP"}, sub.take()); diff != "" {
			t.Errorf("within the gap (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"n/a@2", "n/b@3", "n/c@4", "n/d@5"}, listed(t, s, store.Query{})); diff != "" {
			t.Errorf("the state within the gap (-want +got):\n%s", diff)
		}
		if err := s.WaitFor(ctx, "5"); err != nil {
			t.Errorf("WaitFor a version before the gap: %v", err)
		}
		if err := s.WaitSynced(ctx); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		want = []string{"DELETED n/a@2", "DELETED n/b@3",
			"ADDED n/b@8", "MODIFIED n/c@4 n/c@9", "ADDED n/e@10", "SYNCED"}
		if diff := cmp.Diff(want, sub.take()); diff != "" {
			t.Errorf("after the gap (-want +got):\n%s", diff)
		}
	})
}

// waitFor waits for a condition of a subscriber.
func waitFor(t *testing.T, what string, met func() bool, s *subscriber) {
	t.Helper()
	for range 1000 {
		synctest.Wait()
		s.mu.Lock()
		ok := met()
		s.mu.Unlock()
		if ok {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("waited in vain for %s", what)
}

// TestSubscribersAreIndependent: a slow subscriber holds up nobody and receives what differs, deletions first; one that
// keeps up receives each event.
func TestSubscribersAreIndependent(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		srv.Put(widgets(), "n", "a")
		srv.Put(widgets(), "n", "z")
		s := started(t, ctx, srv, nil, nil)
		fast := subscribe(t, ctx, s, nil)
		slow := subscribe(t, ctx, s, func() time.Duration { return time.Minute })
		synctest.Wait()
		fast.take()
		for _, write := range []func(){
			func() { srv.Put(widgets(), "n", "b") },
			func() { srv.Put(widgets(), "n", "a", "spec.size=2") },
			func() { srv.Put(widgets(), "n", "a", "spec.size=3") },
			func() { srv.Put(widgets(), "n", "shortlived") },
			func() { remove(t, srv, "n", "shortlived") },
			func() { remove(t, srv, "n", "z") },
			func() { srv.Put(widgets(), "n", "z") },
		} {
			write()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		want := []string{"ADDED n/b@4", "MODIFIED n/a@2 n/a@5", "MODIFIED n/a@5 n/a@6", "ADDED n/shortlived@7",
			"DELETED n/shortlived@7", "DELETED n/z@3", "ADDED n/z@10"}
		if diff := cmp.Diff(want, fast.take()); diff != "" {
			t.Errorf("the one that keeps up (-want +got):\n%s", diff)
		}
		time.Sleep(time.Hour)
		want = []string{"ADDED n/a@2", "ADDED n/z@3", "SYNCED",
			"DELETED n/z@3", "MODIFIED n/a@2 n/a@6", "ADDED n/b@4", "ADDED n/z@10"}
		if diff := cmp.Diff(want, slow.take()); diff != "" {
			t.Errorf("the slow one (-want +got):\n%s", diff)
		}
	})
}

// TestSubscriptionEnds: with the cause of its context, by a break, or by a panic of the body, and leaves nothing
// behind.
func TestSubscriptionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		srv.Put(widgets(), "n", "a")
		srv.Put(widgets(), "n", "b")
		s := started(t, ctx, srv, nil, nil)
		errEnough := errors.New("enough")
		inner, cancel := context.WithCancelCause(ctx)
		var got []string
		for c, err := range s.Subscribe(inner) {
			got = append(got, fmt.Sprint(c.Type, text(c.New), err))
			cancel(errEnough) // within a difference
		}
		if diff := cmp.Diff([]string{"ADDEDn/a@2<nil>", "enough"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		inner, cancel = context.WithCancelCause(ctx)
		time.AfterFunc(time.Minute, func() { cancel(errEnough) })
		var last error
		for _, err := range s.Subscribe(inner) {
			last = err
		}
		if !errors.Is(last, errEnough) {
			t.Errorf("a waiting subscriber ends with %v", last)
		}
		for range s.Subscribe(ctx) {
			break
		}
		func() {
			defer func() { _ = recover() }()
			for range s.Subscribe(ctx) {
				panic("in the body")
			}
		}()
		srv.Put(widgets(), "n", "c")
		if err := s.WaitFor(ctx, "4"); err != nil {
			t.Error(err)
		}
	})
}

// TestRunAgain: between runs the objects stay. A later run replaces them at SYNCED, and subscribers receive what
// differs and nothing else, also if the Stream was set to resume at a version.
func TestRunAgain(t *testing.T) {
	for _, compress := range []bool{false, true} {
		inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
			for i := range 40 {
				srv.Put(widgets(), "n", fmt.Sprintf("same%02d", i), "labels.colour=red")
			}
			srv.Put(widgets(), "n", "changed", "labels.colour=red")
			srv.Put(widgets(), "n", "gone", "labels.colour=red")
			st := newStream(t, srv, &stream.Options{Requests: stream.Requests{PagedLists: true, PageSize: 10}})
			s := newStore(t, st, &store.Options{Compress: compress,
				Indexes: indexes{"colour": byLabel("colour")}})
			sub := subscribe(t, ctx, s, nil)
			stop := start(ctx, s)
			if err := s.WaitSynced(ctx); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the subscriber has received SYNCED
			if err := stop(); !errors.Is(err, errStopped) {
				t.Errorf("Run returns %v", err)
			}
			synctest.Wait()
			if got := sub.take(); len(got) != 44 || !slices.Equal(got[42:], []string{"SYNCED", "GAP"}) {
				t.Errorf("in the first run: %q", got)
			}
			if err := s.WaitSynced(ctx); !errors.Is(err, errStopped) {
				t.Errorf("WaitSynced between runs: %v", err)
			}
			remove(t, srv, "n", "gone")
			srv.Put(widgets(), "n", "changed", "labels.colour=blue")
			srv.Put(widgets(), "n", "new", "labels.colour=red")
			if err := srv.Apply("widgets list 1: 403"); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error)
			go func() { ended <- s.Run(ctx) }()
			synctest.Wait()
			if err := s.WaitFor(ctx, "1000"); !apierrors.IsForbidden(err) {
				t.Errorf("WaitFor in a refused run: %v", err)
			}
			if err := <-ended; !apierrors.IsForbidden(err) || s.Len() != 42 {
				t.Errorf("a refused run returns %v, and there are %d objects", err, s.Len())
			}
			if err := srv.Apply("widgets page 3: slow 10s"); err != nil {
				t.Fatal(err)
			}
			stop = start(ctx, s)
			time.Sleep(5 * time.Second)
			if n := s.Len(); n != 42 {
				t.Errorf("during the snapshot there are %d objects, want those of the first run", n)
			}
			if err := s.WaitSynced(ctx); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			want := []string{"DELETED n/gone@43", "MODIFIED n/changed@42 n/changed@45", "ADDED n/new@46", "SYNCED"}
			if diff := cmp.Diff(want, sub.take()); diff != "" {
				t.Errorf("in the second run (-want +got):\n%s", diff)
			}
			if n := len(listed(t, s, store.Query{Index: "colour", Value: "red"})); n != 41 {
				t.Errorf("%d are red, want 41", n)
			}
			if n := s.Len(); n != 42 {
				t.Errorf("there are %d objects, want 42", n)
			}
			_ = stop()
		})
	}
}

// TestRunAfterRestore: if the server went back in time between two runs, the version that an object had may mean
// another state. The later run shows that.
func TestRunAfterRestore(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		srv.Put(widgets(), "n", "a", "spec.size=1")
		before := srv.Put(widgets(), "n", "a", "spec.size=2")
		s := newStore(t, stoppedAtSynced(t, srv), nil)
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		do(t, srv, "rewind 1")
		after := srv.Put(widgets(), "n", "a", "spec.size=3")
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		o, _ := s.Get("n", "a")
		u, err := o.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if before.GetResourceVersion() != after.GetResourceVersion() || !cmp.Equal(after.Object, u.Object) {
			t.Errorf("got %v, want %v, of the same version as %v", u, after, before)
		}
	})
}

// TestPanickingIndex: an index that panics ends the run with an error that names it. What was there stays, and the next
// run has everything.
func TestPanickingIndex(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		srv.Put(widgets(), "n", "a")
		bad := true
		s := newStore(t, newStream(t, srv, nil), &store.Options{Indexes: indexes{
			"broken": func(ev stream.Event) []string {
				if ev.Meta().GetName() == "b" && bad {
					panic("the password of b")
				}
				return []string{"v"}
			}}})
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		if err := s.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		srv.Put(widgets(), "n", "b")
		want := `store: the function of index "broken" panicked for n/b: its panic value is no error`
		if err := <-ended; err == nil || err.Error() != want {
			t.Errorf("Run returns %v, want %s", err, want)
		}
		if got := listed(t, s, store.Query{}); !slices.Equal(got, []string{"n/a@2"}) {
			t.Errorf("after the panic there are %q", got)
		}
		bad = false
		stop := start(ctx, s)
		synctest.Wait()
		if err := s.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		got := listed(t, s, store.Query{Index: "broken", Value: "v"})
		if !slices.Equal(got, []string{"n/a@2", "n/b@3"}) {
			t.Errorf("after the next run there are %q", got)
		}
		_ = stop()
	})
}

// TestPanicsOfTheCaller: a panic of Select ends the run as it ends that of a Stream, and the Store can run again.
func TestPanicsOfTheCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		srv.Put(widgets(), "n", "a")
		bad := true
		s := newStore(t, newStream(t, srv, &stream.Options{Select: func(stream.Meta) bool {
			if bad {
				panic("in Select")
			}
			return true
		}}), nil)
		func() {
			defer func() {
				if p := recover(); p != "in Select" {
					t.Errorf("Run panics with %v", p)
				}
			}()
			_ = s.Run(ctx)
		}()
		bad = false
		stop := start(ctx, s)
		synctest.Wait()
		if err := s.WaitSynced(ctx); err != nil || s.Len() != 1 {
			t.Errorf("the next run: %v, %d objects", err, s.Len())
		}
		_ = stop()
	})
}

// TestTypeGoesAndReturns: when a CRD is deleted, its objects are; when it returns, the Store follows it.
func TestTypeGoesAndReturns(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		srv.Put(widgets(), "n", "a")
		s := started(t, ctx, srv, nil, nil)
		do(t, srv, "widgets delete crd")
		time.Sleep(time.Minute)
		if n := s.Len(); n != 0 {
			t.Errorf("without the type there are %d objects", n)
		}
		do(t, srv, "widgets create crd")
		o := srv.Put(widgets(), "n", "a")
		if err := s.WaitFor(ctx, o.GetResourceVersion()); err != nil {
			t.Fatal(err)
		}
		if got, _ := s.Get("n", "a"); got.UID() != o.GetUID() {
			t.Errorf("the Store has the uid %q, want %q", got.UID(), o.GetUID())
		}
	})
}

// TestBusy: a Store has one run at a time, and so has its Stream.
func TestBusy(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		st := newStream(t, srv, nil)
		s, other := newStore(t, st, nil), newStore(t, st, nil)
		stop := start(ctx, s)
		if err := s.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.Run(ctx); !errors.Is(err, stream.ErrBusy) {
			t.Errorf("a second run returns %v", err)
		}
		if err := other.Run(ctx); !errors.Is(err, stream.ErrBusy) {
			t.Errorf("a second run of the Stream returns %v", err)
		}
		_ = stop()
		stop = start(ctx, other)
		synctest.Wait()
		if err := other.WaitSynced(ctx); err != nil {
			t.Error(err)
		}
		st.Stop()
		if err := stop(); err != nil {
			t.Errorf("after Stream.Stop, Run returns %v", err)
		}
	})
}

// TestStoppedAtSynced: Run returns nil if the Stream is stopped, and the Store has what existed.
func TestStoppedAtSynced(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		srv.Put(widgets(), "n", "a")
		s := newStore(t, stoppedAtSynced(t, srv), nil)
		for range 2 {
			if err := s.Run(ctx); err != nil || s.Len() != 1 {
				t.Errorf("Run returns %v, and there are %d objects", err, s.Len())
			}
			srv.Put(widgets(), "n", "a", "spec.size=2")
		}
		if err := s.WaitSynced(ctx); !errors.Is(err, stream.ErrUnmet) {
			t.Errorf("after the run, WaitSynced returns %v", err)
		}
	})
}

// TestSyncedAndEnded: if the run is stopped at SYNCED, before anybody sees that state, WaitSynced returns, and
// subscribers receive SYNCED and GAP.
func TestSyncedAndEnded(t *testing.T) {
	for range 20 { // whether a goroutine sees the state depends on the scheduler
		inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Hour, errTimeUp)
			defer cancel()
			srv.Put(widgets(), "n", "a")
			s := newStore(t, stoppedAtSynced(t, srv), nil)
			sub := subscribe(t, ctx, s, nil)
			synced := make(chan error, 1)
			go func() { synced <- s.WaitSynced(ctx) }()
			synctest.Wait()
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
			if err := <-synced; err != nil {
				t.Errorf("WaitSynced returns %v", err)
			}
			synctest.Wait()
			if diff := cmp.Diff([]string{"ADDED n/a@2", "SYNCED", "GAP"}, sub.take()); diff != "" {
				t.Errorf("the subscriber receives (-want +got):\n%s", diff)
			}
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if diff := cmp.Diff([]string{"SYNCED", "GAP"}, sub.take()); diff != "" {
				t.Errorf("in the second run (-want +got):\n%s", diff)
			}
			cancel()
		})
	}
}

// TestFakeClient: client-go's fake has neither uids nor resourceVersions.
func TestFakeClient(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": "n", "name": "a"}, "spec": "<&>"}}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{widgets().GroupVersionResource: "WidgetList"}, object)
	st, err := stream.New(client, widgets(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(t, st, nil)
	stop := start(t.Context(), s)
	if err := s.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	o, ok := s.Get("n", "a")
	json, err := o.JSON()
	want := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"n"},"spec":"<&>"}`
	if !ok || err != nil || string(json) != want {
		t.Errorf("got %s, %v, want %s", json, err, want)
	}
	_ = stop()
}

// TestNewRefuses lists what New refuses.
func TestNewRefuses(t *testing.T) {
	f := indexes{}
	for _, c := range []struct {
		field, why string
		store      *store.Options
	}{
		{"Indexes", "it would panic", &store.Options{Indexes: indexes{"x": nil}}},
		{"Indexes", "a Query could not name it", &store.Options{Indexes: indexes{
			"": byLabel("x")}}},
		{"", "nothing is wrong", &store.Options{Indexes: f}},
	} {
		_, err := store.New(newStream(t, streamtest.NewServer(widgets()), nil), c.store)
		checkOptionsError(t, c.why, err, c.field)
	}
	_, err := store.New(nil, nil)
	checkOptionsError(t, "no Stream", err, "Stream")
	_, err = store.New(&stream.Stream{}, nil)
	checkOptionsError(t, "a zero Stream", err, "Stream")
}

func checkOptionsError(t *testing.T, why string, err error, field string) {
	t.Helper()
	var o *stream.OptionsError
	switch {
	case field == "" && err != nil:
		t.Errorf("%s: got %v", why, err)
	case field != "" && (!errors.As(err, &o) || o.Field != field):
		t.Errorf("%s: got %v, want an OptionsError about %s", why, err, field)
	}
}

// TestZeroValues: nothing panics or waits for ever.
func TestZeroValues(t *testing.T) {
	valid := newStore(t, newStream(t, streamtest.NewServer(widgets()), nil), nil)
	var none context.Context
	for _, s := range []*store.Store{nil, {}} {
		checkOptionsError(t, "Run", s.Run(t.Context()), "Store")
		checkOptionsError(t, "WaitSynced", s.WaitSynced(t.Context()), "Store")
		checkOptionsError(t, "WaitFor", s.WaitFor(t.Context(), "1"), "Store")
		_, err := s.List(store.Query{})
		checkOptionsError(t, "List", err, "Store")
		if _, ok := s.Get("", ""); ok || s.Len() != 0 {
			t.Error("a zero Store has objects")
		}
		for _, err := range s.Subscribe(t.Context()) {
			checkOptionsError(t, "Subscribe", err, "Store")
		}
	}
	checkOptionsError(t, "Run", valid.Run(none), "ctx")
	checkOptionsError(t, "WaitSynced", valid.WaitSynced(none), "ctx")
	checkOptionsError(t, "WaitFor", valid.WaitFor(none, "1"), "ctx")
	for _, err := range valid.Subscribe(none) {
		checkOptionsError(t, "Subscribe", err, "ctx")
	}
	_, err := valid.List(store.Query{Index: "none"})
	checkOptionsError(t, "an unknown index", err, "Index")
	_, err = valid.List(store.Query{Value: "v"})
	checkOptionsError(t, "a value without an index", err, "Value")
	var o store.Object
	_, jsonErr := o.JSON()
	_, decodeErr := o.Decode()
	if o.Name()+o.Namespace()+string(o.UID())+o.ResourceVersion() != "" || jsonErr == nil || decodeErr == nil ||
		o.Meta().GetName() != "" || o.Meta().GetLabels() != nil || o.Meta().GetGeneration() != 0 {
		t.Error("the zero Object has something")
	}
}

func TestChangeString(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		srv.Put(widgets(), "n", "a")
		s := started(t, ctx, srv, nil, nil)
		var got []string
		for c, err := range s.Subscribe(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, c.String())
			switch c.Type {
			case stream.Synced:
				srv.Put(widgets(), "n", "a", "spec.size=1")
			case stream.Modified:
				remove(t, srv, "n", "a")
			}
			if c.Type == stream.Deleted {
				break
			}
		}
		want := []string{"ADDED n/a@2", "SYNCED", "MODIFIED n/a@3", "DELETED n/a@3"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
