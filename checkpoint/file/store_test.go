package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

// odd are objects that some encodings would change.
var odd = []checkpoint.Object{
	{Name: "cluster-scoped", UID: "7f6a2d6e-0f57-4b4c-9f0e-0d6a1c9c1a11", ResourceVersion: "1"},
	{Namespace: "one", Name: "usual", UID: "00000000-0000-4000-8000-000000000001", ResourceVersion: "123456789"},
	{Namespace: "one", Name: "usual", UID: "00000000-0000-4000-8000-000000000002", ResourceVersion: "12"},
	{Namespace: "one", Name: "usual", UID: "pending"},
	{Namespace: "one", Name: "pending", UID: "00000000-0000-4000-8000-000000000003"},
	{Namespace: "one", Name: "no-uid", ResourceVersion: "#fake"},
	{Namespace: "one", Name: "nothing"},
	{Namespace: "one", Name: "upper", UID: "7F6A2D6E-0F57-4B4C-9F0E-0D6A1C9C1A11", ResourceVersion: "007"},
	{Name: "urn", UID: "urn:uuid:7f6a2d6e-0f57-4b4c-9f0e-0d6a1c9c1a11", ResourceVersion: "18446744073709551616"},
	{Namespace: "one", Name: "zero", UID: "00000000-0000-0000-0000-000000000000", ResourceVersion: "0"},
	{Namespace: "one", Name: "16-bytes", UID: "0123456789abcdef", ResourceVersion: "5"},
	{Namespace: "o", Name: "ne", UID: "u"}, {Namespace: "on", Name: "e", UID: "u"},
	{Namespace: "a\x00", Name: "b", UID: "u"}, {Namespace: "a", Name: "\x00b", UID: "u"},
	{Namespace: "two", Name: "Ünïcode.and:others/too \xff\xfe", UID: "u\x00v\xff", ResourceVersion: "-1"},
	{Name: strings.Repeat("long ", 100_000), UID: types.UID(strings.Repeat("u", 70_000)), ResourceVersion: "1"},
}

func TestUnusualObjectsAreStoredUnchanged(t *testing.T) {
	path := inTemp(t)
	s := open(t, path)
	d := at("odd", "5")
	d.Identity.Shard, d.Put, d.Partial, d.Rewound, d.Unclean = "s", odd, true, true, true
	want := &checkpoint.Checkpoint{Identity: d.Identity, Position: checkpoint.Position{
		ResourceVersions: d.ResourceVersions, Objects: odd, Partial: true, Rewound: true, Unclean: true,
	}}
	began := time.Now()
	commit(t, s, d)
	ended := time.Now()
	for _, where := range []string{"in a commit", "in a snapshot"} {
		closeStore(t, s)
		s = open(t, path)
		if c, err := s.Load(t.Context(), "odd"); err != nil || c.Committed.Before(began) || c.Committed.After(ended) {
			t.Errorf("%s: %v: committed at %v, which was after %v", where, err, c.Committed, began)
		}
		if diff := diff(want, load(t, s, "odd")); diff != "" {
			t.Errorf("%s it is not as it was (-want +got):\n%s", where, diff)
		}
		rewritten(t, s)
	}
	d = checkpoint.Delta{Key: "odd", Removed: slices.Clone(odd)}
	commit(t, s, d)
	if diff := diff(&checkpoint.Checkpoint{}, load(t, s, "odd")); diff != "" {
		t.Errorf("nothing should be left (-want +got):\n%s", diff)
	}
}

// TestModel: a file and a Memory have the same contents after the same random calls.
func TestModel(t *testing.T) {
	defer file.ReplaceFsync(func(*os.File) error { return nil })()
	snapshots := 0
	for seed := range seedtest.Default(3).All(t) {
		path, model, r := inMemory(t), &checkpoint.Memory{}, rand.New(rand.NewPCG(seed, 1))
		s := open(t, path)
		for i := range 100 {
			size := len(read(t, path))
			switch key := fmt.Sprint("key-", r.IntN(3)); r.IntN(12) {
			case 0:
				if err := errors.Join(s.Delete(t.Context(), key), model.Delete(t.Context(), key)); err != nil {
					t.Fatal(err)
				}
			case 1:
				closeStore(t, s)
				s = open(t, path)
			default:
				another := fmt.Sprint("key-", r.IntN(3))
				deltas := []checkpoint.Delta{randomDelta(r, key, i, 20_000), randomDelta(r, another, i, 1)}
				commit(t, s, deltas...)
				commit(t, model, deltas...)
			}
			if len(read(t, path)) < size {
				snapshots++
			}
			if diff := diff(model.Keys(), s.Keys()); diff != "" {
				t.Fatalf("keys (-want +got):\n%s", diff)
			}
			if i%5 > 0 {
				continue
			}
			for _, key := range s.Keys() {
				if diff := diff(load(t, model, key), load(t, s, key)); diff != "" {
					t.Fatalf("%s (-want +got):\n%s", key, diff)
				}
			}
		}
	}
	if snapshots == 0 {
		t.Error("no snapshot was written")
	}
}

func randomDelta(r *rand.Rand, key string, version, longest int) checkpoint.Delta {
	d := at(key, fmt.Sprint(version))
	d.Identity.Resource = fmt.Sprint("r", r.IntN(3))
	d.Partial, d.Rewound, d.Unclean, d.Reset = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(10) == 0
	mentioned := map[checkpoint.Object]bool{} // all have one version
	for range r.IntN(40) {
		o := checkpoint.Object{
			Namespace: fmt.Sprint("ns-", r.IntN(3)), Name: fmt.Sprint("n-", r.IntN(20)),
			UID: types.UID(fmt.Sprint("u-", r.IntN(3))), ResourceVersion: fmt.Sprint(version),
		}
		if r.IntN(20) == 0 {
			o.Name = strings.Repeat("x", longest)
		}
		switch {
		case mentioned[o]:
		case r.IntN(3) == 0:
			d.Removed = append(d.Removed, o)
		default:
			d.Put = append(d.Put, o)
		}
		mentioned[o] = true
	}
	return d
}

// TestCommitIsIncremental: a commit of one object of many writes little.
func TestCommitIsIncremental(t *testing.T) {
	path := inTemp(t)
	all := objects(10_000, 1)
	s := fill(t, path, all)
	before := read(t, path)
	d := at("pods", "3000000")
	d.Put = all[5000:5001]
	commit(t, s, d)
	after, head := read(t, path), len(firstLine)
	if !bytes.HasPrefix(after[head:], before[head:]) || len(after)-len(before) > 1000 {
		t.Errorf("one object has changed, and the file went from %d to %d bytes", len(before), len(after))
	}
}

func TestClosedStoreRefusesEveryCall(t *testing.T) {
	path := inTemp(t)
	s := open(t, path)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, loadErr := s.Load(t.Context(), "k")
	for _, err := range []error{tryCommit(s, at("k", "1")), s.Delete(t.Context(), "k"), loadErr} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("after Close: %v, want one that wraps os.ErrClosed", err)
		}
	}
	open(t, path)
}

func TestZeroStoreIsAnError(t *testing.T) {
	var s file.Store
	_, loadErr := s.Load(t.Context(), "k")
	for _, err := range []error{tryCommit(&s, at("k", "1")), s.Delete(t.Context(), "k"), loadErr} {
		if err == nil || !strings.Contains(err.Error(), "file.Open") {
			t.Errorf("%v, want an error that names file.Open", err)
		}
	}
	if keys, err := s.Keys(), s.Close(); len(keys) > 0 || err != nil {
		t.Errorf("it has the keys %q (%v)", keys, err)
	}
}

// File and lock are readable only by their owner. Open does not touch files with similar names.
func TestOpenCreatesOnlyFileAndLock(t *testing.T) {
	path := inTemp(t)
	for _, suffix := range []string{".lock", ".new"} {
		write(t, path+suffix, []byte("somebody's"))
	}
	write(t, path+".gvrwatch-new", []byte("what a killed process has left"))
	rewritten(t, open(t, path))
	for _, p := range []string{path, path + ".gvrwatch-lock"} {
		info, err := os.Stat(p)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v (%v), want 0600", p, info.Mode(), err)
		}
	}
	left, err := filepath.Glob(path + "*")
	want := []string{path, path + ".gvrwatch-lock", path + ".lock", path + ".new"}
	if diff := diff(want, left); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got := read(t, path+".lock"); string(got) != "somebody's" {
		t.Errorf("another's file is now %q", got)
	}
}

// rewritten makes the Store rewrite its file as a small snapshot, with one commit after it.
func rewritten(t testing.TB, s *file.Store) {
	t.Helper()
	much := checkpoint.Delta{Key: "k", Put: []checkpoint.Object{{Name: strings.Repeat("x", 2<<20)}}}
	commit(t, s, much, checkpoint.Delta{Key: "k", Reset: true, Put: odd[:2]})
	commit(t, s, at("k", "snapshot"))
}

// The file was changed, removed or replaced while it was open.
func TestCommitToAChangedFileFails(t *testing.T) {
	replace := func(path string, b []byte) error {
		return errors.Join(os.WriteFile(path+".other", b, 0o600), os.Rename(path+".other", path))
	}
	for why, change := range map[string]func(path string, b []byte) error{
		"removed":                        func(p string, _ []byte) error { return os.Remove(p) },
		"emptied":                        func(p string, _ []byte) error { return os.Truncate(p, 0) },
		"cut off within the last record": func(p string, b []byte) error { return os.Truncate(p, int64(len(b)-1)) },
		"grown":                          func(p string, b []byte) error { return os.Truncate(p, int64(len(b)+1)) },
		"replaced by a shorter one":      func(p string, b []byte) error { return replace(p, b[:len(b)/2]) },
		"replaced by one of its length":  func(p string, b []byte) error { return replace(p, make([]byte, len(b))) },
	} {
		path := inTemp(t)
		s := open(t, path)
		commit(t, s, at("k", "1"))
		commit(t, s, at("k", "2"))
		if err := change(path, read(t, path)); err != nil {
			t.Fatal(err)
		}
		changed, missing := os.ReadFile(path)
		refused := isRefused
		if missing != nil {
			refused = func(err error) bool { return errors.As(err, new(*checkpoint.FencedError)) }
		}
		for range 2 {
			_, loadErr := s.Load(t.Context(), "k")
			for _, err := range []error{tryCommit(s, at("k", "3")), s.Delete(t.Context(), "k"), loadErr} {
				if !refused(err) {
					t.Errorf("%s: %v", why, err)
				}
			}
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(changed, after) {
			t.Errorf("%s: it was written to", why)
		}
	}
}

// A byte of an open file changes. The other checkpoints can be read, and the damaged one can be deleted.
func TestDamageIsNotCopiedIntoASnapshot(t *testing.T) {
	path := inTemp(t)
	s := open(t, path)
	rotten, large := at("k", "1"), at("other", "1")
	rotten.Put = []checkpoint.Object{{Name: "rotten"}}
	large.Put = []checkpoint.Object{{Name: strings.Repeat("x", 2<<20)}}
	commit(t, s, rotten)
	commit(t, s, at("other", "1"))
	b := read(t, path)
	b[bytes.Index(b, []byte("rotten"))] ^= 1
	write(t, path, b)
	commit(t, s, large)
	b = read(t, path)
	_, loadErr := s.Load(t.Context(), "k")
	for _, err := range []error{loadErr, tryCommit(s, at("other", "2"))} {
		checkNames(t, err, "k")
	}
	if got := load(t, s, "other").Position.Objects; len(got) != 1 || !bytes.Equal(b, read(t, path)) {
		t.Errorf("the other checkpoint has %d objects, want one and an unchanged file", len(got))
	}
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	commit(t, s, at("other", "2"))
	closeStore(t, s)
	all, err := attempt(path)
	if err != nil || len(all) != 1 || len(all["other"].Position.Objects) != 1 {
		t.Errorf("%v (%v), want the other checkpoint with its object", all, err)
	}
}

// The next commit succeeds.
func TestFailedCommitChangesNothing(t *testing.T) {
	var fails []bool // the next calls
	defer file.ReplaceFsync(func(*os.File) error {
		if len(fails) > 0 {
			fail := fails[0]
			if fails = fails[1:]; fail {
				return &os.PathError{Op: "sync", Err: errors.New("no space left on device")}
			}
		}
		return nil
	})()
	for _, tt := range []struct {
		fails []bool
		large bool
		why   string
	}{
		{[]bool{true}, false, "a commit"},
		{[]bool{true, true}, false, "a commit, and what it wrote can't be taken back for sure"},
		{[]bool{true}, true, "a snapshot"},
		{[]bool{false, true}, true, "its name: the next commit puts that on the disk first"},
		{[]bool{false, true, true}, true, "its name, twice: the second commit fails likewise"},
		{[]bool{false, false, true}, true, "the commit after a snapshot"},
	} {
		path := inTemp(t)
		s := open(t, path)
		commit(t, s, at("k", "1"))
		if tt.large {
			large := at("large", "1")
			large.Put = []checkpoint.Object{{Name: strings.Repeat("x", 2<<20)}}
			commit(t, s, large)
		}
		fails = tt.fails
		if err := tryCommit(s, at("k", "something to cut off")); !errors.As(err, new(*os.PathError)) {
			t.Errorf("%s: %v, want a *PathError", tt.why, err)
		}
		if len(fails) > 0 {
			_ = tryCommit(s, at("k", "something to cut off"))
		}
		for _, want := range []string{"1", "2"} {
			write(t, path+want, read(t, path))
			for _, s := range []*file.Store{s, open(t, path+want)} {
				if got := load(t, s, "k").Position.ResourceVersions["one"]; got != want {
					t.Errorf("%s: it is at %q, want %s", tt.why, got, want)
				}
			}
			commit(t, s, at("k", "2"))
		}
	}
}

// The contents and the file's name are on disk.
func TestCommitIsDurableWhenItReturns(t *testing.T) {
	path := inTemp(t)
	var synced []byte                // what fsync was called for last
	var written, named []os.FileInfo // the file that was, and the one with the name on the disk
	stat := func(f func() (os.FileInfo, error)) []os.FileInfo {
		info, err := f()
		if err != nil {
			t.Fatal(err)
		}
		return []os.FileInfo{info}
	}
	here := func() (os.FileInfo, error) { return os.Stat(path) }
	check := func(when string) {
		if !os.SameFile(written[0], stat(here)[0]) || !bytes.Equal(synced, read(t, path)) {
			t.Errorf("%s: the file is not on the disk", when)
		}
	}
	defer file.ReplaceFsync(func(f *os.File) error {
		if info := stat(f.Stat); info[0].IsDir() {
			check("when its name is put on the disk")
			named = stat(here)
		} else {
			synced, written = read(t, f.Name()), info
		}
		return nil
	})()
	s := open(t, path)
	for i := range 30 {
		d := at("k", fmt.Sprint(i))
		d.Put = []checkpoint.Object{{Name: strings.Repeat("x", 100_000)}}
		commit(t, s, d)
		check(fmt.Sprint("commit ", i))
		if !os.SameFile(named[0], stat(here)[0]) {
			t.Errorf("commit %d: the name of the file is not on the disk", i)
		}
	}
	// A process may have been killed between renaming the file and syncing its folder.
	closeStore(t, s)
	named = nil
	if open(t, path); named == nil {
		t.Error("after the next start the name is not on the disk")
	}
}

func TestStoreAllowsConcurrentCalls(t *testing.T) {
	s := open(t, inTemp(t))
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			key := fmt.Sprint("k-", i)
			for n := range 10 {
				commit(t, s, at(key, fmt.Sprint(n)))
				got := load(t, s, key).Position.ResourceVersions["one"]
				if got != fmt.Sprint(n) || !slices.Contains(s.Keys(), key) {
					t.Errorf("%s is at %s, want %d", key, got, n)
				}
			}
		})
	}
	running.Wait()
}

// What stands at the name is looked at with each commit: a copy is as good as the file, and what is no file is not
// final, since somebody may put the file back.
func TestFileIsKnownByItsName(t *testing.T) {
	for _, tc := range []struct {
		why    string
		change func(path string) error
		ok     bool
	}{
		{"a copy", func(p string) error {
			b, err := os.ReadFile(p)
			return errors.Join(err, os.WriteFile(p+".copy", b, 0o600), os.Rename(p+".copy", p))
		}, true},
		{"a directory", func(p string) error { return errors.Join(os.Rename(p, p+".old"), os.Mkdir(p, 0o700)) }, false},
		{"a link to the file", func(p string) error {
			return errors.Join(os.Rename(p, p+".old"), os.Symlink(p+".old", p))
		}, false},
	} {
		path := inTemp(t)
		s := open(t, path)
		commit(t, s, at("k", "1"))
		if err := tc.change(path); err != nil {
			t.Fatal(err)
		}
		err := tryCommit(s, at("k", "2"))
		if tc.ok != (err == nil) || !tc.ok && (isRefused(err) || !errors.As(err, new(*os.PathError))) {
			t.Errorf("%s: %v, accepted must be %v", tc.why, err, tc.ok)
		}
		if tc.ok {
			continue
		}
		if err := errors.Join(os.Remove(path), os.Rename(path+".old", path)); err != nil {
			t.Fatal(err)
		}
		commit(t, s, at("k", "2"))
	}
}
