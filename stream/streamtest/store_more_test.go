package streamtest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestBrokenStoresAreFoundInTime: each Store is wrong at some moments, and that is the first violation.
func TestBrokenStoresAreFoundInTime(t *testing.T) {
	opens := 0
	tests := []struct {
		why, want string
		open      func() (checkpoint.Store, error)
	}{
		{"a commit stops midway where a context ends that was derived from the caller's",
			"a context that ends midway: at once: Commit returned an error (context canceled), and ",
			opener(with(func(h *hooked) {
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					ctx, cancel := context.WithTimeout(ctx, time.Hour)
					defer cancel()
					if ctx.Err() != nil {
						return ctx.Err()
					}
					for i := range deltas {
						if ctx.Err() != nil {
							return ctx.Err()
						}
						_ = h.Memory.Commit(ctx, deltas[i:i+1])
						time.Sleep(time.Millisecond) // as a Store takes that writes to a medium
					}
					return nil
				}
			}))},
		{"500 objects are written at a time",
			"a context that ends midway: at once: Commit returned an error (context canceled), and ",
			opener(with(func(h *hooked) {
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					ctx, cancel := context.WithTimeout(ctx, time.Hour)
					defer cancel()
					for first := true; len(deltas) > 0; first = false {
						if !first {
							time.Sleep(2 * time.Millisecond) // as a Store takes that writes to a medium
						}
						if ctx.Err() != nil {
							return ctx.Err()
						}
						n := 1
						for objects := len(deltas[0].Put); n < len(deltas); n++ {
							if objects += len(deltas[n].Put); objects > 500 {
								break
							}
						}
						_ = h.Memory.Commit(ctx, deltas[:n])
						deltas = deltas[n:]
					}
					return nil
				}
			}))},
		{"25 keys are written at a time",
			"a context that ends midway: at once: Commit returned an error (context canceled), and ",
			opener(with(func(h *hooked) {
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					for some := range slices.Chunk(deltas, 25) {
						if ctx.Err() != nil {
							return ctx.Err()
						}
						time.Sleep(2 * time.Millisecond) // as a Store takes that writes to a medium
						_ = h.Memory.Commit(ctx, some)
					}
					return nil
				}
			}))},
		{"Committed is the time of Load", `Committed: a moment later: Load("a"): invalid Committed `,
			opener(onLoad(func(c *checkpoint.Checkpoint) { c.Committed = time.Now() }))},
		{"Committed is the time of open", `Committed: after another reopen: Load("a"): invalid Committed `,
			opener(func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
				now := time.Now()
				return onLoad(func(c *checkpoint.Checkpoint) { c.Committed = now })(m, 0)
			})},
		{"a commit removes a hundred objects at most", `a large commit: at once: Load("large"): invalid object `,
			opener(with(func(h *hooked) {
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					for i := range deltas {
						deltas[i].Removed = deltas[i].Removed[:min(100, len(deltas[i].Removed))]
					}
					return h.Memory.Commit(ctx, deltas)
				}
			}))},
		{"the Identity stays until a Reset, and Commit writes it into the delta",
			`another commit: at once: Load("a"): invalid Identity `,
			opener(with(func(h *hooked) {
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					for i, d := range deltas {
						if c, _ := h.Memory.Load(ctx, d.Key); c != nil && !d.Reset {
							deltas[i].Identity = c.Identity
						}
					}
					return h.Memory.Commit(ctx, deltas)
				}
			}))},
		{"there is no open", "check a Store: invalid open: must not be nil", nil},
		{"open returns a nil pointer", "the first open: open returns an error: invalid Store: must not be nil",
			func() (checkpoint.Store, error) { return (*checkpoint.Memory)(nil), nil }},
		{"a second open returns a nil pointer", "a second open: open returns an error: invalid Store: must not be nil",
			func() func() (checkpoint.Store, error) {
				m, open := &checkpoint.Memory{}, false
				return func() (checkpoint.Store, error) {
					if opens++; open {
						return (*checkpoint.Memory)(nil), nil
					}
					open = true
					return hooked{Memory: m, close: func() error { open = false; return nil }}, nil
				}
			}()},
		{"every second Load finds nothing", `a commit: after a reopen: Load(`, func() func() (checkpoint.Store, error) {
			loads := map[string]int{}
			return opener(with(func(h *hooked) {
				h.load = func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
					if loads[key]++; loads[key] > 1 && loads[key]%2 == 1 {
						return nil, nil
					}
					return h.Memory.Load(ctx, key)
				}
			}))
		}()},
	}
	for _, tt := range tests {
		err := streamtest.CheckStore(tt.open)
		if first, _, _ := strings.Cut(fmt.Sprint(err), "\n"); !strings.HasPrefix(first, tt.want) {
			t.Errorf("%s:\ngot  %.200s\nwant %s", tt.why, first, tt.want)
		}
	}
	if opens < 10 {
		t.Errorf("the Store whose second open is wrong was opened %d times", opens)
	}
}

// TestCommitsWithADerivedContextPass: a Store that asks a context of its own before it writes is right.
func TestCommitsWithADerivedContextPass(t *testing.T) {
	refused := 0
	err := streamtest.CheckStore(opener(with(func(h *hooked) {
		h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			time.Sleep(100 * time.Microsecond)
			if ctx.Err() != nil {
				refused++
				return ctx.Err()
			}
			return h.Memory.Commit(ctx, deltas)
		}
	})))
	if err != nil || refused == 0 {
		t.Errorf("after %d commits that were refused: %v", refused, err)
	}
}

// TestStoresThatWaitForALockPass: open waits for the lock for some time, which may end at any moment.
func TestStoresThatWaitForALockPass(t *testing.T) {
	for _, timeout := range []time.Duration{
		time.Millisecond, 999 * time.Millisecond, time.Second, 1001 * time.Millisecond, 1020 * time.Millisecond,
		1100 * time.Millisecond, time.Minute,
	} {
		for _, slow := range []time.Duration{0, 30 * time.Millisecond} {
			if testing.Short() && (slow == 0) != (timeout == time.Second) {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				m, lock := &checkpoint.Memory{}, make(chan struct{}, 1)
				err := streamtest.CheckStore(func() (checkpoint.Store, error) {
					select {
					case lock <- struct{}{}:
					case <-time.After(timeout):
						return nil, &checkpoint.LockedError{Store: "the Store"}
					}
					closed := false
					return hooked{Memory: m, close: func() error {
						if time.Sleep(slow); !closed {
							<-lock
						}
						closed = true
						return nil
					}, commit: func(ctx context.Context, deltas []checkpoint.Delta) error {
						time.Sleep(slow)
						return m.Commit(ctx, deltas)
					}}, nil
				})
				if err != nil || len(lock) > 0 {
					t.Errorf("a timeout of %v, a Store that needs %v: %v; %d are open", timeout, slow, err, len(lock))
				}
			})
		}
	}
}

// TestPositionsOnlyWithMarkUnclean: what Load returns for a key without a checkpoint may be Partial or not. It must be
// Unclean.
func TestPositionsOnlyWithMarkUnclean(t *testing.T) {
	tests := []struct {
		why, want        string
		partial, unclean bool
	}{
		{why: "it says what the documentation says", unclean: true},
		{why: "it is Partial, as each position of this Store", unclean: true, partial: true},
		{why: "it is not Unclean", partial: true,
			want: `MarkUnclean: after a reopen: Load("-"): invalid Unclean false: must be true`},
	}
	for _, tt := range tests {
		mark := false
		err := streamtest.CheckStore(opener(func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
			inherited := mark
			if mark = false; inherited {
				for _, key := range m.Keys() {
					c, _ := m.Load(context.Background(), key)
					p := c.Position
					_ = m.Commit(context.Background(), []checkpoint.Delta{{
						Key: key, Identity: c.Identity, Unclean: true,
						ResourceVersions: p.ResourceVersions, Partial: p.Partial, Rewound: p.Rewound,
					}})
				}
			}
			h := hooked{Memory: m, load: func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
				c, err := m.Load(ctx, key)
				if c == nil && inherited {
					c = &checkpoint.Checkpoint{}
					c.Position.Partial, c.Position.Unclean = tt.partial, tt.unclean
				}
				return c, err
			}, commit: func(ctx context.Context, deltas []checkpoint.Delta) error {
				deltas = slices.Clone(deltas)
				for i := range deltas {
					deltas[i].Put, deltas[i].Removed, deltas[i].Partial = nil, nil, true
				}
				return m.Commit(ctx, deltas)
			}}
			return markedPositions{marked{h, func(unclean bool) error { mark = unclean; return nil }}}, nil
		}))
		first, _, _ := strings.Cut(fmt.Sprint(err), "\n")
		if !strings.HasPrefix(first, tt.want) || (tt.want == "") != (err == nil) {
			t.Errorf("%s:\ngot  %.200s\nwant %s", tt.why, first, tt.want)
		}
	}
}

type markedPositions struct{ marked }

func (markedPositions) PositionsOnly() {}
