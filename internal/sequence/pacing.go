package sequence

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/pace"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

const (
	// The first retry comes soon, because most failures are a restarting server or a broken connection. The pace that
	// all Streams of a client share keeps many of them from being a burden.
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 30 * time.Second
	// Refused requests are retried often enough to notice restored permissions within 15 seconds.
	maxRefusedBackoff = 15 * time.Second
	// maxDoublings is how often failures double the timeout of a request.
	maxDoublings = 3
	// spreadShare is which part of a wait that the server asks for is added at most.
	spreadShare = 5
	// minIgnored is how long a wait ignores that requests of other Streams succeed, after a retry because of that has
	// failed.
	minIgnored = time.Second
	// Lists that show what was missed on a server that breaks the rules about versions: the first one is read at once,
	// the next one after minBetweenLists, and so on with doubled times. After forgiven, the first one is.
	minBetweenLists, maxBetweenLists, forgiven = 30 * time.Second, 5 * time.Minute, 30 * time.Minute
	// betweenChecks is the least time between two whole lists that show only whether the server can send them.
	betweenChecks = 5 * time.Minute
)

// pacing says when a request may be sent.
type pacing struct {
	giveUpAfter time.Duration // 0 for never
	between     func(least, most time.Duration) time.Duration
	shared      *pace.Client
	lists       *host.Lists // may be nil
	report      *report
	log         logger

	slot   *host.Slot // to read a snapshot; nil for none
	health health
	lately lately
}

// lately records when lists were read that watches should have made needless.
type lately struct {
	listed  time.Time     // zero for never
	next    time.Duration // after listed, until the next one may be read
	checked time.Time     // zero for never
}

// health records when requests succeeded and failed.
type health struct {
	failedFor time.Duration // time spent on failed requests and waits since a watch last was healthy
	cause     error         // of the last wait
	warned    bool          // a failure was logged, and no recovery since

	answered bool // the last request was answered with a page, and there was no wait since

	recovered   <-chan struct{} // closed when a request of any Stream of the client succeeds again
	woken       bool            // the last wait ended because of that
	inVain      int             // retries because of that which failed, since the watch last was healthy
	ignoreUntil time.Time       // until then, waits do not end because of that
}

// restart prepares for a run.
func (p *pacing) restart() { p.health = health{} }

// listing says that a list is read because the sequence is doubted.
func (p *pacing) listing() {
	l := &p.lately
	if !p.hasListed() || time.Since(l.listed) > forgiven {
		l.next = 0
	}
	l.listed, l.next = time.Now(), min(max(2*l.next, minBetweenLists), maxBetweenLists)
}

// hasListed reports whether such a list was read.
func (p *pacing) hasListed() bool { return !p.lately.listed.IsZero() }

// untilList returns how long such a list must wait; 0 or less for no longer.
func (p *pacing) untilList() time.Duration {
	if !p.hasListed() {
		return 0
	}
	return time.Until(p.lately.listed.Add(p.lately.next))
}

// checking says that a whole list is read to see whether the server can send it.
func (p *pacing) checking() { p.lately.checked = time.Now() }

func (p *pacing) isCheckDue() bool { return time.Until(p.nextCheck()) <= 0 }

// nextCheck returns when such a list may be read.
func (p *pacing) nextCheck() time.Time { return p.lately.checked.Add(betweenChecks) }

// healthy says that the watch is healthy.
func (p *pacing) healthy() { p.health.failedFor, p.health.inVain = 0, 0 }

// answering says that the watch was healthy until it fell silent.
func (p *pacing) answering() { p.health.failedFor = 0 }

// broken says that a watch broke.
func (p *pacing) broken() { p.shared.Broken() }

// timeout returns the timeout of a request: first, doubled with each failure, but no longer than the time that
// GiveUpAfter leaves, and at least 1 s.
func (p *pacing) timeout(first time.Duration, failures int) time.Duration {
	timeout := wait.Doubled(failures+1, first, first<<maxDoublings)
	if p.giveUpAfter == 0 {
		return timeout
	}
	return max(min(timeout, p.giveUpAfter-p.health.failedFor), time.Second)
}

// request calls send when the pace of the client permits it. send returns how long its request took. A request that
// opens a watch after a page of this Stream goes before those that other Streams begin with.
func (p *pacing) request(
	ctx context.Context, m protocol.Memory, opens bool, send func() (protocol.Input, time.Duration),
) protocol.Input {
	paced, began := ctx, time.Now()
	if p.giveUpAfter > 0 && m.Failures() > 0 {
		var cancel context.CancelFunc
		paced, cancel = context.WithTimeout(ctx, p.giveUpAfter-p.health.failedFor)
		defer cancel()
	}
	var delay pace.Delay
	by := pace.Sender{Lasts: protocol.Lasts(m), Next: opens && p.health.answered}
	r := p.shared.Wait(paced, by, func(d pace.Delay) {
		delay = d
		p.report.paced(m, d)
	})
	if m.Failures() > 0 {
		p.health.failedFor += time.Since(began)
	}
	p.health.answered = false
	answer, err := pace.None, error(nil)
	defer func() { p.health.recovered = p.shared.Done(r, answer, err) }()
	if paced.Err() != nil && ctx.Err() == nil { // GiveUpAfter is over: the wait that follows ends the run
		return protocol.Failed{Cause: failure(cmp.Or(delay.Cause, p.health.cause))}
	}
	in, took := send()
	_, p.health.answered = in.(protocol.Page)
	if _, failed := in.(protocol.Failed); failed {
		p.health.failedFor += took
	}
	if ctx.Err() == nil {
		answer, err = answerOf(in, protocol.Lasts(m))
	}
	if answer == pace.Bad && p.health.woken {
		p.health.inVain++
		p.health.ignoreUntil = time.Now().Add(wait.Doubled(p.health.inVain, minIgnored, maxBackoff))
	}
	p.health.woken = false
	return in
}

// answerOf returns what the result of a request says about the server. A sequence that lasts goes on after a refusal.
func answerOf(in protocol.Input, lasts bool) (pace.Answer, error) {
	failed, ok := in.(protocol.Failed)
	if !ok {
		return pace.Good, nil
	}
	cause := failed.Cause
	switch {
	case cause.Class == protocol.Unauthorized && (lasts || !cause.Gateway):
		return pace.Unauthorized, cause.Err
	case cause.Gateway:
		return pace.Bad, cause.Err
	}
	switch cause.Class {
	case protocol.Transient, protocol.ServerError, protocol.Unusable:
		return pace.Bad, cause.Err
	}
	return pace.Good, nil // it refuses this request, but answers
}

// wait waits before a retry. The wait is shorter if a request of another Stream succeeds meanwhile, unless the server
// has refused this one, or has said how long to wait.
func (p *pacing) wait(ctx context.Context, s protocol.Waiting) protocol.Input {
	h, limit := &p.health, p.giveUpAfter
	h.answered = false
	d := p.between(backoff(s))
	if asked := s.Cause.RetryAfter; asked > 0 {
		spread, over := p.shared.Asked()
		defer over()
		d = asked + p.between(0, min(spread, asked/spreadShare))
	}
	if limit > 0 {
		d = min(d, max(limit-h.failedFor, 0))
	}
	began := time.Now()
	p.report.waiting(s, began.Add(d))
	h.warned, h.cause = true, s.Cause.Err
	p.log.log(ctx, slog.LevelWarn, "trying again after a failure", "after", d, "error", s.Cause.Err)
	recovered := h.recovered // nil if the server has refused the request
	if s.Cause.RetryAfter > 0 {
		recovered = nil
	}
	ignored := min(max(time.Until(h.ignoreUntil), 0), d)
	wait.Sleep(ctx, ignored, nil)
	wait.Sleep(ctx, d-ignored, recovered)
	h.woken = time.Since(began) < d
	if h.failedFor += time.Since(began); limit > 0 && h.failedFor >= limit {
		return protocol.GaveUp{After: h.failedFor}
	}
	return protocol.Elapsed{}
}

// backoff returns the bounds of the random wait before a retry.
func backoff(s protocol.Waiting) (least, most time.Duration) {
	most = maxBackoff
	if s.Cause.Refused() {
		most = maxRefusedBackoff
	}
	most = wait.Raised(s.Attempt, firstBackoff, most)
	return most / 2, most
}

// watchingAgain logs the recovery from a failure that was logged.
func (p *pacing) watchingAgain(ctx context.Context, version string) {
	if p.health.warned {
		p.health.warned = false
		p.log.log(ctx, slog.LevelInfo, "watching again", "resourceVersion", version)
	}
}

// takeSlot takes a slot while a snapshot is read and delivered, to bound the memory of pages that wait for delivery. It
// gives the slot up before any other State, such as the wait after a failure.
func (p *pacing) takeSlot(ctx context.Context, s protocol.State) error {
	reads := false
	switch s := s.(type) {
	case protocol.Listing, protocol.ReadingInitial:
		reads = true
	case protocol.Connecting:
		reads = s.Initial()
	}
	if !reads {
		p.endSlot()
		return nil
	}
	if _, ok := s.(protocol.ReadingInitial); ok || p.lists == nil || !p.slot.IsOver() {
		return nil // a snapshot in progress continues, even if its slot is over
	}
	var err error
	p.slot, err = p.lists.Take(ctx)
	return err
}

// awaiting says that the Worker waits for the server, which ends a slot after a while. It returns the end of that.
func (p *pacing) awaiting() (answered func()) {
	p.slot.Await()
	return p.slot.Answered
}

func (p *pacing) endSlot() {
	p.slot.End()
	p.slot = nil
}

// mayReadAhead reports whether the next page may be requested while this one is delivered.
func (p *pacing) mayReadAhead() bool { return p.lists == nil || !p.slot.IsOver() }
