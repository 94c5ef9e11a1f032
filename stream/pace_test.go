package stream_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// fleet is many Streams of one client.
type fleet struct {
	*testing.T
	srv     *streamtest.Server
	client  dynamic.Interface
	streams []*running
	began   time.Time
}

// newFleet starts n Streams and waits until all are SYNCED.
func newFleet(t *testing.T, n int, c func(*streamtest.Server) dynamic.Interface, o setup) *fleet {
	f := &fleet{T: t, srv: streamtest.NewServer(widgets())}
	f.client = c(f.srv)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	for range n {
		s := streamOf(t, f.client, widgets(), &o)
		f.streams = append(f.streams, s)
		running.Go(func() {
			for _, err := range s.Events(ctx) {
				if err != nil && !errors.Is(err, errTimeUp) {
					t.Error(err)
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel(errTimeUp)
		running.Wait()
	})
	f.await(stream.Streaming, time.Minute)
	return f
}

// await waits until all Streams are in a state, and returns how long that took.
func (f *fleet) await(state stream.State, limit time.Duration) time.Duration {
	f.Helper()
	began := time.Now()
	for f.count(state) < len(f.streams) {
		if time.Since(began) > limit {
			f.Fatalf("%d of %d Streams are %s after %v", f.count(state), len(f.streams), state, limit)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

func (f *fleet) count(state stream.State) (n int) {
	for _, s := range f.streams {
		if st := s.Status(); st.State == state && st.Synced {
			n++
		}
	}
	return n
}

// apply begins to count time and requests, and applies a script.
func (f *fleet) apply(script string) {
	f.Helper()
	synctest.Wait()
	f.began = time.Now()
	if err := f.srv.Apply(script); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { noError(f.T, f.srv.CheckScript()) })
}

// perSecond returns the number of requests in each second since apply.
func (f *fleet) perSecond() (counts []int) {
	for _, r := range f.srv.Requests() {
		second := int(r.At.Sub(f.began) / time.Second)
		if r.At.Before(f.began) {
			continue
		}
		counts = append(counts, make([]int, max(0, second+1-len(counts)))...)
		counts[second]++
	}
	return counts
}

var clients = map[string]func(*streamtest.Server) dynamic.Interface{
	"NewClient": func(s *streamtest.Server) dynamic.Interface {
		cfg := s.Config()
		cfg.QPS = 0 // for client-go that means 5
		c, err := stream.NewClient(cfg, nil)
		if err != nil {
			panic(err)
		}
		return c
	},
	"stock client": func(s *streamtest.Server) dynamic.Interface { return dynamic.NewForConfigOrDie(s.Config()) },
}

// TestHealthyServerIsNotPaced: many Streams begin at once, though client-go's default limit is 5 requests per second.
func TestHealthyServerIsNotPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		newFleet(t, 500, clients["NewClient"],
			setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}})
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("500 Streams were SYNCED after %v, want at most 100ms", took)
		}
	})
}

// TestFailingRequestsAreBoundedTogether: while the server fails, all Streams of a client send at most 50 requests a
// second. When it answers again, the limit doubles each second, and the Streams do not wait for the end of their
// backoff. With -soak 10 there are 5,000 Streams.
func TestFailingRequestsAreBoundedTogether(t *testing.T) {
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				streams := 500 * seedtest.Soak()
				f := newFleet(t, streams, client,
					setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}})
				f.apply("any *: 503 plain\nat 1ms: close watches\nat 1m: heal")
				time.Sleep(time.Minute + time.Millisecond)
				failing := f.perSecond()
				if most := slices.Max(failing); most > 50 {
					t.Errorf("%d requests in a second while the server fails, want at most 50", most)
				}
				if f.count(stream.Streaming) > 0 {
					t.Error("a Stream is Streaming while the server fails")
				}
				f.began = time.Now()
				// A probe and a watch for each Stream: 50 + 100 + 200 + 400 + 800 requests.
				took := f.await(stream.Streaming, 10*time.Second*time.Duration(1+seedtest.Soak()/10))
				t.Logf("requests per second: %v while it fails, then %v; all are back after %v",
					failing[50:], f.perSecond(), took)
				most := 100 // the first second in which the server answers ends within the first of these
				for i, n := range f.perSecond() {
					if n > most {
						t.Errorf("%d requests in second %d after the failure, want at most %d", n, i, most)
					}
					most *= 2
				}
			})
		})
	}
}

// TestSuccessOfOneStreamEndsTheWaitOfAll: after a long failure each Stream waits up to 30 s. When the first of them
// succeeds, the others do not wait any longer.
func TestSuccessOfOneStreamEndsTheWaitOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 20, clients["NewClient"],
			setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}})
		f.apply("any *: 500\nat 1ms: close watches")
		time.Sleep(10 * time.Minute)
		f.srv.Do("heal")
		for f.count(stream.Streaming) == 0 {
			time.Sleep(time.Millisecond)
		}
		if took := f.await(stream.Streaming, time.Minute); took > time.Second {
			t.Errorf("the other Streams were back %v later, want at most 1 s", took)
		}
	})
}

// TestFailingResourceIsRetriedLessAndLessOften: a Stream whose own requests keep failing does not retry whenever
// requests of other Streams succeed.
func TestFailingResourceIsRetriedLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Each of these opens a watch every second.
		f := newFleet(t, 5, clients["NewClient"],
			setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true, WatchLifetime: time.Second}}})
		gadgets := widgets()
		gadgets.Resource, gadgets.Kind = "gadgets", "Gadget"
		f.srv.Serve(gadgets)
		f.apply("gadgets.example.com any *: 500")
		_ = record(t, streamOf(t, f.client, gadgets, nil), 10*time.Minute)
		n := 0
		for _, r := range f.srv.Requests() {
			if r.Resource == gadgets.String() {
				n++
			}
		}
		// 8 until the waits are 15 to 30 s long, then 27 in ten minutes. More because others succeed.
		if n > 80 {
			t.Errorf("%d requests in 10 minutes, want at most 80", n)
		}
	})
}

// TestOneStreamTriesRefusedCredentials: after a 401 one Stream at a time tries whether the credentials are accepted.
func TestOneStreamTriesRefusedCredentials(t *testing.T) {
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const streams = 20
				f := newFleet(t, streams, client,
					setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}})
				f.apply("at 0s: unauthorized\nat 1ms: close watches")
				f.await(stream.Unauthorized, 2*time.Second)
				time.Sleep(24 * time.Second)
				// At most 20 at once, then after waits that grow by a quarter, to 5 s now.
				n := 0
				for _, more := range f.perSecond() {
					n += more
				}
				if n > streams+6 {
					t.Errorf("%d requests in 24 s, want at most %d: %v", n, streams+6, f.perSecond())
				}
				f.srv.Do("authorized")
				f.await(stream.Streaming, 16*time.Second)
			})
		})
	}
}

// TestAcceptedCredentialsAreNoticedSoon: a token that is renewed seconds too late costs little more than that.
func TestAcceptedCredentialsAreNoticedSoon(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 5, clients["NewClient"],
				setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}})
			f.apply("at 0s: unauthorized\nat 1ms: close watches")
			time.Sleep(6 * time.Second)
			f.srv.Do("authorized")
			f.await(stream.Streaming, 3*time.Second)
		})
	}
}

// TestGivingUpSendsNoRequest: Streams that wait for the others when their GiveUpAfter is over do not send at once.
func TestGivingUpSendsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		noError(t, srv.Apply("any *: 503 plain"))
		client := clients["NewClient"](srv)
		began := time.Now()
		var running sync.WaitGroup
		for range 300 {
			s := streamOf(t, client, widgets(),
				&setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true,
					GiveUpAfter: 10 * time.Second}}})
			running.Go(func() {
				for _, err := range s.Events(t.Context()) {
					if gaveUp := (*stream.GaveUpError)(nil); !errors.As(err, &gaveUp) || gaveUp.Err == nil {
						t.Errorf("got %v, want a *GaveUpError with a cause", err)
					}
				}
			})
		}
		running.Wait()
		f := &fleet{T: t, srv: srv, began: began}
		if counts := f.perSecond(); slices.Max(counts) > 50 {
			t.Errorf("requests per second: %v, want at most 50", counts)
		}
	})
}

// TestClientMayBeFromOutsideABubble: a test may create its client before its bubble.
func TestClientMayBeFromOutsideABubble(t *testing.T) {
	sc := &script{t: t, exchanges: []exchange{{"", refuse}}}
	client, err := stream.NewClient(&rest.Config{Host: "http://server", Transport: sc}, nil)
	noError(t, err)
	synctest.Test(t, func(t *testing.T) {
		_ = record(t, streamOf(t, client, widgets(),
			&setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}}), time.Minute)
	})
	if len(sc.times) < 5 {
		t.Errorf("%d requests in a minute: time does not pass", len(sc.times))
	}
}

// TestSuccessOfOthersDoesNotShortenRetryAfter: the server has said how long to wait.
func TestSuccessOfOthersDoesNotShortenRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 5, clients["NewClient"],
			setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true, WatchLifetime: time.Second}}})
		gadgets := widgets()
		gadgets.Resource, gadgets.Kind = "gadgets", "Gadget"
		f.srv.Serve(gadgets)
		f.apply("gadgets.example.com list 1: 429 retry-after 20s")
		began := time.Now()
		for ev, err := range streamOf(t, f.client, gadgets,
			&setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}}).Events(t.Context()) {
			noError(t, err)
			if took := time.Since(began); ev.Type == stream.Synced && took < 20*time.Second {
				t.Errorf("SYNCED came after %v, before Retry-After was over", took)
			}
			break
		}
	})
}
