package stream_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// pagesOf serves ten objects, with faults, and returns a Stream that reads four of
// them at a time, and what its requests come to.
func pagesOf(t *testing.T, kind, script string) (*stream.Stream, *streamtest.Server, *[]string) {
	return pagesWithin(t, kind, script, 0)
}

// pagesWithin is pagesOf with GiveUpAfter.
func pagesWithin(t *testing.T, kind, script string, patience time.Duration) (*stream.Stream, *streamtest.Server, *[]string) {
	srv := streamtest.NewServer(widgets())
	for i := range 10 {
		srv.Put(widgets(), "one", fmt.Sprint("w", i))
	}
	if err := srv.Apply(script); err != nil {
		t.Fatal(err)
	}
	var requests []string
	return newStream(t, clientOf(t, srv, kind), &stream.Options{PageSize: 4, End: stream.WhenSynced, GiveUpAfter: patience, Trace: &stream.Trace{RequestDone: func(r stream.Request) {
		requests = append(requests, fmt.Sprintf("%s %v %d %v", r.Verb, r.Continued, r.Objects, r.Err))
	}}}), srv, &requests
}

func listsOf(srv *streamtest.Server) (n int) {
	for _, r := range srv.Requests() {
		if r.Verb == "list" {
			n++
		}
	}
	return n
}

// TestNextPageIsReadAhead: while a page is told the next one comes, and no more than
// that.
func TestNextPageIsReadAhead(t *testing.T) {
	for kind, ahead := range map[string]int{"client-go": 0, "ours": 1} {
		synctest.Test(t, func(t *testing.T) {
			s, srv, _ := pagesOf(t, kind, "page *: slow 1s")
			told := 0
			began := time.Now()
			for ev, err := range s.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if ev.Object == nil {
					continue
				}
				time.Sleep(time.Minute)
				page := told/4 + 1
				if got, want := listsOf(srv), min(page+ahead, 3); got != want {
					t.Errorf("%s: %d pages were asked for while the one with number %d is told, want %d", kind, got, page, want)
				}
				told++
			}
			if told != 10 {
				t.Errorf("%s: %d objects were told", kind, told)
			}
			if waited, want := time.Since(began)-10*time.Minute, 2*time.Second*time.Duration(1-ahead); waited != want {
				t.Errorf("%s: pages were waited for %v, want %v", kind, waited, want)
			}
		})
	}
}

// TestPageAheadOfNobody: a Stream that is left does not leave the page behind that it
// was reading. (Else the bubble would not end.)
func TestPageAheadOfNobody(t *testing.T) {
	for _, script := range []string{"", "page *: hang", "page *: slow 1h", "page *: half-open", "page *: 500"} {
		synctest.Test(t, func(t *testing.T) {
			s, srv, requests := pagesOf(t, "ours", script)
			defer srv.Close()
			began := time.Now()
			for range s.Events(t.Context()) {
				synctest.Wait()
				break
			}
			if n := listsOf(srv); n != 2 || len(*requests) != 2 {
				t.Errorf("%q: %d pages were asked for, want 2; told of: %q", script, n, *requests)
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("%q: it was left after %v", script, took)
			}
		})
	}
}

// TestPageAheadFails: what is wrong with a page is found out when its turn comes, as
// if it had been asked for then.
func TestPageAheadFails(t *testing.T) {
	for _, tt := range []struct{ script, why string }{
		{"page 1: 500", "it is asked for again"},
		{"page 1-3: 503 plain", "the list begins again"},
		{"page 1: 410", "too"},
		{"page 2: 429 in status 3s", "it is waited for"},
		{"page 1: garbage", "it can't be read"},
		{"page 2: reset", "it breaks off"},
		{"page 2: hang", "it is waited for, and not for ever"},
		{"page 1: no version", "it is no list to watch from, and ends the sequence"},
		{"page 1: inconsistent pages", "if it is of another version"},
		{"page 2: token circle", "it leads nowhere"},
		{"page 1: refuse", "nobody is there"},
		{"list *: slow 3m\npage *: slow 3m", "a server that is slow is given more and more time"},
	} {
		type outcome struct {
			Events, Requests []string
		}
		outcomes := map[string]outcome{}
		for _, kind := range []string{"client-go", "ours"} {
			synctest.Test(t, func(t *testing.T) {
				s, srv, requests := pagesOf(t, kind, tt.script)
				defer srv.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var o outcome
				for ev, err := range s.Events(ctx) {
					if err != nil {
						o.Events = append(o.Events, err.Error())
						break
					}
					o.Events = append(o.Events, text(ev))
				}
				o.Requests = *requests
				outcomes[kind] = o
			})
		}
		if diff := cmp.Diff(outcomes["client-go"], outcomes["ours"]); diff != "" {
			t.Errorf("%s: %s (-client-go +ours):\n%s", tt.script, tt.why, diff)
		}
		if n := len(outcomes["ours"].Events); n < 5 {
			t.Errorf("%s: only %d events", tt.script, n)
		}
	}
}

// TestPageAheadHasPatience: what failed while a page was told has not failed for all of
// that time.
func TestPageAheadHasPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, requests := pagesWithin(t, "ours", "page 1: 500", time.Minute)
		told := 0
		for ev, err := range s.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Object != nil {
				told++
				time.Sleep(20 * time.Second)
			}
		}
		if told != 10 || len(*requests) != 5 {
			t.Errorf("%d objects were told, want 10; requests: %q", told, *requests)
		}
	})
}

// TestPageAheadInTurn: with Lists, who has no turn any more does not ask for a page
// either.
func TestPageAheadInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 6
		srv := streamtest.NewServer(widgets())
		for i := range 40 {
			srv.Put(widgets(), "one", fmt.Sprint("w", i))
		}
		if err := srv.Apply("page *: slow 4s"); err != nil { // more than a turn takes
			t.Fatal(err)
		}
		lists := stream.NewLists(1)
		var all sync.WaitGroup
		for range streams {
			s := newStream(t, clientOf(t, srv, "ours"), &stream.Options{PageSize: 4, End: stream.WhenSynced})
			all.Go(func() {
				for _, err := range s.EventsWith(t.Context(), stream.Range{Lists: lists}) {
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		var last time.Time
		pages := 0
		for _, r := range srv.Requests() {
			if r.Continue == "" {
				continue
			}
			if pages++; r.At.Sub(last) < 3*time.Second {
				t.Errorf("a page was asked for %v after another, want no less than a turn takes", r.At.Sub(last))
			}
			last = r.At
		}
		if want := streams * 9; pages != want {
			t.Errorf("%d pages were asked for, want %d", pages, want)
		}
	})
}
