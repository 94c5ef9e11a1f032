package streamtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// hooked is a Store over a Memory whose methods a test replaces.
type hooked struct {
	*checkpoint.Memory
	load   func(ctx context.Context, key string) (*checkpoint.Checkpoint, error)
	commit func(ctx context.Context, deltas []checkpoint.Delta) error
	delete func(ctx context.Context, key string) error
	close  func() error
}

func (h hooked) Load(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
	if h.load != nil {
		return h.load(ctx, key)
	}
	return h.Memory.Load(ctx, key)
}

func (h hooked) Commit(ctx context.Context, deltas []checkpoint.Delta) error {
	if h.commit != nil {
		return h.commit(ctx, deltas)
	}
	return h.Memory.Commit(ctx, deltas)
}

func (h hooked) Delete(ctx context.Context, key string) error {
	if h.delete != nil {
		return h.delete(ctx, key)
	}
	return h.Memory.Delete(ctx, key)
}

func (h hooked) Close() error { // without a hook, what is in memory outlives it
	if h.close != nil {
		return h.close()
	}
	return nil
}

// marked has the method MarkUnclean.
type marked struct {
	hooked
	mark func(unclean bool) error
}

func (m marked) MarkUnclean(_ context.Context, unclean bool) error { return m.mark(unclean) }

// positions has the method PositionsOnly.
type positions struct{ hooked }

func (positions) PositionsOnly() {}

// opener returns an open for a Store over one Memory. times counts its calls, from 1 on.
func opener(with func(m *checkpoint.Memory, times int) (checkpoint.Store, error)) func() (checkpoint.Store, error) {
	m, times := &checkpoint.Memory{}, 0
	return func() (checkpoint.Store, error) {
		times++
		return with(m, times)
	}
}

// TestStoresPass: Stores that are right in different ways.
func TestStoresPass(t *testing.T) {
	tests := []struct {
		why  string
		with func(m *checkpoint.Memory, times int) (checkpoint.Store, error)
	}{
		{"it has no lock, and needs no Close", func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
			return hooked{Memory: m}, nil
		}},
		{"a commit whose context has ended is refused", func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
			return hooked{Memory: m, commit: func(ctx context.Context, deltas []checkpoint.Delta) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return m.Commit(ctx, deltas)
			}, load: func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				return m.Load(ctx, key)
			}, delete: func(ctx context.Context, key string) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return m.Delete(ctx, key)
			}}, nil
		}},
		{"an answer is lost after the commit was made", func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
			return hooked{Memory: m, commit: func(ctx context.Context, deltas []checkpoint.Delta) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return cmpOr(m.Commit(ctx, deltas), ctx.Err())
			}}, nil
		}},
		{"a large commit is refused", func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
			return hooked{Memory: m, commit: func(ctx context.Context, deltas []checkpoint.Delta) error {
				if len(deltas[0].Put) > 1000 {
					return errors.New("too large")
				}
				return m.Commit(ctx, deltas)
			}}, nil
		}},
		{"it keeps positions only", func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
			return positions{hooked{Memory: m, commit: func(ctx context.Context, deltas []checkpoint.Delta) error {
				deltas = slices.Clone(deltas)
				for i := range deltas {
					deltas[i].Put, deltas[i].Removed, deltas[i].Partial = nil, nil, true
				}
				return m.Commit(ctx, deltas)
			}}}, nil
		}},
	}
	for _, tt := range tests {
		if err := streamtest.CheckStore(opener(tt.with)); err != nil {
			t.Errorf("%s: %v", tt.why, err)
		}
	}
}

func cmpOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestStoresThatAreLockedPass: a second open fails at once, or waits until the Store is closed.
func TestStoresThatAreLockedPass(t *testing.T) {
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, lock := &checkpoint.Memory{}, make(chan struct{}, 1)
			err := streamtest.CheckStore(func() (checkpoint.Store, error) {
				if !waits && len(lock) > 0 {
					return nil, &checkpoint.LockedError{Store: "the Store"}
				}
				lock <- struct{}{}
				closed := false
				return hooked{Memory: m, close: func() error {
					if !closed {
						<-lock
					}
					closed = true
					return nil
				}, commit: func(ctx context.Context, deltas []checkpoint.Delta) error {
					if closed {
						return os.ErrClosed
					}
					return m.Commit(ctx, deltas)
				}}, nil
			})
			if err != nil || len(lock) > 0 {
				t.Errorf("waits: %t: %v; %d are open", waits, err, len(lock))
			}
		})
	}
}

// TestStoreThatIsFencedPasses: the later owner alone commits, and Close of the earlier one says so, too.
func TestStoreThatIsFencedPasses(t *testing.T) {
	tries := 0
	err := streamtest.CheckStore(opener(fenced(func(_ *checkpoint.Memory, _ []checkpoint.Delta, n int) error {
		tries = n
		return &checkpoint.FencedError{Store: "the Store", Holder: "another"}
	})))
	if err != nil || tries != 2 {
		t.Errorf("after %d commits of the earlier owner: %v", tries, err)
	}
}

// onCommit returns a Store that changes each delta before it commits.
func onCommit(change func(d *checkpoint.Delta)) func(*checkpoint.Memory, int) (checkpoint.Store, error) {
	return func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
		return hooked{Memory: m, commit: func(ctx context.Context, deltas []checkpoint.Delta) error {
			deltas = slices.Clone(deltas)
			for i := range deltas {
				change(&deltas[i])
			}
			return m.Commit(ctx, deltas)
		}}, nil
	}
}

// collated returns a Store that takes objects for one if fold makes the same of their names.
func collated(fold func(name string) string) func(*checkpoint.Memory, int) (checkpoint.Store, error) {
	return onCommit(func(d *checkpoint.Delta) {
		last := map[checkpoint.Object]checkpoint.Object{}
		for _, o := range d.Put {
			folded := o
			folded.Name, folded.ResourceVersion = fold(o.Name), ""
			last[folded] = o
		}
		d.Put = slices.Collect(maps.Values(last))
	})
}

// onObject returns a Store that changes objects before it commits them.
func onObject(change func(o *checkpoint.Object)) func(*checkpoint.Memory, int) (checkpoint.Store, error) {
	return onCommit(func(d *checkpoint.Delta) {
		d.Put, d.Removed = slices.Clone(d.Put), slices.Clone(d.Removed)
		for i := range d.Put {
			change(&d.Put[i])
		}
		for i := range d.Removed {
			change(&d.Removed[i])
		}
	})
}

// onLoad returns a Store that changes what it has loaded.
func onLoad(change func(c *checkpoint.Checkpoint)) func(*checkpoint.Memory, int) (checkpoint.Store, error) {
	return func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
		return hooked{Memory: m, load: func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
			c, err := m.Load(ctx, key)
			if c != nil {
				change(c)
			}
			return c, err
		}}, nil
	}
}

// onKey returns a Store that changes keys.
func onKey(change func(key string) string) func(*checkpoint.Memory, int) (checkpoint.Store, error) {
	return func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
		return hooked{Memory: m, load: func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
			return m.Load(ctx, change(key))
		}, commit: func(ctx context.Context, deltas []checkpoint.Delta) error {
			deltas = slices.Clone(deltas)
			for i := range deltas {
				deltas[i].Key = change(deltas[i].Key)
			}
			return m.Commit(ctx, deltas)
		}, delete: func(ctx context.Context, key string) error {
			return m.Delete(ctx, change(key))
		}}, nil
	}
}

// with returns a Store whose hooks get the Memory.
func with(set func(h *hooked)) func(*checkpoint.Memory, int) (checkpoint.Store, error) {
	return func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
		h := hooked{Memory: m}
		set(&h)
		return h, nil
	}
}

// TestBrokenStoresAreFound: each Store is wrong in one way, and the first violation that is reported is that one.
func TestBrokenStoresAreFound(t *testing.T) {
	background, begun := context.Background(), time.Now()
	tests := []struct {
		why, want string
		with      func(m *checkpoint.Memory, times int) (checkpoint.Store, error)
	}{
		{"open fails", "the first open: open returns an error: no",
			func(*checkpoint.Memory, int) (checkpoint.Store, error) { return nil, errors.New("no") }},
		{"open returns nothing", "the first open: open returns an error: invalid Store: must not be nil",
			func(*checkpoint.Memory, int) (checkpoint.Store, error) { return nil, nil }},
		{"it can't be opened again", "a commit: open returns an error: no",
			func(m *checkpoint.Memory, times int) (checkpoint.Store, error) {
				if times > 1 {
					return nil, errors.New("no")
				}
				return hooked{Memory: m}, nil
			}},
		{"Close fails", "a commit: Close returns an error: no", with(func(h *hooked) {
			h.close = func() error { return errors.New("no") }
		})},
		{"it is not empty", `an empty Store: before the first commit: Load("a"): invalid checkpoint of "x": must be`,
			with(func(h *hooked) {
				if len(h.Keys()) == 0 {
					d := checkpoint.Delta{Key: "a", Identity: checkpoint.Identity{Resource: "x"}}
					_ = h.Memory.Commit(background, []checkpoint.Delta{d})
				}
			})},
		{"an absent key is an error", `an empty Store: before the first commit: Load("a") returns an error: no`,
			with(func(h *hooked) {
				h.load = func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
					if c, err := h.Memory.Load(ctx, key); c != nil {
						return c, err
					}
					return nil, errors.New("no")
				}
			})},
		{"an absent key is empty", `an empty Store: before the first commit: Load("a"): invalid checkpoint`,
			with(func(h *hooked) {
				h.load = func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
					if c, err := h.Memory.Load(ctx, key); c != nil {
						return c, err
					}
					return &checkpoint.Checkpoint{}, nil
				}
			})},
		{"commits fail", "a commit: Commit returns an error: no", with(func(h *hooked) {
			h.commit = func(context.Context, []checkpoint.Delta) error { return errors.New("no") }
		})},
		{"only the first delta is committed", `a commit: at once: Load("b"): invalid nil: there is a checkpoint`,
			with(func(h *hooked) {
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					return h.Memory.Commit(ctx, deltas[:1])
				}
			})},
		{"nothing outlives Close", `a commit: after a reopen: Load("a"): invalid nil: there is a checkpoint`,
			with(func(h *hooked) {
				h.close = func() error {
					for _, key := range h.Keys() {
						_ = h.Memory.Delete(background, key)
					}
					return nil
				}
			})},
		{"a field of the Identity is lost", `a commit: at once: Load("a"): invalid Identity`,
			onCommit(func(d *checkpoint.Delta) { d.Identity.Shard = "" })},
		{"namespaces of the Identity are lost", `a commit: at once: Load("a"): invalid Identity`,
			onCommit(func(d *checkpoint.Delta) { d.Identity.Namespaces = nil })},
		{"a selector is cut off", `a commit: at once: Load("a"): invalid Identity`,
			onCommit(func(d *checkpoint.Delta) {
				d.Identity.LabelSelector = d.Identity.LabelSelector[:min(255, len(d.Identity.LabelSelector))]
			})},
		{"another selector is cut off", `a commit: at once: Load("a"): invalid Identity`,
			onCommit(func(d *checkpoint.Delta) {
				d.Identity.FieldSelector = d.Identity.FieldSelector[:min(255, len(d.Identity.FieldSelector))]
			})},
		{"an address is cut off", `a commit: at once: Load("a"): invalid Identity`,
			onCommit(func(d *checkpoint.Delta) {
				c := &d.Identity.Cluster
				c.Address = c.Address[:min(255, len(c.Address))]
			})},
		{"empty versions are lost", `a commit: at once: Load("a"): invalid ResourceVersions`,
			onCommit(func(d *checkpoint.Delta) {
				d.ResourceVersions = maps.Clone(d.ResourceVersions)
				maps.DeleteFunc(d.ResourceVersions, func(_, v string) bool { return v == "" })
			})},
		{"versions are kept as numbers", `a commit: at once: Load("a"): invalid ResourceVersions`,
			onCommit(func(d *checkpoint.Delta) {
				d.ResourceVersions = maps.Clone(d.ResourceVersions)
				for ns, v := range d.ResourceVersions {
					d.ResourceVersions[ns] = strings.TrimLeft(v, "0")
				}
			})},
		{"versions are added", `another commit: at once: Load("a"): invalid ResourceVersions`,
			with(func(h *hooked) {
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					for i, d := range deltas {
						if c, _ := h.Memory.Load(ctx, d.Key); c != nil {
							all := maps.Clone(c.Position.ResourceVersions)
							maps.Copy(all, d.ResourceVersions)
							deltas[i].ResourceVersions = all
						}
					}
					return h.Memory.Commit(ctx, deltas)
				}
			})},
		{"Partial is lost", `a commit: at once: Load("a"): invalid Partial false: must be true`,
			onCommit(func(d *checkpoint.Delta) { d.Partial = false })},
		{"Rewound is lost", `a commit: at once: Load("a"): invalid Rewound false: must be true`,
			onCommit(func(d *checkpoint.Delta) { d.Rewound = false })},
		{"Unclean is lost", `a commit: at once: Load("a"): invalid Unclean false: must be true`,
			onCommit(func(d *checkpoint.Delta) { d.Unclean = false })},
		{"flags stay", `another commit: at once: Load("a"): invalid Rewound true: must be false`,
			with(func(h *hooked) {
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					for i, d := range deltas {
						if c, _ := h.Memory.Load(ctx, d.Key); c != nil {
							deltas[i].Rewound = d.Rewound || c.Position.Rewound
						}
					}
					return h.Memory.Commit(ctx, deltas)
				}
			})},
		{"it has no time", `a commit: at once: Load("a"): invalid Committed 0001-01-01`,
			onLoad(func(c *checkpoint.Checkpoint) { c.Committed = time.Time{} })},
		{"it takes milliseconds for seconds", `a commit: at once: Load("a"): invalid Committed`,
			onLoad(func(c *checkpoint.Checkpoint) { c.Committed = time.Unix(c.Committed.UnixMilli(), 0) })},
		{"it keeps no objects, and does not say so",
			`a commit: at once: Load("a"): no objects: a Store that keeps none must have a method PositionsOnly`,
			onLoad(func(c *checkpoint.Checkpoint) { c.Position.Objects = nil })},
		{"it says that it keeps no objects, and not that it is Partial",
			`a commit: at once: Load("b"): invalid Partial false: must be true`,
			func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
				s, _ := onLoad(func(c *checkpoint.Checkpoint) { c.Position.Objects = nil })(m, 0)
				return positions{s.(hooked)}, nil
			}},
		{"it says that it keeps no objects, and does", `a commit: at once: Load("a"): invalid object {`,
			func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) { return positions{hooked{Memory: m}}, nil }},
		{"an object has no uid", `a commit: at once: Load("a"): the object {Namespace: "", Name: "cluster-scoped"`,
			onObject(func(o *checkpoint.Object) { o.UID = "" })},
		{"an object has one text for its names",
			`a commit: at once: Load("a"): the object {Namespace: "a", Name: "b:c", UID: "u"} has an invalid ` +
				`ResourceVersion "2": must be "1"`,
			onObject(func(o *checkpoint.Object) {
				parts := strings.SplitN(o.Namespace+":"+o.Name, ":", 2)
				o.Namespace, o.Name = parts[0], parts[1]
			})},
		{"an object without a version is lost",
			`a commit: at once: Load("a"): the object {Namespace: "shop", Name: "pending", UID: "u"} is missing`,
			onCommit(func(d *checkpoint.Delta) {
				d.Put = slices.DeleteFunc(slices.Clone(d.Put), func(o checkpoint.Object) bool {
					return o.ResourceVersion == ""
				})
			})},
		{"an object's version is a float64", `a commit: at once: Load("a"): the object ` +
			`{Namespace: "shop", Name: "large", UID: "u"} has an invalid ResourceVersion "9007199254740992": ` +
			`must be "9007199254740993"`,
			onObject(func(o *checkpoint.Object) {
				if o.ResourceVersion == "9007199254740993" {
					o.ResourceVersion = "9007199254740992"
				}
			})},
		{"a text is changed", `a commit: at once: Load("a"): the object {Namespace: "shop", Name: "Ünïcode`,
			onObject(func(o *checkpoint.Object) { o.Name = strings.ReplaceAll(o.Name, "\t", "") })},
		{"names are compared without case", `a commit: at once: Load("a"): the object {Namespace: "shop", Name: "door"`,
			collated(strings.ToLower)},
		{"accents are ignored", `a commit: at once: Load("a"): the object {Namespace: "shop", Name: "door"`,
			collated(func(s string) string { return strings.ReplaceAll(s, "ó", "o") })},
		{"spaces at the end are ignored", `a commit: at once: Load("a"): the object {Namespace: "shop", Name: "door"`,
			collated(func(s string) string { return strings.TrimRight(s, " ") })},
		{"names are compared up to a length", `a commit: at once: Load("a"): the object {Namespace: "sss`,
			collated(func(s string) string { return s[:min(len(s), 200)] })},
		{"an object is there twice", `another commit: at once: Load("a"): invalid object {Namespace: "shop",`,
			with(func(h *hooked) {
				var log []checkpoint.Object
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					if deltas[0].Key == "a" {
						log = append(log, deltas[0].Put...)
					}
					return h.Memory.Commit(ctx, deltas)
				}
				h.load = func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
					c, err := h.Memory.Load(ctx, key)
					if c != nil && key == "a" && len(log) == 2 {
						c.Position.Objects = append(c.Position.Objects, log...)
					}
					return c, err
				}
			})},
		{"a commit replaces all objects", `another commit: at once: Load("a"): the object {Namespace: "", Name: "cl`,
			onCommit(func(d *checkpoint.Delta) { d.Reset = true })},
		{"Removed is ignored", `a commit with Removed: at once: Load("a"): invalid object`,
			onCommit(func(d *checkpoint.Delta) { d.Removed = nil })},
		{"Removed takes all uids", `a commit with Removed: at once: Load("a"): the object {Namespace: "shop",`,
			with(func(h *hooked) {
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					for i, d := range deltas {
						c, _ := h.Memory.Load(ctx, d.Key)
						if c == nil {
							continue
						}
						for _, r := range d.Removed {
							for _, o := range c.Position.Objects {
								if o.NamespacedName() == r.NamespacedName() && o.UID != r.UID {
									deltas[i].Removed = append(deltas[i].Removed, o)
								}
							}
						}
					}
					return h.Memory.Commit(ctx, deltas)
				}
			})},
		{"what is removed must exist", "a commit with Removed: Commit returns an error: no unknown",
			with(func(h *hooked) {
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					for _, d := range deltas {
						for _, o := range d.Removed {
							if o.Name == "unknown" {
								return errors.New("no unknown")
							}
						}
					}
					return h.Memory.Commit(ctx, deltas)
				}
			})},
		{"Reset is ignored", `a commit with Reset: at once: Load("a"): invalid object`,
			onCommit(func(d *checkpoint.Delta) { d.Reset = false })},
		{"Reset comes last", `a commit with Reset: at once: Load("a"): no objects`,
			onCommit(func(d *checkpoint.Delta) {
				if d.Reset {
					d.Put = nil
				}
			})},
		{"a second Put is an error", "a commit again, as after an error: Commit returns an error: it exists",
			with(func(h *hooked) {
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					c, _ := h.Memory.Load(ctx, deltas[0].Key)
					for _, o := range deltas[0].Put {
						if c != nil && slices.Contains(c.Position.Objects, o) {
							return errors.New("it exists")
						}
					}
					return h.Memory.Commit(ctx, deltas)
				}
			})},
		{"it keeps the caller's map", `the caller's changes: of what was passed to Commit: Load("a"): invalid Res`,
			with(func(h *hooked) {
				var kept map[string]string
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					kept = deltas[0].ResourceVersions
					return h.Memory.Commit(ctx, deltas)
				}
				h.load = func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
					c, err := h.Memory.Load(ctx, key)
					if c != nil && key == "a" && kept != nil {
						c.Position.ResourceVersions = maps.Clone(kept)
					}
					return c, err
				}
			})},
		{"it hands out what it keeps", `the caller's changes: of what Load has returned: Load("a"): invalid`,
			with(func(h *hooked) {
				kept := map[string]*checkpoint.Checkpoint{}
				h.load = func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
					c, err := h.Memory.Load(ctx, key)
					if k := kept[key]; c != nil && k != nil && k.Committed.Equal(c.Committed) {
						return k, err
					}
					kept[key] = c
					return c, err
				}
			})},
		{"keys have no case", `keys: at once: Load("A"): invalid`, onKey(strings.ToLower)},
		{"keys are cut off", `keys: at once: Load("kkk`,
			onKey(func(key string) string { return key[:min(len(key), 63)] })},
		{"keys end at a dot", `keys: at once: Load("deployments"): `,
			onKey(func(key string) string { return strings.TrimRight(key, ".") })},
		{"Delete deletes what begins with the key", `keys: after Delete("deployments"): Load("deployments.`,
			with(func(h *hooked) {
				h.delete = func(ctx context.Context, key string) error {
					for _, other := range h.Keys() {
						if strings.HasPrefix(other, key) {
							_ = h.Memory.Delete(ctx, other)
						}
					}
					return nil
				}
			})},
		{"Delete does nothing", `keys: after Delete("A"): Load("A"): invalid checkpoint of "widgets": must be nil`,
			with(func(h *hooked) { h.delete = func(context.Context, string) error { return nil } })},
		{"an absent key can't be deleted", "Delete: Delete returns an error: absent", with(func(h *hooked) {
			h.delete = func(ctx context.Context, key string) error {
				if !slices.Contains(h.Keys(), key) {
					return errors.New("absent")
				}
				return h.Memory.Delete(ctx, key)
			}
		})},
		{"objects outlive Delete", `Delete: at once: Load("c"): invalid object {Namespace: "shop", Name: "first"`,
			func() func(*checkpoint.Memory, int) (checkpoint.Store, error) {
				deleted := map[string][]checkpoint.Object{}
				return with(func(h *hooked) {
					h.delete = func(ctx context.Context, key string) error {
						if c, _ := h.Memory.Load(ctx, key); c != nil {
							deleted[key] = c.Position.Objects
						}
						return h.Memory.Delete(ctx, key)
					}
					h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
						for i, d := range deltas {
							deltas[i].Put = append(deleted[d.Key], d.Put...)
							delete(deleted, d.Key)
						}
						return h.Memory.Commit(ctx, deltas)
					}
				})
			}()},
		{"what can't be read seems to be absent", "a context that has ended: Load: invalid nil: there is a checkpoint",
			with(func(h *hooked) {
				h.load = func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
					if ctx.Err() != nil {
						return nil, nil
					}
					return h.Memory.Load(ctx, key)
				}
			})},
		{"a commit that fails is made", "a context that has ended: at once: Commit returned an error (context " +
			"canceled), and has been made: must change nothing", with(func(h *hooked) {
			h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
				return cmpOr(h.Memory.Commit(ctx, deltas), ctx.Err())
			}
		})},
		{"a commit that is not made succeeds", "a context that has ended: at once: Commit returned no error, and " +
			"0 of 2 checkpoints have changed: must be all", with(func(h *hooked) {
			h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
				if ctx.Err() != nil {
					return nil
				}
				return h.Memory.Commit(ctx, deltas)
			}
		})},
		{"a Delete that fails is made", `a context that has ended: after Delete: Load("c"): invalid nil`,
			with(func(h *hooked) {
				h.delete = func(ctx context.Context, key string) error {
					return cmpOr(h.Memory.Delete(ctx, key), ctx.Err())
				}
			})},
		{"each key is written alone", "a context that ends in a commit: at once: Commit returned an error " +
			"(context canceled), and 2 of 3 checkpoints have not changed: must be all or none", with(func(h *hooked) {
			h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
				for i := range deltas {
					if err := ctx.Err(); err != nil {
						return err
					}
					_ = h.Memory.Commit(ctx, deltas[i:i+1])
				}
				return nil
			}
		})},
		{"a value of 64 KiB is cut off", `a large commit: at once: Load("large"): the object`,
			onCommit(func(d *checkpoint.Delta) { d.Put = d.Put[:min(len(d.Put), 500)] })},
		{"1,000 objects are too many", "a large commit: Commit returns an error: too large", with(func(h *hooked) {
			h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
				if len(deltas[0].Put) >= 1000 {
					return errors.New("too large")
				}
				return h.Memory.Commit(ctx, deltas)
			}
		})},
		{"a key of many is lost", `a large commit: of 200 keys: Load("of-many.100"): invalid`, with(func(h *hooked) {
			h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
				if len(deltas) > 101 {
					deltas = slices.Concat(deltas[:100], deltas[101:])
				}
				return h.Memory.Commit(ctx, deltas)
			}
		})},
		{"many keys are too many", "a large commit: Commit returns an error: too many", with(func(h *hooked) {
			h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
				if len(deltas) > 100 {
					return errors.New("too many")
				}
				return h.Memory.Commit(ctx, deltas)
			}
		})},
		{"what is too large is written in part", "a large commit: of 5,000 objects: Commit returned an error " +
			"(too large), and 1 of 2 checkpoints have not changed: must be all or none", with(func(h *hooked) {
			h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
				if len(deltas[0].Put) > 1000 {
					_ = h.Memory.Commit(ctx, deltas[1:])
					return errors.New("too large")
				}
				return h.Memory.Commit(ctx, deltas)
			}
		})},
		{"a Store that is closed loses commits", "a commit after Close: after a reopen: Commit returned no " +
			"error, and 0 of 2 checkpoints have changed: must be all", with(func(h *hooked) {
			closed := false
			h.close = func() error { closed = true; return nil }
			h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
				if closed {
					return nil
				}
				return h.Memory.Commit(ctx, deltas)
			}
		})},
		{"a Store that is closed asks for another try",
			"a commit after Close: invalid error no connection: must wrap os.ErrClosed, or a Tracker tries again",
			with(func(h *hooked) {
				closed := false
				h.close = func() error { closed = true; return nil }
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					if closed {
						return errors.New("no connection")
					}
					return h.Memory.Commit(ctx, deltas)
				}
			})},
		{"Close writes the commits", `a second open: without Close: Load("a"): invalid ResourceVersions`,
			with(func(h *hooked) {
				m, cache, closed := h.Memory, &checkpoint.Memory{}, false
				h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
					if closed {
						return os.ErrClosed
					}
					return cache.Commit(ctx, deltas)
				}
				for _, key := range m.Keys() {
					move(m, cache, key)
				}
				h.Memory = cache
				h.load = func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
					c, err := cache.Load(ctx, key)
					if c != nil {
						c.Committed = begun // move makes it later
					}
					return c, err
				}
				h.close = func() error {
					closed = true
					for _, key := range slices.Concat(m.Keys(), cache.Keys()) {
						_ = m.Delete(background, key)
						move(cache, m, key)
					}
					return nil
				}
			})},
		{"a fenced Store commits", "a second open: of the earlier one: Commit returned an error (the Store has " +
			"been taken over by another: this process can't commit, and should end), and has been made: must change",
			fenced(func(m *checkpoint.Memory, deltas []checkpoint.Delta, _ int) error {
				_ = m.Commit(background, deltas)
				return &checkpoint.FencedError{Store: "the Store", Holder: "another"}
			})},
		{"a fenced Store comes back",
			"a second open: the next commit after a *FencedError returns <nil>: must return it again",
			fenced(func(m *checkpoint.Memory, deltas []checkpoint.Delta, tries int) error {
				if tries > 1 {
					return nil
				}
				return &checkpoint.FencedError{Store: "the Store", Holder: "another"}
			})},
	}
	for i, tt := range tests {
		if testing.Short() && i%4 != 0 {
			continue
		}
		err := streamtest.CheckStore(opener(tt.with))
		if first, _, _ := strings.Cut(fmt.Sprint(err), "\n"); !strings.HasPrefix(first, tt.want) {
			t.Errorf("%s:\ngot  %.200s\nwant %s", tt.why, first, tt.want)
		}
	}
}

// move commits a checkpoint of one Store to another.
func move(from, to *checkpoint.Memory, key string) {
	c, _ := from.Load(context.Background(), key)
	if c == nil {
		return
	}
	p := c.Position
	_ = to.Commit(context.Background(), []checkpoint.Delta{{
		Key: key, Identity: c.Identity, ResourceVersions: p.ResourceVersions, Partial: p.Partial, Rewound: p.Rewound,
		Unclean: p.Unclean, Put: p.Objects, Reset: true,
	}})
}

// fenced returns a Store whose commits go to late once it is closed, or another has been opened.
func fenced(
	late func(m *checkpoint.Memory, deltas []checkpoint.Delta, tries int) error,
) func(m *checkpoint.Memory, times int) (checkpoint.Store, error) {
	owner := 0
	return func(m *checkpoint.Memory, times int) (checkpoint.Store, error) {
		owner = times
		closed, tries := false, 0
		return hooked{Memory: m,
			close: func() error {
				if closed = true; owner != times {
					return &checkpoint.FencedError{Store: "the Store", Holder: "another"}
				}
				return nil
			},
			commit: func(ctx context.Context, deltas []checkpoint.Delta) error {
				switch {
				case owner == times && closed:
					return os.ErrClosed
				case owner == times:
					return m.Commit(ctx, deltas)
				}
				tries++
				return late(m, deltas, tries)
			}}, nil
	}
}

// uncleanDisk is a Memory whose Stores can be marked. A Store that has inherited the mark returns Unclean checkpoints,
// until a commit has replaced them.
type uncleanDisk struct {
	mark   bool
	others map[string]bool // keys that are Unclean for a mark before
}

// TestMarksAreChecked: a Store with MarkUnclean passes, and each mistake is found.
func TestMarksAreChecked(t *testing.T) {
	tests := []struct {
		why, want                                             string
		ignored, present, forgets, stays, once, sticky, fails bool
		cleans                                                bool // each commit
	}{
		{why: "it does what the documentation demands"},
		{why: "the mark is not written", ignored: true,
			want: `MarkUnclean: after a reopen: Load("-"): invalid nil: there is a checkpoint`},
		{why: "absent keys are not Unclean", present: true,
			want: `MarkUnclean: after a reopen: Load("-"): invalid nil: there is a checkpoint`},
		{why: "the first commit cleans other keys", forgets: true,
			want: `MarkUnclean: at once: Load("b"): invalid Unclean false: must be true`},
		{why: "a commit does not clean its key", stays: true,
			want: `MarkUnclean: at once: Load("a"): invalid Unclean true: must be false`},
		{why: "other keys are Unclean until the Store is closed", once: true,
			want: `MarkUnclean: after a reopen: Load("b"): invalid Unclean false: must be true`},
		{why: "the mark is not taken back", sticky: true,
			want: `MarkUnclean and back: after a reopen: Load("a"): invalid Unclean true: must be false`},
		{why: "a commit takes the mark back", cleans: true,
			want: `a commit after MarkUnclean: after a reopen: Load("a"): invalid Unclean false: must be true`},
		{why: "it can't be marked", fails: true, want: "MarkUnclean: MarkUnclean(true) returns an error: no"},
	}
	for _, tt := range tests {
		disk := &uncleanDisk{others: map[string]bool{}}
		err := streamtest.CheckStore(opener(func(m *checkpoint.Memory, _ int) (checkpoint.Store, error) {
			inherited := disk.mark
			if disk.mark {
				for _, key := range m.Keys() {
					disk.others[key] = true
				}
				disk.mark = false
			}
			h := hooked{Memory: m}
			h.load = func(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
				c, err := m.Load(ctx, key)
				if c == nil && inherited && !tt.present {
					c = &checkpoint.Checkpoint{}
					c.Position.Unclean = true
				} else if c != nil && disk.others[key] {
					c.Position.Unclean = true
				}
				return c, err
			}
			h.commit = func(ctx context.Context, deltas []checkpoint.Delta) error {
				for _, d := range deltas {
					if !tt.stays {
						delete(disk.others, d.Key)
					}
				}
				if tt.forgets && inherited {
					clear(disk.others)
				}
				if tt.cleans {
					disk.mark = false
				}
				return m.Commit(ctx, deltas)
			}
			h.close = func() error {
				if tt.once && inherited {
					clear(disk.others)
				}
				return nil
			}
			return marked{h, func(unclean bool) error {
				if tt.fails {
					return errors.New("no")
				}
				disk.mark = unclean && !tt.ignored || tt.sticky && disk.mark
				return nil
			}}, nil
		}))
		first, _, _ := strings.Cut(fmt.Sprint(err), "\n")
		if !strings.HasPrefix(first, tt.want) || (tt.want == "") != (err == nil) {
			t.Errorf("%s:\ngot  %.200s\nwant %s", tt.why, first, tt.want)
		}
	}
}

// TestAllViolationsAreReported: one error has a line for each.
func TestAllViolationsAreReported(t *testing.T) {
	err := streamtest.CheckStore(opener(onCommit(func(d *checkpoint.Delta) { d.Reset, d.Removed = false, nil })))
	for _, step := range []string{"a commit with Removed: ", "a commit with Reset: "} {
		if !strings.Contains(fmt.Sprint(err), step) {
			t.Errorf("got %v, want %q", err, step)
		}
	}
}
