package stream_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

const unending = -1

// watching lets f do something with a watch in a bubble, which does not end before
// all goroutines of the watch have. The server says nothing more after some chunks,
// if that is not unending.
func watching(t *testing.T, v variant, a served, silentAfter int, f func(context.CancelCauseFunc, apiwatch.Interface, *body)) {
	t.Helper()
	t.Run(v.name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			a.chunks = slices.Clone(a.chunks)
			if silentAfter != unending {
				a.gate = make(chan struct{}, 1+silentAfter)
				for range silentAfter {
					a.gate <- struct{}{}
				}
			}
			s := &server{served: a}
			w, err := v.client(t, s, nil).Resource(things).Watch(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			f(cancel, w, s.bodies[0])
			synctest.Wait()
			select {
			case <-s.bodies[0].closed:
			default:
				t.Error("the body was not closed")
			}
		})
	})
}

// receiveAll receives until the end.
func receiveAll(w apiwatch.Interface) (events []apiwatch.Event) {
	for ev := range w.ResultChan() {
		events = append(events, ev)
	}
	return events
}

// all are the clients of NewClient, and before them client-go's.
func all() []variant { return append([]variant{stock}, variants()...) }

// nothingAfterStop: client-go may still tell that it could not read any more.
func nothingAfterStop(t *testing.T, v variant, events []apiwatch.Event) {
	t.Helper()
	if v.opts == nil {
		events = slices.DeleteFunc(events, func(ev apiwatch.Event) bool { return ev.Type == apiwatch.Error })
	}
	if len(events) > 0 {
		t.Errorf("%s: after Stop came %v", v.name, events)
	}
}

func TestStopWhileSilent(t *testing.T) {
	for _, v := range all() {
		watching(t, v, served{}, 0, func(_ context.CancelCauseFunc, w apiwatch.Interface, _ *body) {
			synctest.Wait()
			w.Stop()
			nothingAfterStop(t, v, receiveAll(w))
		})
	}
}

// TestStopWhileFlooded: nobody receives while more and more comes. How far it is
// read ahead has bounds, and Stop ends it.
func TestStopWhileFlooded(t *testing.T) {
	for _, lines := range []string{"\n", "", " \n\n"} {
		flood := slices.Repeat([][]byte{[]byte(many(16, added+lines))}, 2000)
		for _, v := range all() {
			watching(t, v, served{chunks: flood}, unending, func(_ context.CancelCauseFunc, w apiwatch.Interface, b *body) {
				synctest.Wait()
				const ahead, read = 128 << 10, 64 << 10 // the bound of the pipe, and of what is read at once
				if n := b.read.Load(); v.opts != nil && n > int64(2*(ahead+read)+2*v.opts.DecodeWorkers*ahead) {
					t.Errorf("%s: %d bytes were read, and nobody received an event", v.name, n)
				}
				w.Stop()
				if events := receiveAll(w); len(events) > 20 {
					t.Errorf("%s: %d events after Stop", v.name, len(events))
				}
			})
		}
	}
}

func TestStopInTheMiddle(t *testing.T) {
	flood := slices.Repeat([][]byte{[]byte(many(16, added+"\n"))}, 200)
	for _, v := range all() {
		watching(t, v, served{chunks: flood}, unending, func(_ context.CancelCauseFunc, w apiwatch.Interface, _ *body) {
			for range 777 {
				if ev, ok := <-w.ResultChan(); !ok || ev.Type != apiwatch.Added {
					t.Fatalf("%s: %v, %v", v.name, ev, ok)
				}
			}
			var wait sync.WaitGroup
			for range 3 {
				wait.Go(w.Stop)
			}
			wait.Wait()
			receiveAll(w)
			w.Stop()
		})
	}
}

func TestStopAfterTheEnd(t *testing.T) {
	for _, v := range all() {
		watching(t, v, served{chunks: chunksOf(added + "\n" + deleted)}, unending, func(_ context.CancelCauseFunc, w apiwatch.Interface, _ *body) {
			if events := receiveAll(w); len(events) != 2 {
				t.Errorf("%s: %v", v.name, events)
			}
			w.Stop()
			w.Stop()
		})
	}
}

// TestStopWithinAFrame: what has half come is not told.
func TestStopWithinAFrame(t *testing.T) {
	for _, v := range all() {
		watching(t, v, served{chunks: chunksOf(added+"\n"+deleted[:90], deleted[90:])}, 1, func(_ context.CancelCauseFunc, w apiwatch.Interface, _ *body) {
			<-w.ResultChan()
			synctest.Wait()
			w.Stop()
			nothingAfterStop(t, v, receiveAll(w))
		})
	}
}

func TestSameWhenCancelled(t *testing.T) {
	for _, text := range []string{"", added + "\n", added + "\n" + deleted[:90], "nul"} {
		var want []apiwatch.Event
		for _, v := range all() {
			watching(t, v, served{chunks: chunksOf(text, "more")}, 1, func(cancel context.CancelCauseFunc, w apiwatch.Interface, _ *body) {
				synctest.Wait()
				cancel(errors.New("that is enough"))
				events := receiveAll(w)
				if v.opts == nil {
					want = events
				}
				if d := differentEvents(v, want, events); d != "" {
					t.Errorf("after %q (%s): %s", text, v.name, d)
				}
				w.Stop()
			})
		}
	}
}

func TestSameWhenCancelledBefore(t *testing.T) {
	var errs []error
	for _, v := range all() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := v.client(t, &server{}, nil).Resource(things).Watch(ctx, metav1.ListOptions{})
		errs = append(errs, err)
		if d := differentErrors(errs[0], err); d != "" || err == nil {
			t.Errorf("%s: %v: %s", v.name, err, d)
		}
	}
}
