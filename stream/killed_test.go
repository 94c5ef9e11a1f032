package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestRandomKills runs programs that watch random histories under random faults, ack in random order, commit from
// time to time, and are killed and started again. It checks each run against every promise. In the end the events
// acked over all runs must add up to the objects on the server.
//
//	go test ./stream -run TestRandomKills -seed 4711 -v
func TestRandomKills(t *testing.T) {
	(historySeeds / 4).Run(t, func(t *testing.T, n uint64) {
		synctest.Test(t, func(t *testing.T) {
			p := &killedProgram{
				randomRun: newRandomRun(t, rand.New(rand.NewPCG(n, 7))),
				store:     &checkpoint.Memory{},
				handled:   map[types.UID]string{},
			}
			p.run()
		})
	})
}

// killedProgram runs several times.
type killedProgram struct {
	*randomRun
	now       bool // starts at stream.Now
	positions bool // the Store keeps no objects

	marks     bool // the Store can be marked while commits fail
	marked    bool // it is
	unwritten bool // a commit failed, and the Store can't be marked
	lost      bool // a GAP reported lost history
	rewound   bool // the server went back in time between two runs
	store     *checkpoint.Memory
	handled   map[types.UID]string // resourceVersions of the objects that exist according to the acked events
	log       []string
}

func (p *killedProgram) run() {
	for range p.IntN(30) {
		p.write()
	}
	p.choose()
	p.options.FailOnGap = false
	if p.now = p.chance(15); p.now {
		p.options.Start = stream.Now()
	}
	p.positions = p.chance(15)
	p.marks = p.chance(50)
	p.lost = p.positions && p.options.Select != nil // an object may leave the selection unreported
	if p.now {
		p.handled = nil // objects that existed before, or deletions, need not be delivered
	}
	for range 1 + p.IntN(5) {
		scripts := p.script // may still contain faults to come
		p.faults()
		p.script = scripts + p.script
		p.runOnce(false)
		for range p.IntN(3) {
			p.writes()
			if p.chance(40) {
				p.do("compact")
			}
		}
	}
	if back := p.rewindDistance(); back > 0 && p.chance(30) {
		p.rewound = true
		p.do("heal") // a run that the server refuses would not see the rewind
		p.do(fmt.Sprint("rewind ", back+p.IntN(3)))
	}
	for !p.runOnce(true) && !p.Failed() { // the server refused it: start again
		if len(p.srv.History(p.r, &p.scope.Options).Rewinds) > 0 {
			return // perhaps no run has seen the rewind
		}
		p.do("heal")
	}
	if p.handled == nil || p.Failed() {
		return
	}
	h := p.srv.History(p.r, &p.scope.Options)
	exist := map[types.UID]string{}
	for _, o := range h.At(len(h.Rewinds), "1000000000") {
		if p.options.Select == nil || p.options.Select(o) {
			exist[o.GetUID()] = o.GetResourceVersion()
		}
	}
	for uid, rv := range exist {
		if p.handled[uid] != rv {
			p.Errorf("%s is at %s, the last event handled is at %q", uid, rv, p.handled[uid])
		}
	}
	for uid, rv := range p.handled {
		if p.unwritten || p.lost {
			break // deletions of objects that could not be written ahead may be lost
		}
		if _, ok := exist[uid]; !ok {
			p.Errorf("%s is deleted, the last event handled is at %s", uid, rv)
		}
	}
	if p.Failed() {
		p.Logf("%s\n\nhistory:\n%s", strings.Join(p.log, "\n"), historyText(h))
	}
}

func (k *killable) isKilled() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.killed
}

// rewindDistance returns how many versions the server must go back to be behind the checkpoint.
func (p *killedProgram) rewindDistance() int {
	saved, err := p.store.Load(p.Context(), "widgets.example.com")
	if err != nil {
		p.Fatal(err)
	}
	if saved == nil || len(saved.Position.ResourceVersions) < max(1, len(p.options.Namespaces)) {
		return 0
	}
	now, back := number(p, p.srv.ResourceVersion()), 0
	for _, rv := range saved.Position.ResourceVersions {
		if rv == "" || rv == "1" {
			return 0 // inside a snapshot, or the server would be at version 0
		}
		back = max(back, now-number(p, rv)+1)
	}
	return back
}

func number(p *killedProgram, rv string) int {
	n, err := strconv.Atoi(rv)
	if err != nil {
		p.Fatal(err)
	}
	return n
}

// killable is a Store that a killed program can no longer reach.
type killable struct {
	checkpoint.Store
	mu     sync.Mutex
	killed bool
	fails  *rand.Rand // decides which commits fail; nil for none
	failed atomic.Bool
	// before is what Load returns until a commit has succeeded, if the killed program has left the Store marked.
	before *checkpoint.Checkpoint
}

func (k *killable) Load(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.before != nil {
		return k.before, nil
	}
	return k.Store.Load(ctx, key)
}

func (k *killable) Commit(ctx context.Context, deltas []checkpoint.Delta) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.killed:
		return &checkpoint.FencedError{Store: "the store", Holder: "the next run"}
	case k.fails != nil && k.fails.IntN(2) == 0:
		k.failed.Store(true)
		return errors.New("the disk is full")
	}
	k.before = nil
	return k.Store.Commit(ctx, deltas)
}

// markable is a Store with a mark, which outlasts the program.
type markable struct {
	*killable
	marked *bool
}

func (m markable) Commit(ctx context.Context, deltas []checkpoint.Delta) error {
	inherited := m.before != nil
	err := m.killable.Commit(ctx, deltas)
	if err == nil && inherited {
		*m.marked = false
	}
	return err
}

func (m markable) MarkUnclean(_ context.Context, unclean bool) error {
	if m.isKilled() {
		return errors.New("the program is killed")
	}
	*m.marked = unclean || m.before != nil
	return nil
}

func (k *killable) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.killed = true
}

// runOnce runs the program until it is killed, or, if last, until nothing changes any more. It returns false if the
// server refused the last run.
func (p *killedProgram) runOnce(last bool) bool {
	before, err := p.store.Load(p.Context(), "widgets.example.com")
	if err != nil {
		p.Fatal(err)
	}
	earlier := len(p.srv.Requests()) // by the runs before
	others := rand.New(rand.NewPCG(p.Uint64(), 9))
	noWriteAhead := p.chance(20)
	k := &killable{Store: p.store}
	var store checkpoint.Store = k
	switch {
	case p.positions:
		store = positionsOnly{k}
	case p.marks:
		store = markable{k, &p.marked}
		if p.marked {
			unclean := checkpoint.Checkpoint{}
			if before != nil {
				unclean = *before
			}
			unclean.Position.Unclean = true
			k.before, before = &unclean, &unclean
		}
	}
	if p.chance(20) {
		k.fails = rand.New(rand.NewPCG(p.Uint64(), 10))
	}
	defer func() { p.unwritten = p.unwritten || k.failed.Load() && (p.positions || !p.marks) }()
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{
		Cluster:  checkpoint.Cluster{UID: "test"},
		Interval: time.Duration(1+p.IntN(20)) * time.Second, Events: 1 + p.IntN(20),
		NoWriteAhead: noWriteAhead,
	})
	if err != nil {
		p.Fatal(err)
	}
	p.options.Checkpoint = tracker
	check := p.check
	check.Complete = last
	switch {
	case before != nil:
		check.From = &before.Position
	case p.now:
		check.Now = true
	}
	lifetime := p.IntN(20)
	if p.options.Until = ""; !last && !p.now && lifetime%4 == 1 {
		p.options.Until, check.UntilSynced = stream.UntilSynced, true
	}
	s := streamOf(p.T, p.client(), p.r, &p.options)
	p.replayable(s)
	ctx, cancel := context.WithCancelCause(p.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		if p.rewound {
			time.Sleep(5 * time.Minute) // for a probe, before the server passes its old version again
		}
		switch {
		case last:
			p.live()
		default:
			for range lifetime {
				p.sleep(p.pickInt(1, 1, 5, 60))
				p.writes()
			}
		}
		if !last {
			k.kill()
		}
		cancel(errTimeUp)
	})
	var events []stream.Event
	acked := map[int]int{} // how many events were delivered before the ack
	var pool []int
	ordered, lazy := others.IntN(2) == 0, others.IntN(100)
	for ev, err := range s.Events(ctx) {
		if err != nil {
			if err != errTimeUp {
				check.Complete = false
				if refused := (*stream.RequestError)(nil); !errors.As(err, &refused) || synced(events) {
					p.Errorf("the run ended with %v", err)
				}
			}
			break
		}
		if k.isKilled() {
			break // a killed program receives nothing
		}
		if ev.JSON != nil {
			if ev.Object, err = ev.Decode(); err != nil {
				p.Fatal(err)
			}
			ev.JSON = nil
		}
		p.lost = p.lost || ev.Type == stream.Gap && ev.Gap.HistoryLost
		if ev.Type == stream.Added && p.handled != nil && !k.failed.Load() && !noWriteAhead && !p.positions {
			p.mustBeWrittenAhead(ev)
		}
		events = append(events, ev)
		pool = append(pool, len(events)-1)
		for len(pool) > 0 && (last || others.IntN(100) >= lazy) {
			i := 0
			if !ordered {
				i = others.IntN(len(pool))
			}
			events[pool[i]].Ack()
			acked[pool[i]] = len(events)
			pool = append(pool[:i], pool[i+1:]...)
		}
	}
	writer.Wait()
	if last && len(pool) == 0 && k.fails == nil && synced(events) && p.handled != nil {
		p.mustHaveNoPending(tracker)
		if p.Failed() {
			p.Logf("%s\n---\n%s", strings.Join(p.log, "\n"), strings.Join(oracle.Texts(events), "\n"))
		}
	}
	k.kill()
	_ = tracker.Close() // commits nothing: the store is killed
	after, err := p.store.Load(p.Context(), "widgets.example.com")
	if err != nil {
		p.Fatal(err)
	}
	if k.before != nil { // no commit has succeeded: the Store is still marked
		after = k.before
	}
	for i, ev := range events {
		text := oracle.TextUID(ev)
		if acked[i] > 0 {
			text += " (acked)"
			p.handle(ev)
		}
		p.log = append(p.log, text)
	}
	p.log = append(p.log, fmt.Sprintf("--- killed with %+v", after))
	h := p.srv.History(p.r, &p.scope.Options)
	err = errors.Join(
		streamtest.Check(h, events, &check),
		oracle.CheckRequests(h.Requests[earlier:]),
		p.checkSaved(before, after, events, acked, check, k),
	)
	if err != nil {
		p.Errorf("%v\n\noptions: %+v\nscript:\n%sacts: %q\nbefore: %+v\n\ndelivered:\n%s\n\nhistory:\n%s",
			err, p.options, p.script, p.acts, before, strings.Join(p.log, "\n"), historyText(h))
	}
	return check.Complete == last
}

// positionsOnly is a Store that keeps no objects, like the one in checkpoint/configmap.
type positionsOnly struct{ checkpoint.Store }

func (positionsOnly) PositionsOnly() {}

// mustBeWrittenAhead checks that the store has an entry for an object before the object is delivered as ADDED.
func (p *killedProgram) mustBeWrittenAhead(ev stream.Event) {
	saved, err := p.store.Load(p.Context(), "widgets.example.com")
	if err != nil {
		p.Fatal(err)
	}
	same := func(o checkpoint.Object) bool { return o.UID == ev.Object.GetUID() }
	if saved == nil || !slices.ContainsFunc(saved.Position.Objects, same) {
		p.Errorf("the store has no entry for %s, which is delivered", ev)
	}
}

// mustHaveNoPending checks that no entry is pending once every event has been acked.
func (p *killedProgram) mustHaveNoPending(tracker *checkpoint.Tracker) {
	noError(p.T, tracker.Flush(p.Context()))
	saved, err := p.store.Load(p.Context(), "widgets.example.com")
	if err != nil {
		p.Fatal(err)
	}
	for _, o := range saved.Position.Objects {
		if o.ResourceVersion == "" {
			p.Errorf("everything is acked, but %+v is still pending", o)
		}
	}
}

// checkSaved compares the checkpoint with the events that were delivered and acked.
func (p *killedProgram) checkSaved(
	before, after *checkpoint.Checkpoint, events []stream.Event, acked map[int]int, opts streamtest.CheckOptions,
	k *killable,
) error {
	run := oracle.CheckpointRun{Events: events, Acked: func(i int) bool { return acked[i] > 0 }, Options: opts}
	run.Options.From, run.PositionsOnly = nil, p.positions
	if before != nil {
		run.Before = &before.Position
	}
	if after != nil {
		run.After = &after.Position
	}
	if err := oracle.CheckCheckpoint(run); err != nil || k.failed.Load() {
		return err
	}
	return oracle.CheckSyncedIsCommitted(run, func(i int) int { return acked[i] })
}

// handle applies an acked event, as a relay would.
func (p *killedProgram) handle(ev stream.Event) {
	switch {
	case p.handled == nil:
	case ev.Type == stream.Added, ev.Type == stream.Modified:
		p.handled[ev.Object.GetUID()] = ev.ResourceVersion
	case ev.Type == stream.Deleted:
		delete(p.handled, ev.Object.GetUID())
	}
}
