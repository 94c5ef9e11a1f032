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

// TestWaitForAfterRewind: after the server has gone back in time, a version from before is not reached until the server
// gets there again.
func TestWaitForAfterRewind(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context, srv *streamtest.Server) {
		s := started(t, ctx, srv, nil, nil)
		for i := range 5 {
			srv.Put(widgets(), "a", "x", fmt.Sprint("spec.size=", i))
		}
		if err := s.WaitFor(ctx, "6"); err != nil {
			t.Fatal(err)
		}
		do(t, srv, "rewind 3 restart")
		time.Sleep(10 * time.Minute)
		if o, _ := s.Get("a", "x"); o.ResourceVersion() != "3" {
			t.Fatalf("after the rewind the Store has version %q, want 3", o.ResourceVersion())
		}
		short, cancel := context.WithTimeoutCause(ctx, 10*time.Minute, errTimeUp)
		defer cancel()
		if err := s.WaitFor(short, "6"); !errors.Is(err, errTimeUp) {
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
