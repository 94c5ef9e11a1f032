package pace_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/internal/pace"
)

var errDown = errors.New("down")

func quiet(pace.Delay) {}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestLimitFollowsTheAnswers: requests that wait for each other are sent as fast as the limit allows.
func TestLimitFollowsTheAnswers(t *testing.T) {
	tests := []struct {
		name     string
		requests int
		answer   func(second int) pace.Answer
		want     []int // requests per second
		why      string
	}{
		{"a server that answers", 500, func(int) pace.Answer { return pace.Good }, []int{500},
			"the first good answer ends the limit"},
		{"a server that fails", 18, func(int) pace.Answer { return pace.Bad }, []int{5, 5, 5, 3},
			"the limit is 5 from the first request on"},
		{"a server that fails for 3 s", 100, func(second int) pace.Answer {
			if second < 3 {
				return pace.Bad
			}
			return pace.Good
		}, []int{5, 5, 5, 5, 10, 20, 40, 10}, "the limit doubles"},
		{"a server that fails again", 60, func(second int) pace.Answer {
			if second == 0 || second == 3 {
				return pace.Bad
			}
			return pace.Good
		}, []int{5, 5, 10, 20, 5, 10, 5}, "the limit falls"},
		{"a server that fails half of the time", 30, alternately(2), []int{5, 5, 5, 5, 5, 5},
			"it does not answer well"},
		{"a server that fails once in ten times", 65, alternately(10), []int{5, 10, 20, 30}, "it answers well"},
		{"answers that say nothing", 12, func(int) pace.Answer { return pace.None }, []int{5, 5, 2},
			"the limit stays"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := pace.NewClient(5)
				began := time.Now()
				second := func() int { return int(time.Since(began) / time.Second) }
				sent := make(chan int, tt.requests)
				for range tt.requests {
					go func() {
						r := c.Wait(t.Context(), pace.Sender{Lasts: true}, quiet)
						sent <- second()
						time.Sleep(time.Millisecond)
						c.Done(r, tt.answer(second()), errDown)
					}()
				}
				var got []int
				for range tt.requests {
					n := <-sent
					got = append(got, make([]int, max(0, n+1-len(got)))...)
					got[n]++
				}
				synctest.Wait()
				time.Sleep(time.Second) // the last answers
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
			})
		})
	}
}

// alternately returns Bad at first and with each nth answer, else Good.
func alternately(n int64) func(int) pace.Answer {
	var count atomic.Int64
	return func(int) pace.Answer {
		if count.Add(1)%n == 1 {
			return pace.Bad
		}
		return pace.Good
	}
}

// TestPanicInReportBlocksNobody: the callbacks of Trace are called while a request waits.
func TestPanicInReportBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pace.NewClient(1)
		c.Done(c.Wait(t.Context(), pace.Sender{Lasts: true}, quiet), pace.Unauthorized, errDown)
		c.Done(c.Wait(t.Context(), pace.Sender{}, quiet), pace.Bad, errDown)
		time.Sleep(500 * time.Millisecond)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the request did not wait")
				}
			}()
			c.Wait(t.Context(), pace.Sender{Lasts: true}, func(d pace.Delay) {
				if d.Answer == pace.Bad {
					panic("in a callback")
				}
			})
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if c.Wait(ctx, pace.Sender{Lasts: true}, quiet); ctx.Err() != nil {
			t.Error("another request waited a minute")
		}
	})
}

// TestBrokenWatchBeginsTheLimit: many watches may break at once, before any request has failed.
func TestBrokenWatchBeginsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pace.NewClient(5)
		c.Done(c.Wait(t.Context(), pace.Sender{Lasts: true}, quiet), pace.Good, nil)
		c.Broken()
		began := time.Now()
		for range 6 {
			c.Wait(t.Context(), pace.Sender{Lasts: true}, quiet)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("6 requests after a broken watch took %v, want 1s", took)
		}
	})
}

// TestWaitEndsWithContext: a request that waits does not outlive its Stream, and others do not wait for it.
func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pace.NewClient(1)
		c.Done(c.Wait(t.Context(), pace.Sender{Lasts: true}, quiet), pace.Bad, errDown)
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var reported []pace.Delay
		time.AfterFunc(100*time.Millisecond, cancel)
		c.Wait(ctx, pace.Sender{Lasts: true}, func(d pace.Delay) { reported = append(reported, d) })
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("Wait took %v after its context ended at 100ms", took)
		}
		want := []pace.Delay{{Answer: pace.Bad, Cause: errDown, NextTry: began.Add(time.Second)}}
		if diff := cmp.Diff(want, reported, cmp.Comparer(func(a, b error) bool { return a == b })); diff != "" {
			t.Errorf("why it waited (-want +got):\n%s", diff)
		}
		c.Wait(t.Context(), pace.Sender{Lasts: true}, quiet)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the next request was sent after %v, want 1s", took)
		}
	})
}

// TestSuccessIsReportedToThoseThatFailed closes the channels of all failures before it.
func TestSuccessIsReportedToThoseThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pace.NewClient(0)
		send := func(a pace.Answer) <-chan struct{} {
			return c.Done(c.Wait(t.Context(), pace.Sender{Lasts: true}, quiet), a, errDown)
		}
		first, second := send(pace.Bad), send(pace.Bad)
		send(pace.None)
		if isClosed(first) || isClosed(second) {
			t.Error("closed without a good answer")
		}
		send(pace.Good)
		if !isClosed(first) || !isClosed(second) {
			t.Error("a good answer did not close the channels")
		}
		if isClosed(send(pace.Bad)) {
			t.Error("closed before the next good answer")
		}
	})
}

// TestOneRequestTriesCredentials: after a 401 one request is sent at a time, until credentials are accepted.
func TestOneRequestTriesCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pace.NewClient(0)
		accepted := c.Done(c.Wait(t.Context(), pace.Sender{Lasts: true}, quiet), pace.Unauthorized, errDown)
		answers := []pace.Answer{pace.Unauthorized, pace.Bad, pace.Good}
		sent := make(chan time.Time, 10)
		underWay := make(chan struct{}, 1)
		for range 10 {
			go func() {
				r := c.Wait(t.Context(), pace.Sender{Lasts: true}, func(d pace.Delay) {
					if d.Answer != pace.Unauthorized || d.Cause != errDown || d.NextTry.IsZero() {
						t.Errorf("the reason for the wait is %+v", d)
					}
				})
				sent <- time.Now()
				answer := pace.Good
				if !isClosed(accepted) {
					select {
					case underWay <- struct{}{}:
					default:
						t.Error("two requests try the credentials")
						return
					}
					time.Sleep(100 * time.Millisecond)
					answer, answers = answers[0], answers[1:]
					<-underWay
				}
				c.Done(r, answer, errDown)
			}()
		}
		last := time.Now()
		for i, least := range []time.Duration{100 * time.Millisecond, 225 * time.Millisecond, 100 * time.Millisecond} {
			next := <-sent
			if waited := next.Sub(last); waited < least || waited > 15*time.Second {
				t.Errorf("request %d was sent after %v, want at least %v", i, waited, least)
			}
			last = next
		}
		time.Sleep(time.Second)
		if len(sent) != 7 {
			t.Errorf("%d requests were sent when the credentials were accepted, want 7", len(sent))
		}
	})
}

// TestUnsyncedStreamDoesNotWaitForCredentials: a 401 ends it, so it must not wait for others.
func TestUnsyncedStreamDoesNotWaitForCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pace.NewClient(0)
		for _, synced := range []bool{true, false, false} {
			began := time.Now()
			c.Done(c.Wait(t.Context(), pace.Sender{Lasts: synced}, quiet), pace.Unauthorized, errDown)
			if took := time.Since(began); took > 0 {
				t.Errorf("a request waited %v", took)
			}
		}
	})
}

type uncomparable []int

type wrapper struct{ any }

// TestShare: a client has one pace as long as any Stream uses it.
func TestShare(t *testing.T) {
	client, other := new(int), new(int)
	a, releaseA := pace.Share(client)
	b, releaseB := pace.Share(client)
	if c, release := pace.Share(other); a != b || a == c {
		t.Error("each client must have one pace")
	} else {
		release()
	}
	releaseA()
	if c, release := pace.Share(client); c != b {
		t.Error("the pace was forgotten while it was used")
	} else {
		release()
	}
	releaseB()
	if c, release := pace.Share(client); c == b {
		t.Error("the pace is kept for ever")
	} else {
		release()
	}
	for _, client := range []any{uncomparable(nil), wrapper{uncomparable(nil)}} { // neither panics
		_, release := pace.Share(client)
		release()
	}
}

// TestWatchGoesBeforeOtherProbes: a request that completes what a Stream has begun does not wait for those that other
// Streams begin with. So the first Streams are back soon, though all begin at once; and each of these has its turn.
func TestWatchGoesBeforeOtherProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 100
		c := pace.NewClient(10)
		c.Done(c.Wait(t.Context(), pace.Sender{}, quiet), pace.Bad, errDown)
		began := time.Now()
		back := make(chan time.Duration, streams)
		for range streams {
			go func() {
				for _, next := range []bool{false, true} { // a probe, then a watch
					r := c.Wait(t.Context(), pace.Sender{Lasts: true, Next: next}, quiet)
					time.Sleep(time.Millisecond)
					c.Done(r, pace.Good, nil)
				}
				back <- time.Since(began)
			}()
		}
		var at []time.Duration
		for range streams {
			at = append(at, <-back)
		}
		// 10, 20, 40, 80 and 50 requests in the seconds from 1 on: half of those in each second open a watch.
		for i, most := range map[int]time.Duration{0: 2100 * time.Millisecond, 30: 4100 * time.Millisecond,
			streams - 1: 6 * time.Second} {
			if at[i] > most {
				t.Errorf("Stream %d is back after %v, want at most %v", i, at[i], most)
			}
		}
	})
}
