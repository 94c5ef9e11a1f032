package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

// platter is a disk that knows what of a folder has reached it. Only what was synced has for sure: of the writes to a
// file since then any may have, and of the changes of names the first ones.
type platter struct {
	file.Disk
	files   []*platterFile
	names   map[string]int // as the process sees them: the numbers of files
	synced  map[string]int
	renamed []map[string]int // what names was after each change since the folder was synced
	ops     int
	each    func(op string) error // called before each operation, which does not happen if it returns an error
}

type platterFile struct {
	synced []byte
	writes []func(b []byte) []byte
}

func newPlatter(t *testing.T, each func(op string) error) *platter {
	d := &platter{names: map[string]int{}, synced: map[string]int{}, each: each}
	t.Cleanup(file.ReplaceDisk(func(real file.Disk) file.Disk { d.Disk = real; return d }))
	return d
}

func (d *platter) next(format string, args ...any) error {
	d.ops++
	return d.each(fmt.Sprintf("operation %d: ", d.ops-1) + fmt.Sprintf(format, args...))
}

func (d *platter) rename(change func(names map[string]int)) {
	d.names = maps.Clone(d.names)
	change(d.names)
	d.renamed = append(d.renamed, d.names)
}

func (d *platter) write(path string, change func(b []byte) []byte) {
	f := d.files[d.names[path]]
	f.writes = append(f.writes, change)
}

func (d *platter) Create(path string) (*os.File, error) {
	if err := d.next("create"); err != nil {
		return nil, err
	}
	d.files = append(d.files, &platterFile{})
	d.rename(func(names map[string]int) { names[path] = len(d.files) - 1 })
	return d.Disk.Create(path)
}

func (d *platter) WriteAt(f *os.File, b []byte, at int64) (int, error) {
	if err := d.next("write %d bytes at %d", len(b), at); err != nil {
		return 0, err
	}
	first := min(len(b), 512-int(at%512)) // what is in one sector, and the rest, may reach the disk alone
	for i, part := range [][]byte{bytes.Clone(b[:first]), bytes.Clone(b[first:])} {
		from := int(at) + i*first
		d.write(f.Name(), func(was []byte) []byte {
			now := append(bytes.Clone(was), make([]byte, max(0, from+len(part)-len(was)))...)
			copy(now[from:], part)
			return now
		})
	}
	return d.Disk.WriteAt(f, b, at)
}

func (d *platter) Truncate(f *os.File, size int64) error {
	if err := d.next("truncate at %d", size); err != nil {
		return err
	}
	d.write(f.Name(), func(was []byte) []byte { return was[:min(len(was), int(size))] })
	return d.Disk.Truncate(f, size)
}

func (d *platter) Sync(f *os.File) error {
	info, err := f.Stat()
	if err == nil {
		err = d.next("sync, a folder: %v", info.IsDir())
	}
	switch {
	case err != nil:
		return err
	case info.IsDir():
		d.synced, d.renamed = d.names, nil
	default:
		on := d.files[d.names[f.Name()]]
		for _, change := range on.writes {
			on.synced = change(on.synced)
		}
		on.writes = nil
	}
	return d.Disk.Sync(f)
}

func (d *platter) Rename(from, to string) error {
	if err := d.next("rename"); err != nil {
		return err
	}
	d.rename(func(names map[string]int) {
		names[to] = names[from]
		delete(names, from)
	})
	return d.Disk.Rename(from, to)
}

func (d *platter) Remove(path string) error {
	if err := d.next("remove"); err != nil {
		return err
	}
	d.rename(func(names map[string]int) { delete(names, path) })
	return d.Disk.Remove(path)
}

// outcomes calls f with what the file may be after a power failure; nil for no file.
func (d *platter) outcomes(path string, f func(content []byte)) {
	seen := map[string]bool{}
	for _, names := range append([]map[string]int{d.synced}, d.renamed...) {
		n, ok := names[path]
		if !ok {
			f(nil)
			continue
		}
		on := d.files[n]
		for some := range 1 << min(len(on.writes), 6) {
			b := on.synced
			for i, change := range on.writes {
				if i >= 6 || some&(1<<i) != 0 {
					b = change(b)
				}
			}
			if !seen[string(b)] {
				seen[string(b)] = true
				f(append([]byte{}, b...))
			}
		}
	}
}

// step is a call of a Store.
type step struct {
	name    string
	do      func(s *file.Store) error
	unclean bool // the file is, after it
}

func steps(t *testing.T) []step {
	t.Cleanup(file.ReplaceSlack(4 << 10))
	put := func(key, version string, more ...checkpoint.Object) func(s *file.Store) error {
		d := at(key, version)
		d.Put = more
		return func(s *file.Store) error { return tryCommit(s, d) }
	}
	mark := func(unclean bool) func(s *file.Store) error {
		return func(s *file.Store) error { return s.MarkUnclean(t.Context(), unclean) }
	}
	return []step{
		{"commit a", put("a", "1", odd[:3]...), false},
		{"commit b", put("b", "2"), false},
		{"mark", mark(true), true},
		{"commit a", put("a", "3", odd[4]), true},
		{"unmark", mark(false), false},
		{"large commit", put("b", "4", checkpoint.Object{Name: strings.Repeat("x", 8<<10)}), false},
		{"mark", mark(true), true},
		{"commit and snapshot", put("b", "5"), true},
		{"delete", func(s *file.Store) error { return s.Delete(t.Context(), "a") }, true},
		{"commit a", put("a", "6"), true},
	}
}

// TestPowerFailureAtEveryOperation: after it the file is as it was before the call that was interrupted, or after it. A
// mark that was written before is there.
func TestPowerFailureAtEveryOperation(t *testing.T) {
	calls := steps(t)
	path, other := inMemory(t), inMemory(t)
	var disk *platter
	states, unclean, now := []string{""}, []bool{false}, 0
	type found struct {
		op      string
		call    int
		content string
		exists  bool
	}
	var all []found
	look := func(op string) error {
		disk.outcomes(path, func(b []byte) { all = append(all, found{op, now, string(b), b != nil}) })
		return nil
	}
	disk = newPlatter(t, look)
	s := open(t, path)
	states, unclean = append(states, text(state{})), append(unclean, false)
	for i, c := range calls {
		now = i + 1
		if err := c.do(s); err != nil {
			t.Fatal(err)
		}
		got, err := contents(s)
		if err != nil {
			t.Fatal(err)
		}
		states, unclean = append(states, text(got)), append(unclean, c.unclean)
	}
	now++
	_ = look("the end")
	disk.each = func(string) error { return nil }
	closeStore(t, s)
	states, unclean = append(states, states[now]), append(unclean, unclean[now])
	for _, f := range all {
		_ = os.Remove(other)
		if !f.exists {
			if f.call > 0 {
				t.Fatalf("%s: there is no file after call %d", f.op, f.call)
			}
			continue
		}
		write(t, other, []byte(f.content))
		s, err := file.Open(other)
		if err != nil {
			t.Fatalf("%s, in call %d: %v", f.op, f.call, err)
		}
		doubt, err := s.Load(t.Context(), "none")
		all, contentsErr := contents(s)
		if err = errors.Join(err, contentsErr, s.Close()); err != nil {
			t.Fatalf("%s, in call %d: %v", f.op, f.call, err)
		}
		for _, c := range all {
			c.Position.Unclean = false // that of this file stands for it
		}
		ok := false
		for _, i := range []int{f.call, f.call + 1} {
			ok = ok || text(all) == states[i] && (doubt != nil) == unclean[i]
		}
		if !ok {
			t.Fatalf("%s, in call %d: it is neither as before nor as after it, Unclean %v:\n%s",
				f.op, f.call, doubt != nil, text(all))
		}
	}
	t.Logf("%d outcomes", len(all))
	if left, _ := filepath.Glob(path + "*"); len(left) != 2 {
		t.Errorf("there are %q", left)
	}
}

// TestFailureOfEveryOperation: the call returns an error, or has succeeded. The next call works.
func TestFailureOfEveryOperation(t *testing.T) {
	failure := errors.New("an operation fails")
	calls := steps(t)
	for fails := 0; ; fails++ {
		var disk *platter
		op := ""
		disk = newPlatter(t, func(o string) error {
			if disk.ops-1 == fails {
				op = o
				return failure
			}
			return nil
		})
		path := inMemory(t)
		s, err := file.Open(path)
		if err != nil {
			s = open(t, path)
		}
		before, err := contents(s)
		for _, c := range calls {
			failed := c.do(s)
			after, loadErr := contents(s)
			if err = errors.Join(err, loadErr); err != nil {
				t.Fatalf("%s, in %s: %v", op, c.name, err)
			}
			if failed != nil && (!errors.Is(failed, failure) || text(before) != text(after)) {
				t.Fatalf("%s, in %s: %v, and it is no more as it was", op, c.name, failed)
			}
			if failed != nil {
				if again := c.do(s); again != nil {
					t.Fatalf("%s, in %s: after the failure: %v", op, c.name, again)
				}
				if after, err = contents(s); err != nil {
					t.Fatal(err)
				}
			}
			before = after
		}
		closeStore(t, s)
		if s, err = file.Open(path); err != nil {
			s = open(t, path)
		}
		if all, err := contents(s); err != nil || len(all) != 2 || all["a"].Position.ResourceVersions["one"] != "6" {
			t.Fatalf("%s: %v, %v", op, all, err)
		} else if load(t, s, "none") == nil {
			t.Fatalf("%s: it is not Unclean in the end", op)
		}
		closeStore(t, s)
		if disk.ops <= fails {
			t.Logf("%d operations", fails)
			return
		}
	}
}
