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

	"github.com/gvrwatch/gvrwatch/internal/run"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// pages is a Stream that reads ten objects, four of them at a time.
type pages struct {
	*stream.Stream
	srv      *streamtest.Server
	requests []string
}

func newPages(t *testing.T, kind, script string, patience time.Duration) *pages {
	p := &pages{srv: streamtest.NewServer(widgets())}
	for i := range 10 {
		p.srv.Put(widgets(), "one", fmt.Sprint("w", i))
	}
	noError(t, p.srv.Apply(script))
	o := &stream.Options{PageSize: 4, UntilSynced: true, GiveUpAfter: patience}
	o.Trace = &stream.Trace{RequestDone: func(r stream.Request) {
		p.requests = append(p.requests, fmt.Sprintf("%s %v %d %v", r.Verb, r.Continued, r.Objects, r.Err))
	}}
	p.Stream = newStream(t, clientOf(t, p.srv, kind), o)
	return p
}

// asked is how many pages the server was asked for.
func (p *pages) asked() (n int) {
	for _, r := range p.srv.Requests() {
		if r.Verb == "list" {
			n++
		}
	}
	return n
}

// objects ranges over the objects, each of which takes so long. It returns how many
// there were.
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

// TestNextPageIsReadAhead: while a page is delivered the next one comes, and no more
// than that.
func TestNextPageIsReadAhead(t *testing.T) {
	for kind, ahead := range map[string]int{"client-go": 0, "ours": 1} {
		synctest.Test(t, func(t *testing.T) {
			p, began := newPages(t, kind, "page *: slow 1s", 0), time.Now()
			n := p.objects(t, time.Minute, func(n int) {
				if got, want := p.asked(), min(n/4+1+ahead, 3); got != want {
					t.Errorf("%s: %d pages were asked for at object %d, want %d", kind, got, n, want)
				}
			})
			waited, want := time.Since(began)-10*time.Minute, 2*time.Second*time.Duration(1-ahead)
			if n != 10 || waited != want {
				t.Errorf("%s: %d objects, want 10; pages were waited for %v, want %v", kind, n, waited, want)
			}
		})
	}
}

// TestPageAheadHasPatience: what failed while a page was delivered has not failed for
// all of that time.
func TestPageAheadHasPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPages(t, "ours", "page 1: 500", time.Minute)
		if n := p.objects(t, 20*time.Second, func(int) {}); n != 10 || len(p.requests) != 5 {
			t.Errorf("%d objects, want 10; requests: %q", n, p.requests)
		}
	})
}

// TestPageAheadOfNobody: a Stream that is left does not leave the page behind that it
// was reading. (Else the bubble would not end.)
func TestPageAheadOfNobody(t *testing.T) {
	for _, script := range []string{"", "page *: hang", "page *: slow 1h", "page *: half-open", "page *: 500"} {
		synctest.Test(t, func(t *testing.T) {
			p, began := newPages(t, "ours", script, 0), time.Now()
			defer p.srv.Close()
			for range p.Events(t.Context()) {
				synctest.Wait()
				break
			}
			if took := time.Since(began); p.asked() != 2 || len(p.requests) != 2 || took > 0 {
				t.Errorf("%q: %d pages were asked for, want 2; reported: %q; it was left after %v", script, p.asked(),
					p.requests, took)
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
		outcomes := map[string][]string{}
		for _, kind := range []string{"client-go", "ours"} {
			synctest.Test(t, func(t *testing.T) {
				p := newPages(t, kind, tt.script, 0)
				defer p.srv.Close()
				outcomes[kind] = append(record(t, p.Stream, time.Hour), p.requests...)
			})
		}
		if diff := cmp.Diff(outcomes["client-go"], outcomes["ours"]); diff != "" || len(outcomes["ours"]) < 6 {
			t.Errorf("%s: %s (-client-go +ours):\n%s", tt.script, tt.why, diff)
		}
	}
}

// TestPageAheadInTurn: with Lists, who has no turn any more does not ask for a page
// either.
func TestPageAheadInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 6
		first := newPages(t, "ours", "page *: slow 4s", 0) // more than a turn takes
		lists := run.NewLists(1)
		var all sync.WaitGroup
		for range streams {
			s := newStream(t, clientOf(t, first.srv, "ours"), &stream.Options{PageSize: 1, UntilSynced: true})
			all.Go(func() {
				for _, err := range s.EventsWith(t.Context(), run.Options{Lists: lists}) {
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
				t.Errorf("a page was asked for %v after another, want no less than a turn takes", r.At.Sub(last))
			}
			last = r.At
		}
		if want := streams * 9; pages != want {
			t.Errorf("%d pages were asked for, want %d", pages, want)
		}
	})
}

// bomb panics when it has been read for so long.
type bomb struct{ after io.Reader }

const ofTransport = "of a transport"

func (b bomb) Read(p []byte) (int, error) {
	if n, err := b.after.Read(p); err == nil {
		return n, nil
	}
	panic(ofTransport)
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPanicOfTransport: what a transport panics with reaches who ranges or lists,
// whichever goroutine made the request.
func TestPanicOfTransport(t *testing.T) {
	for _, tt := range []struct {
		why   string
		page  string // that the transport panics of
		after int    // bytes of each page that it panics after; zero means never
		want  int    // events
		leave bool   // after the first one
	}{
		{"the first page", "", 0, 0, false},
		{"a page that is read ahead", "next", 0, 1, false},
		{"a page that nobody wants", "next", 0, 1, true},
		{"a small body", "", 1000, 0, false},
		{"a large one", "", 100 << 10, 0, false},
	} {
		asked := make(chan struct{})
		client := variants()[0].client(t, transportFunc(func(r *http.Request) (*http.Response, error) {
			switch {
			case tt.after > 0:
				return respond(200, io.NopCloser(bomb{strings.NewReader(strings.Repeat(" ", tt.after))}))
			case r.URL.Query().Get("continue") == tt.page:
				close(asked)
				panic(ofTransport)
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
					<-asked
					break
				}
			}
		})
		if tt.after > 0 && panicked == ofTransport {
			panicked = recoverFrom(func() { _, _ = client.Resource(widgets().GroupVersionResource).List(t.Context(), metav1.ListOptions{}) })
		}
		if panicked != ofTransport || n != tt.want {
			t.Errorf("%s: %d events and a panic with %v, want %d and one with %v", tt.why, n, panicked, tt.want,
				ofTransport)
		}
	}
}

func recoverFrom(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}
