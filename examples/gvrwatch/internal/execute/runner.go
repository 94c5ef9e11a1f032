package execute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Options configure a Runner. Command, Out, ErrOut and Failed are required.
type Options struct {
	Command string // a command line of the shell
	Workers int    // how many commands run at once; at least 1
	Retries int    // how often a command that fails is run again; 0 means until it succeeds
	Timeout time.Duration
	Out     io.Writer // gets whole lines of the commands' stdout
	ErrOut  io.Writer // and of their stderr
	// Failed is called after each failure, perhaps by several goroutines at once. The next try begins after the pause.
	Failed func(e Event, err error, pause time.Duration)
	// Ended is called once when no event can be handled any more, with what Run and Drain return. It must not call the
	// Runner.
	Ended func(error)
}

// Event is what a command handles.
type Event struct {
	Key      string   // of the object: events with the same key are handled in order
	Document []byte   // standard input
	Env      []string // added to the environment, as KEY=VALUE
	Done     func()   // called when the command has ended with status 0
}

// What may wait for a command or be handled is 1,000 events, and about 64 MB of documents. Then Run blocks, so the
// server waits. A document that is larger passes when there is no other.
const (
	maxWaiting = 1000
	leastSize  = 64 << 10 // what a document counts at least
	maxSize    = maxWaiting * leastSize
)

// FailedError reports an event whose command has failed after all its retries.
type FailedError struct {
	Key string
	Err error // of the last try
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("the command failed for %s, and no try is left: %v", e.Key, e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }

// Runner runs commands until Close.
type Runner struct {
	options Options
	ready   chan string // keys whose first event can be handled; never full
	end     context.CancelFunc
	workers sync.WaitGroup
	out     lines
	errOut  lines

	mu     sync.Mutex
	queues map[string][]*attempt // by key; none is empty
	size   int                   // of the events in queues
	freed  chan struct{}         // closed, and replaced, when size becomes less
	timers map[*time.Timer]bool  // of retries
	failed chan struct{}         // closed when err is set
	err    error
}

// attempt is an event, and how often its command has failed.
type attempt struct {
	event    Event
	failures int
	backoff  wait.Backoff
}

// New starts a Runner. When ctx ends, it ends the commands and runs no others. The caller must call Close.
func New(ctx context.Context, o Options) *Runner {
	ctx, end := context.WithCancel(ctx)
	r := &Runner{
		options: o, ready: make(chan string, maxWaiting), end: end, freed: make(chan struct{}),
		out: lines{w: o.Out}, errOut: lines{w: o.ErrOut},
		queues: map[string][]*attempt{}, timers: map[*time.Timer]bool{}, failed: make(chan struct{}),
	}
	for range max(o.Workers, 1) {
		r.workers.Go(func() { r.work(ctx) })
	}
	return r
}

func (e Event) size() int { return max(len(e.Document), leastSize) }

// Run adds an event. It blocks while 1,000 events or 64 MB of documents wait. It returns the cause of ctx, a
// [*FailedError], or an error of Options.Out or Options.ErrOut, which ends the Runner.
func (r *Runner) Run(ctx context.Context, e Event) error {
	return r.await(ctx, func() bool {
		if r.size > 0 && r.size+e.size() > maxSize {
			return false
		}
		r.size += e.size()
		a := &attempt{event: e, backoff: wait.Backoff{
			Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 1 << 20, Cap: time.Minute,
		}}
		if r.queues[e.Key] = append(r.queues[e.Key], a); len(r.queues[e.Key]) == 1 {
			r.ready <- e.Key
		}
		return true
	})
}

// Drain waits until all events have been handled. It returns the same errors as Run.
func (r *Runner) Drain(ctx context.Context) error {
	return r.await(ctx, func() bool { return r.size == 0 })
}

// await calls done, with r.mu locked, until it returns true: again whenever an event has been handled.
func (r *Runner) await(ctx context.Context, done func() bool) error {
	for {
		r.mu.Lock()
		freed, err := r.freed, r.err
		ended := err == nil && done()
		r.mu.Unlock()
		if err != nil || ended {
			return err
		}
		select {
		case <-freed:
		case <-r.failed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close ends the commands that run, and waits for them. Their events, and those that wait, are not done.
func (r *Runner) Close() {
	r.end()
	r.workers.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.timers {
		t.Stop()
	}
}

func (r *Runner) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-r.ready:
			r.mu.Lock()
			a := r.queues[key][0]
			r.mu.Unlock()
			err := r.execute(ctx, a.event)
			if ctx.Err() != nil && err != nil {
				return // the end has ended the command
			}
			r.ended(a, err)
		}
	}
}

// ended makes way for the next event of the object, or tries again later.
func (r *Runner) ended(a *attempt, err error) {
	if err == nil {
		a.event.Done()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.queues[a.event.Key] = r.queues[a.event.Key][1:]; len(r.queues[a.event.Key]) > 0 {
			r.ready <- a.event.Key
		} else {
			delete(r.queues, a.event.Key)
		}
		r.size -= a.event.size()
		close(r.freed)
		r.freed = make(chan struct{})
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.failures++
	var lost *outputError
	switch {
	case errors.As(err, &lost):
		r.fail(lost.error)
		return
	case a.failures > r.options.Retries && r.options.Retries > 0:
		r.fail(&FailedError{a.event.Key, err})
		return
	}
	pause := a.backoff.Step()
	r.options.Failed(a.event, err, pause)
	var t *time.Timer
	t = time.AfterFunc(pause, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.timers, t)
		r.ready <- a.event.Key
	})
	r.timers[t] = true
}

// fail ends the Runner with an error. r.mu is locked.
func (r *Runner) fail(err error) {
	if r.err == nil {
		r.err = err
		close(r.failed)
		if r.options.Ended != nil {
			r.options.Ended(err)
		}
	}
}

// execute runs the command for an event.
func (r *Runner) execute(ctx context.Context, e Event) error {
	if r.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.options.Timeout, errTimeout)
		defer cancel()
	}
	out, errOut := r.out.writer(), r.errOut.writer()
	err := run(ctx, r.options.Command, e, out, errOut)
	if context.Cause(ctx) == errTimeout {
		err = errTimeout
	}
	return errors.Join(err, out.flush(), errOut.flush())
}

var errTimeout = errors.New("it was ended after its time limit")
