package stream_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// pages is a Stream that lists ten objects in pages of four.
type pages struct {
	*running
	srv      *streamtest.Server
	requests []string
}

func newPages(t *testing.T, kind, script string, giveUpAfter time.Duration) *pages {
	p := &pages{srv: streamtest.NewServer(widgets()).AllFaults(friend.Access{})}
	for i := range 10 {
		p.srv.Put(widgets(), "one", fmt.Sprint("w", i))
	}
	noError(t, p.srv.Apply(script))
	t.Cleanup(func() { noError(t, p.srv.CheckScript()) })
	o := &setup{Options: stream.Options{Requests: stream.Requests{PageSize: 4, GiveUpAfter: giveUpAfter}},
		Run: stream.Run{Until: stream.UntilSynced}}
	o.Trace = &stream.Trace{RequestDone: func(r stream.Request) {
		p.requests = append(p.requests, fmt.Sprintf("%s %v %d %v", r.Verb, r.Continued, r.Objects, r.Err))
	}}
	p.running = newStream(t, clientOf(t, p.srv, kind), o)
	return p
}

// requested returns how many pages the Stream has requested.
func (p *pages) requested() (n int) {
	for _, r := range p.srv.Requests() {
		if r.Verb == "list" {
			n++
		}
	}
	return n
}

// objects calls f for each object, after a sleep. It returns the number of objects.
func (p *pages) objects(t *testing.T, each time.Duration, f func(n int)) (n int) {
	for ev, err := range p.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Object != nil {
			time.Sleep(each)
			f(n)
			n++
		}
	}
	return n
}

// TestNextPageIsReadAhead: while a Stream delivers a page, our client reads the next one, and no more.
func TestNextPageIsReadAhead(t *testing.T) {
	for kind, ahead := range map[string]int{"client-go": 0, "NewClient": 1} {
		synctest.Test(t, func(t *testing.T) {
			p, began := newPages(t, kind, "page *: slow 1s", 0), time.Now()
			n := p.objects(t, time.Minute, func(n int) {
				if got, want := p.requested(), min(n/4+1+ahead, 3); got != want {
					t.Errorf("%s: %d pages were requested at object %d, want %d", kind, got, n, want)
				}
			})
			waited, want := time.Since(began)-10*time.Minute, 2*time.Second*time.Duration(1-ahead)
			if n != 10 || waited != want {
				t.Errorf("%s: %d objects, want 10; the loop waited %v for pages, want %v", kind, n, waited, want)
			}
		})
	}
}

// TestReadAheadIgnoresLoopTime: the time that the loop body takes does not count towards GiveUpAfter when reading ahead
// fails.
func TestReadAheadIgnoresLoopTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPages(t, "NewClient", "page 1: 500", time.Minute)
		if n := p.objects(t, 20*time.Second, func(int) {}); n != 10 || len(p.requests) != 5 {
			t.Errorf("%d objects, want 10; requests: %q", n, p.requests)
		}
	})
}

// TestReadAheadEndsWithRun: leaving the loop ends the request for the next page. synctest checks that no goroutine is
// left.
func TestReadAheadEndsWithRun(t *testing.T) {
	for _, script := range []string{"", "page *: hang", "page *: slow 1h", "page *: half-open", "page *: 500"} {
		synctest.Test(t, func(t *testing.T) {
			p, began := newPages(t, "NewClient", script, 0), time.Now()
			defer p.srv.Close()
			for range p.Events(t.Context()) {
				synctest.Wait()
				break
			}
			if took := time.Since(began); p.requested() != 2 || len(p.requests) != 2 || took > 0 {
				t.Errorf("%q: %d pages were requested, want 2; reported: %q; leaving the loop took %v", script,
					p.requested(), p.requests, took)
			}
		})
	}
}

// A failure of a page that was read ahead has the same outcome as one of a page that is requested when it is needed.
func TestReadAheadFailureChangesNoOutcome(t *testing.T) {
	for _, tt := range []struct{ script, why string }{
		{"page 1: 500", "the page is requested again"},
		{"page 1-3: 503 plain", "the list restarts"},
		{"page 1: 410", "an expired page restarts the list"},
		{"page 2: 429 in status 3s", "the Stream waits as the server asks"},
		{"page 1: garbage", "the page can't be decoded"},
		{"page 2: reset", "the connection breaks within the page"},
		{"page 2: hang", "the Stream waits for a page that hangs, but not for ever"},
		{"page 1: no version", "a page without a resourceVersion ends the run"},
		{"page 1: inconsistent pages", "the page has another version than the first one"},
		{"page 2: token circle", "the continue tokens form a cycle"},
		{"page 1: refuse", "the connection is refused"},
		{"list *: slow 3m\npage *: slow 3m", "each attempt at a slow server has a longer timeout"},
	} {
		outcomes := map[string][]string{}
		for _, kind := range []string{"client-go", "NewClient"} {
			synctest.Test(t, func(t *testing.T) {
				p := newPages(t, kind, tt.script, 0)
				defer p.srv.Close()
				outcomes[kind] = append(record(t, p.running, time.Hour), p.requests...)
			})
		}
		if diff := cmp.Diff(outcomes["client-go"], outcomes["NewClient"]); diff != "" ||
			len(outcomes["NewClient"]) < 6 {
			t.Errorf("%s: %s (-client-go +NewClient):\n%s", tt.script, tt.why, diff)
		}
	}
}

// With Lists, a Stream whose slot has ended does not read ahead.
func TestNoReadAheadAfterTheSlotEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 6
		first := newPages(t, "NewClient", "page *: slow 4s", 0) // more than a slot lasts
		lists := host.NewLists(1)
		var all sync.WaitGroup
		for range streams {
			s := newStream(t, clientOf(t, first.srv, "NewClient"),
				&setup{Options: stream.Options{Requests: stream.Requests{PageSize: 1}},
					Run: stream.Run{Until: stream.UntilSynced}})
			all.Go(func() {
				for _, err := range s.Host(t.Context(), host.Run{Lists: lists}) {
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		var last time.Time
		pages := 0
		for _, r := range first.srv.Requests() {
			if r.Continue == "" {
				continue
			}
			if pages++; r.At.Sub(last) < 3*time.Second {
				t.Errorf("a page was requested %v after another, want at least the 3s of a slot", r.At.Sub(last))
			}
			last = r.At
		}
		if want := streams * 9; pages != want {
			t.Errorf("%d pages were requested, want %d", pages, want)
		}
	})
}

// panickingReader panics at the end of a reader.
type panickingReader struct{ after io.Reader }

const transportPanic = "transport panic"

func (b panickingReader) Read(p []byte) (int, error) {
	if n, err := b.after.Read(p); err == nil {
		return n, nil
	}
	panic(transportPanic)
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The caller of Events or List receives the panic, whichever goroutine made the request.
func TestTransportPanicReachesTheCaller(t *testing.T) {
	for _, tt := range []struct {
		why   string
		page  string // the continue token of the request that panics
		after int    // the size of a body after which reading panics; 0 means that the request panics
		want  int    // events
		leave bool   // leave the loop after the first event
	}{
		{"the request for the first page panics", "", 0, 0, false},
		{"the request for a page that is read ahead panics", "next", 0, 1, false},
		{"the request for a page that is never needed panics", "next", 0, 1, true},
		{"reading a small body panics", "", 1000, 0, false},
		{"reading a large body panics", "", 100 << 10, 0, false},
	} {
		requested := make(chan struct{})
		client := variants()[0].client(t, transportFunc(func(r *http.Request) (*http.Response, error) {
			switch {
			case tt.after > 0:
				return respond(200, io.NopCloser(panickingReader{strings.NewReader(strings.Repeat(" ", tt.after))}))
			case r.URL.Query().Get("continue") == tt.page:
				close(requested)
				panic(transportPanic)
			}
			return list("7", "next", "w@5")(r)
		}))
		n := 0
		panicked := recoverFrom(func() {
			for _, err := range newStream(t, client, nil).Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; tt.leave {
					<-requested
					break
				}
			}
		})
		if tt.after > 0 && panicked == transportPanic {
			panicked = recoverFrom(func() {
				_, _ = client.Resource(widgets().GroupVersionResource).List(t.Context(), metav1.ListOptions{})
			})
		}
		if panicked != transportPanic || n != tt.want {
			t.Errorf("%s: %d events and a panic with %v, want %d and one with %v", tt.why, n, panicked, tt.want,
				transportPanic)
		}
	}
}

func recoverFrom(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}
