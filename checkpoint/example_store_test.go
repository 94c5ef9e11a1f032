package checkpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Values is a database that the program has already. Get returns nil if there is no value.
type Values interface {
	Get(key string) ([]byte, error)
	Set(key string, value []byte) error
}

// ValueStore is a checkpoint.Store in one value, which Set replaces as a whole: all deltas or none.
type ValueStore struct {
	Values Values
	Key    string // of the value
}

func (s *ValueStore) read(ctx context.Context) (map[string]*checkpoint.Checkpoint, error) {
	all := map[string]*checkpoint.Checkpoint{}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	value, err := s.Values.Get(s.Key)
	if err == nil && value != nil && (json.Unmarshal(value, &all) != nil || all == nil) { // null is JSON, too
		err = &checkpoint.CorruptError{Store: s.Key, Err: fmt.Errorf("invalid value %.20q: must be an object", value)}
	}
	return all, err
}

func (s *ValueStore) write(all map[string]*checkpoint.Checkpoint) error {
	value, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return s.Values.Set(s.Key, value)
}

// Load implements checkpoint.Store.
func (s *ValueStore) Load(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
	all, err := s.read(ctx)
	return all[key], err
}

// Commit implements checkpoint.Store.
func (s *ValueStore) Commit(ctx context.Context, deltas []checkpoint.Delta) error {
	all, err := s.read(ctx)
	if err != nil {
		return err
	}
	for _, d := range deltas {
		p := checkpoint.Position{
			ResourceVersions: d.ResourceVersions, Partial: d.Partial, Rewound: d.Rewound, Unclean: d.Unclean,
		}
		if before := all[d.Key]; before != nil && !d.Reset {
			p.Objects = before.Position.Objects
		}
		changed := map[checkpoint.Object]bool{}
		for _, o := range slices.Concat(d.Put, d.Removed) {
			o.ResourceVersion = "" // namespace, name and uid identify an object
			changed[o] = true
		}
		p.Objects = slices.DeleteFunc(p.Objects, func(o checkpoint.Object) bool {
			o.ResourceVersion = ""
			return changed[o]
		})
		p.Objects = append(p.Objects, d.Put...)
		all[d.Key] = &checkpoint.Checkpoint{Identity: d.Identity, Position: p, Committed: time.Now()}
	}
	return s.write(all)
}

// Delete implements checkpoint.Store.
func (s *ValueStore) Delete(ctx context.Context, key string) error {
	all, err := s.read(ctx)
	if err != nil || all[key] == nil {
		return err
	}
	delete(all, key)
	return s.write(all)
}

// Close implements checkpoint.Store.
func (s *ValueStore) Close() error { return nil }

// inMemory is usually a database.
type inMemory map[string][]byte

func (m inMemory) Get(key string) ([]byte, error)     { return m[key], nil }
func (m inMemory) Set(key string, value []byte) error { m[key] = value; return nil }

// A Store over somebody's Get and Set. CheckStore checks it, as the test of such a Store would.
func ExampleStore() {
	values := inMemory{}
	err := streamtest.CheckStore(func() (checkpoint.Store, error) {
		return &ValueStore{Values: values, Key: "gvrwatch/positions"}, nil
	})
	fmt.Println("violations:", err)

	values["gvrwatch/positions"] = []byte("null")
	_, err = (&ValueStore{Values: values, Key: "gvrwatch/positions"}).Load(context.Background(), "pods")
	fmt.Println(err)
	// Output:
	// violations: <nil>
	// can't read checkpoints from gvrwatch/positions: invalid value "null": must be an object
}
