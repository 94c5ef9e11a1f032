package controller

import (
	"cmp"
	"log/slog"
	"strconv"

	"k8s.io/client-go/util/workqueue"

	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Options configure [Run]. The zero value is the default.
type Options struct {
	// Workers is the number of reconciles that run at once, each of another key: at most 10,000. Zero means 1.
	Workers int
	// KeyFunc returns the keys that an event of an object leads to; none if the event is of no interest. It runs in
	// the loop over the sequence. A panic of it ends the run with a [*stream.PanicError]. Nil means [KeyOf]. See
	// [ControllerOf] for owners. The strings of an event's object are parts of longer ones, which a key with one of
	// them retains: use KeyOf, or strings.Clone.
	KeyFunc func(stream.Event) []Key
	// KeysOnly retains nothing of an object: reconcile gets the key and a zero Event.
	KeysOnly bool
	// MaxPending is the number of keys that may wait for a successful reconcile, each with its newest event. While
	// there are so many, Run takes no event of another key, and so the server waits. Keys whose reconcile fails count,
	// so that Run waits if so many fail. Keys that wait for RequeueAfter do not count. The keys of one event are taken
	// together, so that there may be a few more. With a checkpoint, Run also waits while 16 times as many pairs of
	// event and key are not acked. Zero means 10,000.
	MaxPending int
	// RateLimiter decides how long a key waits after a failure. It must not be shared with another run. Nil means
	// workqueue.DefaultTypedControllerRateLimiter: 5 ms, doubled by each failure in a row, up to 1,000 s; and for all
	// keys together 10 per second after the first 100. A new event of the key ends the wait.
	RateLimiter workqueue.TypedRateLimiter[Key]
	// Name is the name of the queue in client-go's workqueue metrics. Empty means no metrics.
	Name string
	// Logger receives failed reconciles, with the stack of a panic, and GAPs with HistoryLost (Warn). Nil disables
	// logging: then failures and panics are silent.
	Logger *slog.Logger
}

const (
	defaultMaxPending = 10_000
	acksPerKey        = 16
	maxWorkers        = 10_000
)

// check returns a copy with the defaults.
func (o *Options) check() (Options, error) {
	checked := *cmp.Or(o, &Options{})
	err := cmp.Or(invalid.Negative("Workers", checked.Workers), invalid.Negative("MaxPending", checked.MaxPending))
	if checked.Workers > maxWorkers {
		err = invalid.New("Workers", strconv.Itoa(checked.Workers), "must be at most "+strconv.Itoa(maxWorkers))
	}
	checked.Workers = cmp.Or(checked.Workers, 1)
	checked.MaxPending = cmp.Or(checked.MaxPending, defaultMaxPending)
	if checked.KeyFunc == nil {
		checked.KeyFunc = func(ev stream.Event) []Key { return []Key{KeyOf(ev)} }
	}
	if checked.RateLimiter == nil {
		checked.RateLimiter = workqueue.DefaultTypedControllerRateLimiter[Key]()
	}
	checked.Logger = cmp.Or(checked.Logger, slog.New(slog.DiscardHandler))
	return checked, err
}
