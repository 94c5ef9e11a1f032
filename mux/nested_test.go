package mux_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// keyed is a Mux as a source of another one.
type keyed struct {
	*mux.Mux
	key string
}

func (k keyed) Key() string { return k.key }

// TestMuxIsASourceOnce: a Mux has one loop at a time, so two sources can't share it.
func TestMuxIsASourceOnce(t *testing.T) {
	of := func(sources ...mux.Source) *mux.Mux {
		m, err := mux.New(nil, sources...)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	inner := of()
	for _, tc := range []struct {
		why           string
		first, second *mux.Mux
		refused       bool
	}{
		{"two", of(), of(), false},
		{"the same", inner, inner, true},
		{"a source of the first", of(keyed{inner, "x"}), inner, true},
		{"the first is a source of it", inner, of(keyed{inner, "x"}), true},
	} {
		m := of(keyed{tc.first, "a"})
		err := m.Add(keyed{tc.second, "b"}, nil)
		if bad := (*stream.OptionsError)(nil); errors.As(err, &bad) != tc.refused || err == nil == tc.refused {
			t.Errorf("%s: %v, refused must be %v", tc.why, err, tc.refused)
		}
		if m.Remove("a"); tc.refused {
			if err := m.Add(keyed{tc.second, "b"}, nil); err != nil {
				t.Errorf("%s: after Remove: %v", tc.why, err)
			}
		}
	}
}

// hidden is a source that has a Mux, and nothing of it but its events.
type hidden struct{ of keyed }

func (h hidden) Key() string { return h.of.key }

func (h hidden) Events(ctx context.Context) iter.Seq2[stream.Event, error] { return h.of.Events(ctx) }

// stepwise is a source that emits an event each time the test sends one, or its error.
type stepwise struct {
	key  string
	next chan stream.Event
}

func (s stepwise) Key() string { return s.key }

var errStep = errors.New("the test says so")

func (s stepwise) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		for {
			select {
			case ev := <-s.next:
				if ev.Type == "" {
					yield(ev, errStep)
					return
				}
				if !yield(ev, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// nested has the sources a and b in one Mux, which is a source of another, beside c.
type nested struct {
	inner, outer *mux.Mux
	sources      map[string]stepwise
}

func newNested(t *testing.T, o mux.Options, wrap func(keyed) mux.Source) nested {
	n := nested{sources: map[string]stepwise{}}
	for _, key := range []string{"a", "b", "c", "d"} {
		n.sources[key] = stepwise{key, make(chan stream.Event)}
	}
	o.OnError = func(string, error) mux.Decision { return mux.Retry }
	n.inner = newMux(t, &o, n.sources["a"], n.sources["b"])
	n.outer = newMux(t, &o, wrap(keyed{n.inner, "inner"}), n.sources["c"])
	return n
}

// step does what a word says: "a+" makes a SYNCED, "a-" a GAP, "a!" an error, "a=" a change, "remove a", "add d".
func (n nested) step(t *testing.T, what string) {
	var key string
	switch _, err := fmt.Sscanf(what, "remove %s", &key); {
	case err == nil:
		n.inner.Remove(key)
		return
	}
	if _, err := fmt.Sscanf(what, "add %s", &key); err == nil {
		add(t, n.inner, n.sources[key], nil)
		return
	}
	ev := map[byte]stream.Event{
		'+': synced(), '-': {Type: stream.Gap, Gap: &stream.GapDetails{}}, '!': {}, '=': modified("o", "1"),
	}[what[1]]
	n.sources[what[:1]].next <- ev
}

// TestNestedMuxIsSyncedWhenItsSourcesAre: AllSynced of a Mux counts what is a source of its sources.
func TestNestedMuxIsSyncedWhenItsSourcesAre(t *testing.T) {
	wraps := map[string]func(keyed) mux.Source{
		"embedded": func(k keyed) mux.Source { return k },
		"hidden":   func(k keyed) mux.Source { return hidden{k} },
		"twice": func(k keyed) mux.Source {
			return keyed{newMux(t, nil, k), "middle"}
		},
	}
	tests := []struct {
		steps  []string
		synced []bool // after each step
		asked  bool   // only a Mux that is embedded can be asked
		why    string
	}{
		{[]string{"a+", "c+", "b=", "b+"}, []bool{false, false, false, true}, false,
			"the first SYNCED of the inner Mux is not that of all"},
		{[]string{"b+", "a+", "c+"}, []bool{false, false, true}, false, "the outer one has a source of its own"},
		{[]string{"a+", "b+", "c+", "b-", "a+", "b+"}, []bool{false, false, true, false, false, true}, false,
			"the SYNCED of a does not end the GAP of b"},
		{[]string{"a+", "b+", "c+", "b-", "c-", "b+", "c+"},
			[]bool{false, false, true, false, false, false, true}, false, "GAPs of both"},
		{[]string{"a+", "c+", "remove b"}, []bool{false, false, true}, true, "nobody waits for what is removed"},
		{[]string{"a+", "b+", "c+", "add d", "d=", "d+"}, []bool{false, false, true, false, false, true}, true,
			"what is added is not synced yet"},
		{[]string{"a+", "b+", "c+", "a!", "b=", "a+"}, []bool{false, false, true, false, false, true}, true,
			"a source that failed begins again"},
		{[]string{"a+", "b+", "c+", "remove a", "b-", "b+"}, []bool{false, false, true, true, false, true}, false,
			"what was removed does not count"},
	}
	for name, wrap := range wraps {
		for _, overflow := range []mux.Overflow{mux.Block, mux.Latest} {
			for _, tt := range tests {
				if tt.asked && name == "hidden" {
					continue
				}
				t.Run(fmt.Sprintf("%s %s %s", name, overflow, tt.why), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						n := newNested(t, mux.Options{Overflow: overflow}, wrap)
						go func() {
							for range n.outer.Events(t.Context()) {
							}
						}()
						var got []bool
						for _, step := range tt.steps {
							n.step(t, step)
							synctest.Wait()
							all, _ := n.outer.Synced(friend.Access{})
							if st := n.outer.Status(); st.AllSynced != all {
								t.Errorf("after %s AllSynced is %t, Synced returns %t", step, st.AllSynced, all)
							}
							got = append(got, all)
						}
						if diff := cmp.Diff(tt.synced, got); diff != "" {
							t.Errorf("%s: %v (-want +got):\n%s", tt.why, tt.steps, diff)
						}
					})
				})
			}
		}
	}
}

// TestNestedMuxIsNotSyncedBeforeTheLoopIs: SYNCED counts when the loop receives it.
func TestNestedMuxIsNotSyncedBeforeTheLoopIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNested(t, mux.Options{}, func(k keyed) mux.Source { return k })
		go func() {
			for _, step := range []string{"c+", "a=", "a+", "b=", "b=", "b+"} {
				n.step(t, step)
			}
		}()
		var got []string
		for ev := range n.outer.Events(t.Context()) {
			synctest.Wait() // all that follows waits in the Muxes
			got = append(got, fmt.Sprintf("%s %s %t", mux.SourceOf(ev), ev.Type, n.outer.Status().AllSynced))
			if len(got) == 6 {
				break
			}
		}
		if got[5] != "inner SYNCED true" && got[5] != "c SYNCED true" {
			t.Errorf("the last event is %q", got[5])
		}
		for _, g := range got[:5] {
			if g[len(g)-5:] != "false" {
				t.Errorf("synced before the last SYNCED: %v", got)
			}
		}
	})
}

// TestNestedMuxIsWholeIfItsSourcesAre: package condition refuses what does not deliver everything.
func TestNestedMuxIsWholeIfItsSourcesAre(t *testing.T) {
	s := newStream(t, streamtest.NewServer(widgets()), widgets(), nil)
	tests := []struct {
		run  stream.Run
		want bool
	}{
		{stream.Run{}, true},
		{stream.Run{Start: stream.Now()}, false},
	}
	for _, tt := range tests {
		m := newMux(t, nil, keyed{newMux(t, nil, s.With(tt.run)), "inner"})
		if _, whole := m.Synced(friend.Access{}); whole != tt.want {
			t.Errorf("%+v: whole is %t, want %t", tt.run, whole, tt.want)
		}
	}
}

func TestMuxDoesNotIncludeItself(t *testing.T) {
	m := newMux(t, nil)
	middle := newMux(t, nil, keyed{m, "inner"})
	for _, s := range []mux.Source{keyed{m, "m"}, keyed{middle, "middle"}} {
		var invalid *stream.OptionsError
		ok := errors.As(m.Add(s, nil), &invalid)
		if !ok || invalid.Field != "Source" {
			t.Errorf("%s: the error is %v, want one of Source", s.Key(), invalid)
		}
	}
}
