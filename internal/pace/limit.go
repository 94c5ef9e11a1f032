package pace

import (
	"context"
	"slices"
	"sync"
	"time"
)

// DefaultRate is the number of requests per second while requests fail.
const DefaultRate = 50

// wellShare says which seconds the server answers well in: at most one answer in wellShare+1 is a failure.
const wellShare = 4

// maxDoublings is how often the limit doubles until there is none.
const maxDoublings = 10

// limit bounds the number of requests in any second. If the number is 0, nothing is bounded.
type limit struct {
	rate int // the number after a failure

	mu       sync.Mutex
	number   int
	unproven bool        // nothing has been answered yet: the first good answer ends the limit
	sent     []time.Time // of the requests in the last second, if there is a limit
	answers  answers

	queues [2]queue    // of requests that wait: first those of Sender.Next
	timer  *time.Timer // until the next one may be sent; nil if none waits

	failure   error         // the last answer, if it was one
	recovered chan struct{} // closed by the next good answer; nil if the last answer was good
}

// queue has a channel for each request that waits. It is closed when the request may be sent.
type queue []chan struct{}

// answers counts the answers in a second.
type answers struct {
	since     time.Time
	good, bad int
}

func newLimit(rate int) *limit {
	return &limit{rate: rate, number: rate, unproven: true}
}

// wait waits until a request may be sent, or ctx ends. One that is next is sent before the others.
func (l *limit) wait(ctx context.Context, next bool, report func(Delay)) {
	q := &l.queues[1]
	if next {
		q = &l.queues[0]
	}
	l.mu.Lock()
	if l.waiting() == nil && l.admit() {
		l.mu.Unlock()
		return
	}
	delay := Delay{Bad, l.failure, time.Now().Add(l.delay())}
	turn := make(chan struct{})
	*q = append(*q, turn)
	if l.timer == nil {
		l.timer = time.AfterFunc(l.delay(), l.next)
	}
	l.mu.Unlock()
	if delay.Cause != nil {
		report(delay)
	}
	select {
	case <-turn:
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.Index(*q, turn); i >= 0 {
			*q = slices.Delete(*q, i, i+1)
		}
	}
}

// waiting returns the queue of the request that is sent next, or nil if none waits.
func (l *limit) waiting() *queue {
	for i := range l.queues {
		if len(l.queues[i]) > 0 {
			return &l.queues[i]
		}
	}
	return nil
}

// admit counts a request if it may be sent now.
func (l *limit) admit() bool {
	now := time.Now()
	if l.adjust(now); l.number == 0 {
		return true
	}
	for len(l.sent) > 0 && now.Sub(l.sent[0]) >= time.Second {
		l.sent = l.sent[1:]
	}
	if len(l.sent) >= l.number {
		return false
	}
	l.sent = append(l.sent, now)
	return true
}

// delay returns the time until a request may be sent, if none may now.
func (l *limit) delay() time.Duration { return time.Until(l.sent[0].Add(time.Second)) }

// adjust changes the number at the end of a second, by the answers in it.
func (l *limit) adjust(now time.Time) {
	if now.Sub(l.answers.since) < time.Second {
		return
	}
	switch a := l.answers; {
	case a.bad > a.good && l.number > 0:
		l.number = l.rate
	case a.good > 0 && a.bad <= a.good/wellShare:
		l.number *= 2
	}
	if l.number > l.rate<<maxDoublings {
		l.number, l.sent = 0, nil
	}
	l.answers = answers{since: now}
}

// next sends requests that wait, as many as the limit allows.
func (l *limit) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release()
}

func (l *limit) release() {
	q := l.waiting()
	for ; q != nil && l.admit(); q = l.waiting() {
		close((*q)[0])
		*q = (*q)[1:]
	}
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if q != nil {
		l.timer = time.AfterFunc(l.delay(), l.next)
	}
}

// failed counts a failure. It returns a channel that is closed by the next good answer.
func (l *limit) failed(err error) (recovered <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers.bad++
	l.begin()
	l.unproven, l.failure = false, err
	if l.recovered == nil { // made here and not with the Client, which may be from outside of a synctest bubble
		l.recovered = make(chan struct{})
	}
	return l.recovered
}

// succeeded counts a good answer.
func (l *limit) succeeded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers.good++
	if l.unproven {
		l.unproven, l.number, l.sent = false, 0, nil
		l.release()
	}
	l.failure = nil
	if l.recovered != nil {
		close(l.recovered)
		l.recovered = nil
	}
}

// broken counts a watch that has ended too early: others may end with it, and begin again at the same time.
func (l *limit) broken() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin()
}

// begin begins to limit, if there is no limit.
func (l *limit) begin() {
	if l.number == 0 {
		l.number, l.answers = l.rate, answers{since: time.Now()}
	}
}
