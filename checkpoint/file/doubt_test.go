package file_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

// fullDisk refuses to make a file longer, or with inPlace unset to write at all.
type fullDisk struct {
	file.Disk
	full, inPlace bool
}

func (d *fullDisk) WriteAt(f *os.File, b []byte, at int64) (int, error) {
	info, err := f.Stat()
	if err == nil && d.full && (!d.inPlace || at+int64(len(b)) > info.Size()) {
		err = &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	if err != nil {
		return 0, err
	}
	return d.Disk.WriteAt(f, b, at)
}

func newFullDisk(t *testing.T) *fullDisk {
	d := &fullDisk{inPlace: true}
	t.Cleanup(file.ReplaceDisk(func(real file.Disk) file.Disk { d.Disk = real; return d }))
	return d
}

// A process marks the file because its commits fail, or does not, and is killed. The script is what the next processes
// do, each ended by a kill.
func TestUncleanIsInherited(t *testing.T) {
	for _, tt := range []struct {
		script string // of words: see the switch
		want   string // the keys that are Unclean in the process after it, "none" among them if it has no checkpoint
		why    string
	}{
		{"", "", "nothing was marked"},
		{"mark", "a b none", "any key may lack objects, and one without a checkpoint may have delivered some"},
		{"mark unmark", "", "the process has committed everything itself"},
		{"mark kill", "a b none", "a process that commits nothing leaves the mark"},
		{"mark kill commit-a", "b", "b says so itself, and the Tracker knows of a what to commit"},
		{"mark kill commit-a kill commit-b", "", "both are committed"},
		{"mark kill commit-a commit-b", "", "both are committed, in one process"},
		{"mark kill full commit-a", "a b none", "that commit has failed"},
		{"mark kill full commit-a mark room commit-a", "a b none", "it may have delivered more meanwhile"},
		{"mark kill full commit-a mark room commit-a unmark", "b", "... when all is committed"},
		{"mark kill delete-none", "a b", "that key begins from the beginning"},
		{"mark kill delete-a", "b", "likewise"},
		{"mark rewrite", "a b none", "a new file has the mark, too"},
		{"mark kill rewrite", "b", "the marks of the others are in the snapshot"},
		{"full mark", "a b none", "it is overwritten in place"},
		{"readonly mark", "", "if even that fails, nothing is known"},
	} {
		t.Run(strings.ReplaceAll(tt.script, " ", ","), func(t *testing.T) {
			disk, path := newFullDisk(t), inMemory(t)
			s := open(t, path)
			commit(t, s, at("a", "1"), at("b", "1"))
			for _, word := range strings.Fields(tt.script) {
				do, key, _ := strings.Cut(word, "-")
				var err error
				switch do {
				case "mark", "unmark":
					err = s.MarkUnclean(t.Context(), do == "mark")
				case "commit":
					err = tryCommit(s, at(key, "2"))
				case "delete":
					err = s.Delete(t.Context(), key)
				case "rewrite":
					rewrite(t, s, "a")
				case "full", "readonly", "room":
					disk.full, disk.inPlace = do != "room", do != "readonly"
				case "kill":
					s = reopened(t, s, path)
				}
				if errors.Is(err, syscall.ENOSPC) == disk.full && (do == "commit" || !disk.inPlace) {
					continue
				} else if err != nil {
					t.Fatalf("%s: %v", word, err)
				}
			}
			disk.full = false
			s = reopened(t, s, path)
			var got []string
			for _, key := range []string{"a", "b", "none"} {
				if c := load(t, s, key); c != nil && c.Position.Unclean {
					got = append(got, key)
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tt.why, diff)
			}
			if diff := cmp.Diff(2, len(s.Keys())); diff != "" && !strings.Contains(tt.script, "delete-a") {
				t.Errorf("keys: -want +got:\n%s", diff)
			}
		})
	}
}

// In the process itself the Tracker knows what the file lacks.
func TestOwnMarkIsNotLoaded(t *testing.T) {
	s := open(t, inMemory(t))
	commit(t, s, at("a", "1"))
	if err := s.MarkUnclean(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if c, none := load(t, s, "a"), load(t, s, "none"); c.Position.Unclean || none != nil {
		t.Errorf("%+v and %v, want a clean position and none", c.Position, none)
	}
}

// reopened returns the Store of the next process, after a kill.
func reopened(t *testing.T, s *file.Store, path string) *file.Store {
	t.Helper()
	content := read(t, path)
	closeStore(t, s)
	write(t, path, content)
	return open(t, path)
}

// rewrite makes the Store write a snapshot, and commits to a key.
func rewrite(t *testing.T, s *file.Store, key string) {
	t.Helper()
	large := at(key, "2")
	large.Put = []checkpoint.Object{longObject}
	commit(t, s, large)
	commit(t, s, at(key, "3"))
}
