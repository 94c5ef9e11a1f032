package stream_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/explore"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
)

// TestStreamDoesWhatTheExplorerDoes: package explore walks through the protocol with a driver of its own in the place
// of a Stream. On random ways through its models a Stream sends the same requests and delivers the same events.
func TestStreamDoesWhatTheExplorerDoes(t *testing.T) {
	seedtest.Default(20).Run(t, func(t *testing.T, seed uint64) {
		n := 0
		for c := range explore.Conversations(rand.New(rand.NewPCG(seed, 42)), 30) {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testWay(t, c) })
			})
			if n++; n == 20 || t.Failed() {
				return
			}
		}
	})
}

func testWay(t *testing.T, c *explore.Conversation) {
	s := &script{t: t, noProbes: true}
	for _, e := range c.Script {
		s.exchanges = append(s.exchanges, exchange{e.Request, answerOf(e.Answer)})
	}
	o := setup{Run: stream.Run{Start: startOf(c), FailOnGap: c.Rules.FailOnGap, RetryRefused: c.Rules.RetryRefused,
		Bookmarks: true}}
	o.Requests.PagedLists = !c.Rules.WantInitialEvents
	// See reply.end of package explore.
	o.Requests.WatchLifetime, o.Requests.IdleTimeout = 5*time.Minute, 315*time.Second
	if c.Even {
		o.Select = even
	}
	switch {
	case c.Rules.UntilSynced:
		o.Until = stream.UntilSynced
	case c.Rules.UntilClosed:
		o.Until = stream.UntilClosed
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 24*time.Hour, errTimeUp)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		for s.left() > 0 && sleeps(ctx, time.Second) {
		}
		sleeps(ctx, 6*time.Minute) // the last watch may end
		cancel()
	}()
	var got []string
	var at []*checkpoint.Position
	ended := true
	w := streamOf(t, s.client(), widgets(), &o)
	for ev, err := range w.Events(ctx) {
		if err == nil {
			p := w.Position()
			p.Objects = sorted(p.Objects)
			got, at = append(got, text(ev)), append(at, &p)
		}
		ended = ctx.Err() == nil
	}
	ended = ended && ctx.Err() == nil
	cancel()
	<-over
	if diff := cmp.Diff(c.Want, got); diff != "" {
		t.Errorf("the Stream delivers other events than the explorer (-explorer +Stream):\n%s", diff)
	}
	if diff := cmp.Diff(c.At, at, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the Stream has other Positions at its events than the explorer (-explorer +Stream):\n%s", diff)
	}
	if ended != c.Ended {
		t.Errorf("the run ended by itself: %v, in the explorer: %v", ended, c.Ended)
	}
	if n := s.left(); n > 0 {
		t.Errorf("the Stream did not send the last %d requests", n)
	}
	if t.Failed() {
		t.Logf("the requests:\n\t%s\nthe conversation:\n%s", strings.Join(s.requests, "\n\t"), c)
	}
}

// even selects objects of even versions.
func even(m stream.Meta) bool {
	n, _ := strconv.Atoi(m.GetResourceVersion())
	return n%2 == 0
}

// sleeps reports whether ctx did not end meanwhile.
func sleeps(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// left returns the number of requests that are still to come.
func (s *script) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.exchanges)
}

func startOf(c *explore.Conversation) stream.Start {
	switch {
	case c.From.Now:
		return stream.Now()
	case c.From.After != "":
		return stream.After(c.From.After)
	case c.From.Position == nil:
		return stream.Start{}
	}
	return stream.From(*c.From.Position)
}

func answerOf(a explore.Answer) answer {
	switch {
	case a.Watch:
		return watch(a.Frames...)
	case a.Busy:
		return busy
	case a.Refuses:
		return refuse
	case a.Status != "":
		code, reason, _ := strings.Cut(a.Status, " ")
		n, _ := strconv.Atoi(code)
		if a.Gateway {
			return gateway(n)
		}
		return status(int32(n), metav1.StatusReason(reason))
	}
	return list(a.Version, a.Token, a.Objects...)
}
