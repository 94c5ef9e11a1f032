package discovery

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"
)

// ChangesOptions are those of one range over Changes. The zero value is the
// default.
type ChangesOptions struct {
	// Poll says how long after a look to look again if nobody kicks; ten per cent more
	// or less. Nil, or an answer that is not positive, means 30 s; no answer means less
	// than 100 ms. A server that takes long to answer is asked less often.
	//
	// It is called by the goroutine that ranges, after each look and each Kick at
	// least, so it may answer something else as triggers come and go: a Kick makes
	// sure that the new answer holds at once. It must not wait.
	Poll func() time.Duration
}

func (o *ChangesOptions) poll() time.Duration {
	if o != nil && o.Poll != nil {
		if every := o.Poll(); every > 0 {
			return every
		}
	}
	return 30 * time.Second
}

// Changes tells what the server serves, over time: everything as Added, then
// Synced, then what changes. There is one entry for each group's resource,
// whatever the number of its versions, in the version that Watchables would choose
// or, if it can't be watched, in that which Resolve would. That the server serves
// other versions of it than before is told only if the chosen one is another.
//
// Unknown is not removed. While a group's API does not answer, its resources are
// Unknown, as is a resource whose version does not answer while another one
// does. One that was Added in another version, since the better one did not answer,
// is Changed once it does. While the whole server does not answer, or refuses,
// there is one Unknown about the server and nothing else. Each Unknown is ended:
// that of a resource by Known, Changed or Removed, all others by Known. An Unknown
// may come before Synced: of the server, and of APIs that are down at the start.
//
// A CRD that is being deleted loses its verbs create, update and patch first, so a
// Changed often comes before its Removed.
//
// It is told what looks at the server's discovery documents find, so it is not told
// what was changed and changed back between two looks, nor that a type was removed
// and added again (a watch on it will notice). Discovery lags behind serving, see
// Kick. And it is no wiser than the server: one that has just started may leave out
// CRDs until it is ready (kubernetes/kubernetes#89145) and aggregated APIs even
// longer (kubernetes/kubernetes#115303), and of several servers behind one address
// each has its own delay; so a Removed may be taken back by an Added.
//
// A range never ends by itself. The only error it yields is the cause of ctx, and
// that is the last thing it yields. Looks that fail are repeated after a random
// time that grows up to 30 s. All is done in the goroutine that ranges; while the
// loop body runs, nothing is asked for this range, and afterwards it is told the
// newest state at once. Many may range at the same time: each is told everything,
// and they share their looks, and those of Resolve, as Resolve says. A range begins
// with a look of its own, anew each time.
func (r *Resolver) Changes(ctx context.Context, opts *ChangesOptions) iter.Seq2[Change, error] {
	var o ChangesOptions
	if opts != nil {
		o = *opts
	}
	return func(yield func(Change, error) bool) {
		v := &view{}
		_, seen := r.known()
		for first := true; ; first = false {
			l, err := r.await(ctx, seen, first, &o)
			if err != nil {
				yield(Change{}, err)
				return
			}
			seen = l.number
			var changes []Change
			if l.err != nil {
				changes = v.failed(l.err)
			} else {
				changes = v.read(l.catalog)
			}
			for _, change := range changes {
				if err := context.Cause(ctx); err != nil {
					yield(Change{}, err)
					return
				}
				if !yield(change, nil) {
					return
				}
			}
		}
	}
}

// Kick says that the types have changed or will in a moment: an event of a CRD or
// an APIService has told so. It returns at once, and may be called for each event.
//
// What Resolve and Watchables know is forgotten. Ranges over Changes look 50 ms after
// the first kick of a burst, for the other events of the same change, and again
// 0.4, 1, 1.8, 3 and 6 s after the last one, because the server's discovery
// documents are made after the fact: a CRD is Established, and even served,
// before it is in them (by up to 1.7 s on an idle server, as was seen; see also
// kube-rs/kube#951). Whatever the number of kicks, there are no more than three
// looks a second, but for the first three, which may come at once. Where nobody
// ranges, nobody looks.
func (r *Resolver) Kick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outdated = r.looks
	r.pace.kick(time.Now())
	r.announce()
}

// await returns a look that ended, failed maybe, and has a higher number than
// seen. It looks itself when that is due.
func (r *Resolver) await(ctx context.Context, seen uint64, first bool, o *ChangesOptions) (*look, error) {
	jitter := 0.9 + 0.2*rand.Float64()
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		t := r.turn(seen, first, time.Duration(float64(o.poll())*jitter))
		if t.mine {
			r.run(ctx, t.look)
			continue
		}
		if t.look != nil {
			return t.look, nil
		}
		wait(ctx, t.news, t.due)
	}
}

// turn is what one who ranges has to do now.
type turn struct {
	look *look // to be told, or to be made
	mine bool  // to be made
	// Otherwise, what to wait for:
	news <-chan struct{}
	due  time.Time // zero while somebody looks
}

func (r *Resolver) turn(seen uint64, first bool, poll time.Duration) turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.last != nil && r.last.number > seen:
		// Also if a later one failed: that is told next.
		return turn{look: r.last}
	case r.newest != nil && r.newest.number > seen:
		return turn{look: r.newest}
	case r.running != nil:
		return turn{news: r.news}
	}
	if due := r.pace.next(poll); !first && due.After(time.Now()) {
		return turn{news: r.news, due: due}
	}
	return turn{look: r.begin(), mine: true}
}

func wait(ctx context.Context, news <-chan struct{}, due time.Time) {
	if !due.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, due)
		defer cancel()
	}
	select {
	case <-news:
	case <-ctx.Done():
	}
}
