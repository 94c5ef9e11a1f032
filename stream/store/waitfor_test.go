package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func nameOf(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// TestWaitForOwnWrite: after WaitFor, Get returns what was written, or a later state.
func TestWaitForOwnWrite(t *testing.T) {
	for _, namespaces := range [][]string{nil, {"a"}} {
		inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
			s := started(t, ctx, srv, &stream.Options{Namespaces: namespaces}, nil)
			for i := range 20 {
				rv := srv.Put(widgets(), "a", "x", fmt.Sprint("spec.size=", i)).GetResourceVersion()
				if err := s.WaitFor(ctx, rv); err != nil {
					t.Fatal(err)
				}
				if o, _ := s.Get("a", "x"); o.ResourceVersion() != rv {
					t.Errorf("Get returns version %s, want %s", o.ResourceVersion(), rv)
				}
			}
		})
	}
}

// TestWaitForIsReachedByBookmarks: versions of what the Store does not have are reached with the next bookmark, those
// of several namespaces when each has got one.
func TestWaitForIsReachedByBookmarks(t *testing.T) {
	for _, namespaces := range [][]string{nil, {"a", "b"}} {
		inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
			s := started(t, ctx, srv, &stream.Options{Namespaces: namespaces, LabelSelector: "colour=red"}, nil)
			srv.Put(widgets(), "a", "x", "labels.colour=red")
			rv := srv.Put(widgets(), "a", "y", "labels.colour=blue").GetResourceVersion()
			began := time.Now()
			if err := s.WaitFor(ctx, rv); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(began); d < time.Second || d > 2*time.Minute {
				t.Errorf("it took %v, want about a minute", d)
			}
		})
	}
}

// TestWaitForOfWhatSelectRejects: the version of an object that Select rejects is reached with the next bookmark, which
// has that same version.
func TestWaitForOfWhatSelectRejects(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		client, err := stream.NewClient(srv.Config(), nil)
		if err != nil {
			t.Fatal(err)
		}
		so, err := stream.New(client, widgets(), &stream.Options{
			Select: func(m stream.Meta) bool { return m.GetName() != "rejected" }})
		if err != nil {
			t.Fatal(err)
		}
		s := newStore(t, so, nil)
		stop := start(ctx, s)
		defer func() { _ = stop() }()
		if err := s.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		rv := srv.Put(widgets(), "a", "rejected").GetResourceVersion()
		short, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errTimeUp)
		defer cancel()
		if err := s.WaitFor(short, rv); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitForEachNamespace: an event of one namespace says nothing about another one.
func TestWaitForEachNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		do(t, srv, "bookmarks never")
		s := started(t, ctx, srv, &stream.Options{Namespaces: []string{"a", "b"}}, nil)
		rv := srv.Put(widgets(), "a", "x").GetResourceVersion()
		short, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errTimeUp)
		defer cancel()
		if err := s.WaitFor(short, rv); !errors.Is(err, errTimeUp) {
			t.Errorf("WaitFor returns %v before namespace b has reached the version", err)
		}
		srv.Put(widgets(), "b", "x")
		if err := s.WaitFor(ctx, rv); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitForDuringSnapshot: while the snapshot of a namespace is read after a GAP, what it has is not reached, also if
// another namespace goes on. What was reached before the GAP still is, unless the server has gone back in time.
func TestWaitForDuringSnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		before := srv.Put(widgets(), "a", "x", "spec.size=0").GetResourceVersion()
		srv.Put(widgets(), "a", "y", "spec.size=0")
		s := started(t, ctx, srv, &stream.Options{Namespaces: []string{"a", "b"},
			Requests: stream.Requests{PagedLists: true, PageSize: 1}}, nil)
		if err := srv.Apply("widgets watch 1 in a: 410\nwidgets page 1 in a: slow 1m"); err != nil {
			t.Fatal(err)
		}
		do(t, srv, "widgets close watches")
		rv := srv.Put(widgets(), "a", "x", "spec.size=1").GetResourceVersion()
		time.Sleep(10 * time.Second)
		srv.Put(widgets(), "b", "x")
		synctest.Wait()
		if _, ok := s.Get("b", "x"); !ok {
			t.Error("namespace b waits for namespace a")
		}
		if err := s.WaitFor(ctx, before); err != nil {
			t.Error(err)
		}
		if o, _ := s.Get("a", "x"); o.ResourceVersion() != before {
			t.Errorf("during the snapshot there is version %s", o.ResourceVersion())
		}
		if err := s.WaitFor(ctx, rv); err != nil {
			t.Fatal(err)
		}
		if o, _ := s.Get("a", "x"); o.ResourceVersion() != rv {
			t.Errorf("Get returns version %s, want %s", o.ResourceVersion(), rv)
		}
	})
}

// TestWaitForDuringALaterRun: while a later run reads the snapshot of a namespace, what it has is not reached, though
// another namespace has been read and is shown. What was reached in the earlier run still is.
func TestWaitForDuringALaterRun(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		before := srv.Put(widgets(), "a", "x").GetResourceVersion()
		srv.Put(widgets(), "a", "y")
		do(t, srv, "bookmarks every 5s")
		s := newStore(t, newStream(t, srv, &stream.Options{Namespaces: []string{"a", "b"},
			Requests: stream.Requests{PagedLists: true, PageSize: 1}}), nil)
		stop := start(ctx, s)
		if err := s.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitFor(ctx, before); err != nil {
			t.Fatal(err)
		}
		_ = stop()
		rv := srv.Put(widgets(), "a", "x", "spec.size=1").GetResourceVersion()
		srv.Put(widgets(), "b", "x")
		if err := srv.Apply("widgets page 1 in a: slow 1m"); err != nil {
			t.Fatal(err)
		}
		stop = start(ctx, s)
		time.Sleep(time.Second)
		srv.Put(widgets(), "c", "x") // so that bookmarks are newer than the snapshot of b
		time.Sleep(20 * time.Second)
		if _, ok := s.Get("b", "x"); !ok {
			t.Error("namespace b waits for namespace a")
		}
		ended, cancel := context.WithCancelCause(ctx)
		cancel(errTimeUp)
		if err := s.WaitFor(ended, before); err != nil {
			t.Errorf("WaitFor of what the earlier run reached: %v", err)
		}
		if err := s.WaitFor(ended, rv); !errors.Is(err, errTimeUp) {
			t.Errorf("WaitFor returns %v, before namespace a has been read", err)
		}
		if err := s.WaitFor(ctx, rv); err != nil {
			t.Fatal(err)
		}
		if o, _ := s.Get("a", "x"); o.ResourceVersion() != rv {
			t.Errorf("Get returns version %s, want %s", o.ResourceVersion(), rv)
		}
		_ = stop()
	})
}

// TestWaitForAfterRewind: after the server has gone back in time, a version from before is not reached until the server
// gets there again.
func TestWaitForAfterRewind(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		srv.Put(widgets(), "b", "x")
		s := started(t, ctx, srv, &stream.Options{Requests: stream.Requests{PagedLists: true, PageSize: 1}}, nil)
		for i := range 5 {
			srv.Put(widgets(), "a", "x", fmt.Sprint("spec.size=", i))
		}
		if err := s.WaitFor(ctx, "7"); err != nil {
			t.Fatal(err)
		}
		if err := srv.Apply("widgets page 1: slow 5m"); err != nil {
			t.Fatal(err)
		}
		do(t, srv, "rewind 3 restart")
		time.Sleep(time.Minute)
		during, end := context.WithTimeoutCause(ctx, time.Minute, errTimeUp)
		defer end()
		if err := s.WaitFor(during, "7"); !errors.Is(err, errTimeUp) {
			t.Errorf("within the GAP, WaitFor a version from before the rewind returns %v", err)
		}
		time.Sleep(10 * time.Minute)
		if o, _ := s.Get("a", "x"); o.ResourceVersion() != "4" {
			t.Fatalf("after the rewind the Store has version %q, want 4", o.ResourceVersion())
		}
		short, cancel := context.WithTimeoutCause(ctx, 10*time.Minute, errTimeUp)
		defer cancel()
		if err := s.WaitFor(short, "7"); !errors.Is(err, errTimeUp) {
			t.Errorf("WaitFor a version from before the rewind returns %v", err)
		}
	})
}

// TestWaitForRefuses what is not a version, and what has ended.
func TestWaitForRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		s := newStore(t, newStream(t, srv, nil), nil)
		for _, rv := range []string{"", "0", "00", "01", "x", "-1", "5 "} {
			checkOptionsError(t, "not a version", s.WaitFor(ctx, rv), "resourceVersion")
		}
		inner, cancel := context.WithCancelCause(ctx)
		result := make(chan error)
		go func() { result <- s.WaitFor(inner, "5") }()
		synctest.Wait()
		cancel(errStopped)
		if err := <-result; !errors.Is(err, errStopped) {
			t.Errorf("it ends with %v", err)
		}
	})
}
