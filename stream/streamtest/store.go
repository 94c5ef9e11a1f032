package streamtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// CheckStore checks that a [checkpoint.Store] does what its documentation demands. It returns nil, or a joined error
// with one error for each violation. open opens the Store: the first call finds it empty, each later one finds what was
// committed before. CheckStore calls open some tens of times, each time but one after Close. It leaves checkpoints
// behind.
//
//	err := streamtest.CheckStore(func() (checkpoint.Store, error) { return open(path) })
//
// These are checked:
//
//   - A commit is loaded as it was made, at once and after a reopen: all fields of the Identity, the flags, versions
//     that no float64 has, objects that differ only in their uid, and objects without a uid or a version. What a delta
//     leaves out is kept or replaced as [checkpoint.Delta] says, also in a random history of commits.
//   - Keys are kept apart, and so are objects, whatever characters are in a namespace, a name or a uid. Load of a key
//     without a checkpoint returns nil, before the first commit and after Delete.
//   - Of a commit of several keys all is made or nothing, also if its context ends meanwhile. A call whose context has
//     ended before changes nothing if it returns an error, and does not take an existing checkpoint for a missing one.
//   - A commit of 1,000 objects is made, and one that removes as many: a Tracker with the default Options commits that
//     many. So is one of 200 keys: a Tracker commits those of all its Streams at once. One of 5,000 objects with long
//     names, which is more than 1 MiB, is made, or returns an error and changes nothing.
//   - Committed is the time of the commit, to the hour, and the same at each Load.
//   - The caller may change what it has passed to Commit, and what Load has returned.
//   - A commit after Close is made, or returns an error that wraps os.ErrClosed.
//   - A Store that is opened a second time without Close, as after a kill, has all commits. It may be locked instead:
//     then open returns an error, or waits for Close, or gives up meanwhile. If both are open, a commit of the first is
//     made, or returns an error and changes nothing. A [*checkpoint.FencedError] comes again at the next commit.
//   - MarkUnclean and PositionsOnly do what the documentation of Store demands, if the Store has these methods.
//
// Not checked is what needs a medium that breaks: that Load of a damaged checkpoint returns an error, that a write that
// fails midway changes nothing, and that a commit survives a power failure. Of a Store that is locked until Close it is
// not checked either that its commits outlive a kill: one that writes only at Close passes. Of no Store it is checked
// that the mark of MarkUnclean outlives a kill, or that its checkpoints do not expire. What the process keeps between
// two calls of open counts as kept. With GOMAXPROCS=1 a context may not end in a commit. Calls are made one at a time,
// as a Tracker makes them. No call has a bound but the test's timeout.
func CheckStore(open func() (checkpoint.Store, error)) error {
	if open == nil {
		return errors.New("check a Store: invalid open: must not be nil")
	}
	c := &storeCheck{open: open, want: map[string]*checkpoint.Checkpoint{}, step: "the first open"}
	if !c.opens() {
		return errors.Join(c.errs...)
	}
	for _, s := range []struct {
		name string
		do   func(*storeCheck)
	}{
		{"an empty Store", checkEmpty},
		{"a commit", checkCommits},
		{"another commit", checkReplaces},
		{"a commit with Removed", checkRemoves},
		{"a commit with Reset", checkResets},
		{"Committed", checkCommitted},
		{"a commit again, as after an error", checkRepeats},
		{"the caller's changes", checkCopies},
		{"keys", checkKeys},
		{"Delete", checkDeletes},
		{"a context that has ended", checkEnded},
		{"a context that ends in a commit", checkEnds},
		{"a context that ends midway", checkEndsMidway},
		{"random commits", checkRandom},
		{"a large commit", checkLarge},
		{"MarkUnclean", checkUnclean},
		{"a commit after Close", checkClosed},
		{"a second open", checkKilled},
	} {
		if c.step = s.name; c.store != nil {
			s.do(c)
		}
	}
	if c.store != nil {
		c.fails("Close", c.store.Close())
	}
	return errors.Join(c.errs...)
}

// storeCheck compares a Store with what it should have.
type storeCheck struct {
	open  func() (checkpoint.Store, error)
	store checkpoint.Store                  // nil once it could not be opened again
	want  map[string]*checkpoint.Checkpoint // what Load should return, by key
	step  string                            // what is checked now
	errs  []error
}

// report adds a violation.
func (c *storeCheck) report(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("%s: %s", c.step, fmt.Sprintf(format, args...)))
}

// fails reports the error of a call, if it has one.
func (c *storeCheck) fails(call string, err error) bool {
	if err != nil {
		c.report("%s returns an error: %v", call, err)
	}
	return err != nil
}

// errNoStore is the error of an open that returns neither a Store nor an error.
var errNoStore = errors.New("invalid Store: must not be nil")

func isNotAStore(err error) bool { return errors.Is(err, errNoStore) }

// openOnce calls open. It returns a Store or an error.
func (c *storeCheck) openOnce() (checkpoint.Store, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	if v := reflect.ValueOf(s); s == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errNoStore
	}
	return s, nil
}

// opens opens the Store. If that fails, nothing more can be checked.
func (c *storeCheck) opens() bool {
	s, err := c.openOnce()
	c.store = s
	return !c.fails("open", err)
}

// reopens closes the Store, opens it again and verifies what it has.
func (c *storeCheck) reopens() {
	if c.store == nil {
		return
	}
	c.fails("Close", c.store.Close())
	if c.opens() {
		c.verify("after a reopen")
	}
}

// verify loads all checkpoints and compares them.
func (c *storeCheck) verify(when string) (ok bool) {
	ok = true
	for _, key := range slices.Sorted(maps.Keys(c.want)) {
		ok = c.verifyKey(when, key) && ok
	}
	return ok
}

// verifyKey reports how a checkpoint differs from what it should be, and goes on with what it is.
func (c *storeCheck) verifyKey(when, key string) (ok bool) {
	got, err := c.store.Load(context.Background(), key)
	if err != nil {
		c.report("%s: Load(%q) returns an error: %v", when, key, err)
		return false
	}
	if why := c.differs(c.want[key], got); why != "" {
		c.report("%s: Load(%q): %s", when, key, why)
		c.want[key] = clone(got)
		return false
	}
	return true
}

// commit commits copies of deltas, and expects them to be made.
func (c *storeCheck) commit(deltas ...checkpoint.Delta) (ok bool) {
	if c.store == nil || c.fails("Commit", c.store.Commit(context.Background(), copied(deltas))) {
		return false
	}
	applyTo(c.want, deltas)
	return true
}

// commitAndVerify commits deltas, and verifies them at once and after a reopen.
func (c *storeCheck) commitAndVerify(deltas ...checkpoint.Delta) {
	if c.commit(deltas...) {
		c.verify("at once")
		c.reopens()
	}
}

// isMade reports which of two states the Store has, and reports a violation if it has neither. The deltas of one commit
// lead from one to the other, which err says has failed.
func (c *storeCheck) isMade(when string, deltas []checkpoint.Delta, err error, mayBe bool) {
	made := maps.Clone(c.want)
	applyTo(made, deltas)
	olds, news := 0, 0
	for _, d := range deltas {
		got, err := c.store.Load(context.Background(), d.Key)
		if c.fails(when+": Load", err) {
			return
		}
		if c.differs(c.want[d.Key], got) == "" {
			olds++
		}
		if c.differs(made[d.Key], got) == "" {
			news++
		}
	}
	switch {
	case news == len(deltas) && (err == nil || mayBe):
		c.want = made // a new map: the caller may have kept the one before
	case news == len(deltas):
		c.report("%s: Commit returned an error (%v), and has been made: must change nothing", when, err)
		c.want = made
	case err == nil:
		c.report("%s: Commit returned no error, and %d of %d checkpoints have changed: must be all", when, news,
			len(deltas))
		c.resume(deltas)
	case olds < len(deltas):
		c.report("%s: Commit returned an error (%v), and %d of %d checkpoints have not changed: must be all or none",
			when, err, olds, len(deltas))
		c.resume(deltas)
	}
}

// resume goes on with what the Store has under the keys of deltas.
func (c *storeCheck) resume(deltas []checkpoint.Delta) {
	for _, d := range deltas {
		got, err := c.store.Load(context.Background(), d.Key)
		if err == nil {
			c.want[d.Key] = clone(got)
		}
	}
}

// secondOpen opens the Store although it is open. If open has not returned after a second, it waits for a lock: then
// later returns what it returns in the end. What that is depends on the first Store only once that is closed: nothing
// is committed meanwhile.
func (c *storeCheck) secondOpen() (s checkpoint.Store, later <-chan opened, err error) {
	done := make(chan opened, 1)
	go func() {
		s, err := c.openOnce()
		done <- opened{s, err}
	}()
	select {
	case o := <-done:
		return o.store, nil, o.err
	case <-time.After(time.Second):
		return nil, done, errors.New("open waits")
	}
}

type opened struct {
	store checkpoint.Store
	err   error
}
