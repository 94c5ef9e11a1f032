package explore

import (
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// Model is one state of what is explored. It must not change once it has been made.
type Model[M any] interface {
	// Steps yields each step that can be taken, always in the same order, and the state that it leads to.
	Steps() iter.Seq2[Step, M]
	// AppendKey appends what the future depends on: two states of one key can take the same steps, and the same
	// promises hold in what follows.
	AppendKey(to []byte) []byte
	// Check returns an error if what led to the state broke a promise.
	Check() error
	// Settle takes calm steps until there is none, and returns an error if that is not the end that was promised. It is
	// called where there is no calm step, and where a bound cuts the walk off.
	Settle() error
}

// Step is a step in words. One of the steps from a state may have a method Calm that returns true: it is what happens
// if nothing goes wrong any more. Calm steps lead from every state to one without, or the walk reports an error.
type Step = fmt.Stringer

func isCalm(s Step) bool {
	c, ok := s.(interface{ Calm() bool })
	return ok && c.Calm()
}

// Bounds end a walk before it has seen every state. Zero means no bound.
type Bounds struct {
	Depth  int // steps from the start
	States int // found
}

// Figures say how much a walk has seen.
type Figures struct {
	States, Steps int  // found and taken; several steps may lead to one state
	Depth         int  // steps of the longest shortest way to a state
	Whole         bool // no bound cut the walk off
	Took          time.Duration
}

func (f Figures) String() string {
	bound := "all of them"
	if !f.Whole {
		bound = "cut off there"
	}
	return fmt.Sprintf("%d states, %d steps, depth %d, %s, in %v",
		f.States, f.Steps, f.Depth, bound, f.Took.Round(10*time.Millisecond))
}

// Broken is a way to a state that breaks a promise. No way to such a state has fewer steps.
type Broken[M any] struct {
	Way []Taken[M]
	Err error
}

// Taken is a step of a way, and the state that it led to.
type Taken[M any] struct {
	Step Step
	To   M
}

func (b *Broken[M]) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "after %d steps:", len(b.Way))
	for _, t := range b.Way {
		fmt.Fprintf(&text, "\n\t%s", t.Step)
	}
	return fmt.Sprintf("%s\n%v", &text, b.Err)
}

// Walk takes every step from every state that can be reached from start, breadth first, and checks each state that it
// finds. It returns a *Broken[M] for the first state, in order of depth, that breaks a promise.
func Walk[M Model[M]](start M, bounds Bounds) (Figures, error) {
	began := time.Now()
	w := &walk[M]{start: start, seen: map[hash]uint32{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	level := w.add([]found[M]{{state: start, key: w.hash(start)}})
	err := w.check(level, M.Check)
	whole := true
	for whole && len(level) > 0 && err == nil {
		if whole = bounds.Depth == 0 || w.depth < bounds.Depth; !whole {
			break
		}
		if level, whole, err = w.level(level, bounds.States); len(level) > 0 {
			w.depth++
		}
	}
	if err == nil {
		err = w.settles()
	}
	if err == nil {
		err = w.check(level, M.Settle)
	}
	return Figures{len(w.nodes), w.steps, w.depth, whole, time.Since(began)}, err
}

// blockSize is how many states are expanded before those they lead to are compared with what was seen, which bounds
// the memory of duplicates.
const blockSize = 4096

type hash [2]uint64

// node is how a state was found. The states themselves are kept only as long as they have steps to take.
type node struct {
	from uint32 // the node before it
	step uint16 // the number of the step there
	calm uint32 // the node that the calm step leads to, or none
}

const none = math.MaxUint32

type found[M any] struct {
	state M
	key   hash
	node  uint32 // its own; before add the one before it
	step  uint16
	calm  bool // the step is calm
}

type walk[M Model[M]] struct {
	start M
	seen  map[hash]uint32 // the nodes
	seeds [2]maphash.Seed
	// buffers are those that keys are made in.
	buffers sync.Pool
	nodes   []node
	steps   int
	depth   int
}

func (w *walk[M]) hash(s M) hash {
	buffer, ok := w.buffers.Get().(*[]byte)
	if !ok {
		buffer = new([]byte)
	}
	*buffer = s.AppendKey((*buffer)[:0])
	key := hashOf(w.seeds, *buffer)
	w.buffers.Put(buffer)
	return key
}

func hashOf(seeds [2]maphash.Seed, key []byte) hash {
	return hash{maphash.Bytes(seeds[0], key), maphash.Bytes(seeds[1], key)}
}

// add keeps those that were not found before, as nodes.
func (w *walk[M]) add(all []found[M]) (fresh []found[M]) {
	for _, f := range all {
		before := f.node
		known, ok := w.seen[f.key]
		if !ok {
			known = uint32(len(w.nodes))
			w.seen[f.key] = known
			w.nodes = append(w.nodes, node{from: before, step: f.step, calm: none})
			f.node = known
			fresh = append(fresh, f)
		}
		if f.calm {
			w.nodes[before].calm = known
		}
	}
	return fresh
}

// level takes every step of the states of one depth, and returns the new states. Once there are as many states as the
// bound says, it leaves out the rest and returns false.
func (w *walk[M]) level(states []found[M], bound int) (next []found[M], whole bool, err error) {
	for block := range slices.Chunk(states, blockSize) {
		if bound > 0 && len(w.nodes) >= bound {
			return next, false, nil
		}
		reached, ends, err := w.expand(block)
		if err != nil {
			return next, false, err
		}
		fresh := w.add(reached)
		if err := w.check(ends, M.Settle); err != nil {
			return next, false, err
		}
		if err := w.check(fresh, M.Check); err != nil {
			return next, false, err
		}
		next = append(next, fresh...)
	}
	return next, true, nil
}

// expand takes every step of some states. ends are those without a calm step.
func (w *walk[M]) expand(block []found[M]) (next, ends []found[M], err error) {
	results := make([][]found[M], len(block))
	calm := make([]bool, len(block))
	err = w.each(block, func(i int, f found[M]) error {
		for step, s := range f.state.Steps() {
			is := isCalm(step) && !calm[i]
			calm[i] = calm[i] || is
			results[i] = append(results[i], found[M]{s, w.hash(s), f.node, uint16(len(results[i])), is})
		}
		return nil
	})
	for i, r := range results {
		w.steps += len(r)
		if next = append(next, r...); !calm[i] {
			ends = append(ends, block[i])
		}
	}
	return next, ends, err
}

// settles checks that calm steps lead to an end from everywhere, or to where the walk was cut off.
func (w *walk[M]) settles() error {
	const unknown, underway, ends = 0, 1, 2
	is := make([]byte, len(w.nodes))
	for n := range w.nodes {
		at := uint32(n)
		for at != none && is[at] == unknown {
			is[at] = underway
			at = w.nodes[at].calm
		}
		if at != none && is[at] == underway {
			return &Broken[M]{w.way(uint32(n)), errCircle}
		}
		for at = uint32(n); at != none && is[at] == underway; at = w.nodes[at].calm {
			is[at] = ends
		}
	}
	return nil
}

var errCircle = errors.New("though nothing goes wrong any more, it goes round in a circle")

func (w *walk[M]) check(states []found[M], f func(M) error) error {
	return w.each(states, func(_ int, s found[M]) error { return f(s.state) })
}

// each calls f for each state, several at a time, and returns the error of the first one that fails or panics.
func (w *walk[M]) each(states []found[M], f func(int, found[M]) error) error {
	errs := make([]error, len(states))
	var running sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), len(states))
	for worker := range workers {
		running.Go(func() {
			for i := worker; i < len(states); i += workers {
				errs[i] = safely(func() error { return f(i, states[i]) })
			}
		})
	}
	running.Wait()
	for i, err := range errs {
		if err != nil {
			return &Broken[M]{w.way(states[i].node), err}
		}
	}
	return nil
}

func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// way returns the steps to a node, by taking them again.
func (w *walk[M]) way(to uint32) (way []Taken[M]) {
	var numbers []uint16
	for ; to != 0; to = w.nodes[to].from {
		numbers = append(numbers, w.nodes[to].step)
	}
	at := w.start
	for _, number := range slices.Backward(numbers) {
		n := uint16(0)
		for step, next := range at.Steps() {
			if n == number {
				way, at = append(way, Taken[M]{step, next}), next
				break
			}
			n++
		}
	}
	return way
}
