package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

func TestOddObjects(t *testing.T) {
	path := inTemp(t)
	s := open(t, path)
	put, told := split(odd)
	versions := map[string]string{"one": "5"}
	commit(t, s, checkpoint.Delta{Key: "k", Identity: identity("pods"), Put: put, Told: told, ResourceVersions: versions, Partial: true, Unclean: true})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := &checkpoint.Checkpoint{Identity: identity("pods"), Position: checkpoint.Position{ResourceVersions: versions, Objects: odd, Partial: true, Unclean: true}}
	byName := cmpopts.SortSlices(func(a, b checkpoint.Object) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
	if diff := cmp.Diff(want, load(t, open(t, path), "k"), byName); diff != "" {
		t.Errorf("it is not as it was (-want +got):\n%s", diff)
	}
}

// TestModel does the same to a file and to a Memory.
func TestModel(t *testing.T) {
	for seed := range uint64(20) {
		path, model, r := inTemp(t), checkpoint.NewMemory(), rand.New(rand.NewPCG(seed, 1))
		s := open(t, path)
		for i := range 60 {
			switch key := fmt.Sprint("key-", r.IntN(3)); r.IntN(12) {
			case 0:
				if err := errors.Join(s.Delete(t.Context(), key), model.Delete(t.Context(), key)); err != nil {
					t.Fatal(err)
				}
			case 1:
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = open(t, path)
			default:
				d := randomDelta(r, key, i)
				commit(t, s, d)
				commit(t, model, d)
			}
			if i%10 != 9 {
				continue
			}
			keys, err := s.Keys()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(model.Keys(), keys, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("keys of seed %d (-want +got):\n%s", seed, diff)
			}
			for _, key := range keys {
				if diff := cmp.Diff(load(t, model, key), load(t, s, key), cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("%s of seed %d (-want +got):\n%s", key, seed, diff)
				}
			}
		}
	}
}

func randomDelta(r *rand.Rand, key string, version int) checkpoint.Delta {
	d := checkpoint.Delta{
		Key: key, Identity: identity(fmt.Sprint("r", r.IntN(3))), Partial: r.IntN(2) == 0, Unclean: r.IntN(2) == 0, Reset: r.IntN(10) == 0,
		ResourceVersions: map[string]string{"one": fmt.Sprint(version)},
	}
	for range r.IntN(40) {
		o := checkpoint.Object{
			Namespace: fmt.Sprint("ns-", r.IntN(3)), Name: fmt.Sprint("n-", r.IntN(200)), UID: types.UID(fmt.Sprint("u-", r.IntN(3))),
			ResourceVersion: fmt.Sprint(version), Hidden: r.IntN(4) == 0,
		}
		mentioned := slices.ContainsFunc(d.Put, func(p checkpoint.Object) bool { return p.NamespacedName() == o.NamespacedName() }) ||
			slices.Contains(d.Gone, o.NamespacedName()) || slices.Contains(d.Settled, o.ID()) ||
			slices.ContainsFunc(d.Told, func(p checkpoint.Object) bool { return p.ID() == o.ID() })
		switch {
		case mentioned:
		case r.IntN(3) == 0:
			d.Gone = append(d.Gone, o.NamespacedName())
		case r.IntN(5) == 0:
			d.Settled = append(d.Settled, o.ID())
		case r.IntN(3) == 0:
			o.Unacked = true
			d.Told = append(d.Told, o)
		default:
			d.Put = append(d.Put, o)
		}
	}
	return d
}

// TestCommitIsIncremental counts the pages that the change of one object of many
// touches.
func TestCommitIsIncremental(t *testing.T) {
	path := inTemp(t)
	all := objects(20_000, 1)
	s := fill(t, path, all)
	defer s.Close()
	before := read(t, path)
	changed := all[10_000]
	changed.ResourceVersion = "3000000"
	commit(t, s, checkpoint.Delta{Key: "pods", Identity: identity("pods"), Put: []checkpoint.Object{changed}, ResourceVersions: map[string]string{"": "3000000"}})
	after := read(t, path)
	pages := 0
	for i := 0; i < len(after); i += 4096 {
		if i >= len(before) || !bytes.Equal(before[i:i+4096], after[i:i+4096]) {
			pages++
		}
	}
	if pages > 20 {
		t.Errorf("one object of %d has changed, and %d of %d pages", len(all), pages, len(after)/4096)
	}
}

func TestDeltasOfSeveralKeysAreOneCommit(t *testing.T) {
	s := open(t, inTemp(t))
	long := checkpoint.Object{Name: string(bytes.Repeat([]byte("n"), 40_000))} // longer than bbolt takes
	err := s.Commit(t.Context(), []checkpoint.Delta{
		{Key: "a", Identity: identity("pods"), ResourceVersions: map[string]string{"": "1"}},
		{Key: "b", Identity: identity("pods"), Put: []checkpoint.Object{long}},
	})
	if err == nil {
		t.Fatal("a name that can't be kept is committed")
	}
	if got := contents(t, s); len(got) > 0 {
		t.Errorf("a commit that failed has left %v", got)
	}
}

func TestClosed(t *testing.T) {
	path := inTemp(t)
	s := open(t, path)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, loadErr := s.Load(t.Context(), "k")
	_, keysErr := s.Keys()
	for what, err := range map[string]error{
		"Commit": s.Commit(t.Context(), []checkpoint.Delta{{Key: "k"}}), "Delete": s.Delete(t.Context(), "k"), "Load": loadErr, "Keys": keysErr,
	} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s after Close: %v, want one that wraps os.ErrClosed", what, err)
		}
	}
	open(t, path)
}

func TestMode(t *testing.T) {
	path := inTemp(t)
	open(t, path)
	for _, p := range []string{path, path + ".gvrwatch-lock"} {
		info, err := os.Stat(p)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v (%v), want 0600", p, info.Mode(), err)
		}
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 2 {
		t.Errorf("there are %q (%v), want the file and its lock", left, err)
	}
}

func TestCreatedAfterAKill(t *testing.T) {
	path := inTemp(t)
	if err := os.WriteFile(path+".gvrwatch-new", []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	if _, err := os.Stat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed process has left is still there: %v", err)
	}
}

// TestNeighbours keeps its hands off files that only look like its own.
func TestNeighbours(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"yarn.lock", "yarn.new"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("somebody's"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, filepath.Join(dir, "yarn"))
	for _, n := range []string{"yarn.lock", "yarn.new"} {
		if got := read(t, filepath.Join(dir, n)); string(got) != "somebody's" {
			t.Errorf("%s is now %q", n, got)
		}
	}
}

func TestRemovedWhileOpen(t *testing.T) {
	path := inTemp(t)
	d := checkpoint.Delta{Key: "k", Identity: identity("pods"), ResourceVersions: map[string]string{"one": "1"}}
	var fenced *checkpoint.FencedError
	s := open(t, path)
	commit(t, s, d)
	if err := os.Rename(path, path+".elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), []checkpoint.Delta{d}); !errors.As(err, &fenced) {
		t.Errorf("a file that is gone: %v, want a *FencedError", err)
	}
	sample(t, filepath.Join(t.TempDir(), "other"))
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), []checkpoint.Delta{d}); !errors.As(err, &fenced) {
		t.Errorf("another file in its place: %v, want a *FencedError", err)
	}
}

func TestCutOffWhileOpen(t *testing.T) {
	path := inTemp(t)
	s := open(t, path)
	d := checkpoint.Delta{Key: "k", Identity: identity("pods"), ResourceVersions: map[string]string{"one": "1"}}
	commit(t, s, d)
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), []checkpoint.Delta{d}); !errors.As(err, new(*checkpoint.CorruptError)) {
		t.Errorf("%v, want a *CorruptError", err)
	}
}

func TestSeveralGoroutines(t *testing.T) {
	s := open(t, inTemp(t))
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			key := fmt.Sprint("k-", i)
			for n := range 10 {
				commit(t, s, checkpoint.Delta{Key: key, Identity: identity("pods"), ResourceVersions: map[string]string{"one": fmt.Sprint(n)}})
				if c := load(t, s, key); c.Position.ResourceVersions["one"] != fmt.Sprint(n) {
					t.Errorf("%s is at %v, want %d", key, c.Position.ResourceVersions, n)
				}
			}
		})
	}
	running.Wait()
}

// TestOwnNames: what lies beside a file is none itself.
func TestOwnNames(t *testing.T) {
	for _, suffix := range []string{".gvrwatch-lock", ".gvrwatch-new"} {
		if _, err := file.Open(inTemp(t) + suffix); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v, want one that wraps fs.ErrInvalid", suffix, err)
		}
	}
}

func TestHugeUID(t *testing.T) {
	s := open(t, inTemp(t))
	o := checkpoint.Object{Name: "a", UID: types.UID(bytes.Repeat([]byte("u"), 40_000)), Unacked: true}
	d := checkpoint.Delta{Key: "k", Identity: identity("pods"), Told: []checkpoint.Object{o}}
	commit(t, s, d)
	if diff := cmp.Diff([]checkpoint.Object{o}, load(t, s, "k").Position.Objects); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	commit(t, s, checkpoint.Delta{Key: "k", Identity: identity("pods"), Settled: []checkpoint.ID{o.ID()}})
	if left := load(t, s, "k").Position.Objects; len(left) > 0 {
		t.Errorf("it is still there: %v", left)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	store, err := file.Open(filepath.Join(dir, "positions.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{
		Cluster: checkpoint.Cluster{UID: "1d5f..."}, // usually from stream.ClusterOf
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tracker.Close()
	// Give the tracker to streams: stream.Options.Checkpoint.
	c, err := store.Load(context.Background(), "deployments.apps")
	fmt.Println(c, err)
	// Output: <nil> <nil>
}
