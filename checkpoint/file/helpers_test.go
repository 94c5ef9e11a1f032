package file_test

import (
	stdcmp "cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

func open(t testing.TB, path string) *file.Store {
	t.Helper()
	s, err := file.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // may be called more than once
	return s
}

func closeStore(t testing.TB, s *file.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func commit(t testing.TB, s checkpoint.Store, deltas ...checkpoint.Delta) {
	t.Helper()
	if err := s.Commit(context.Background(), deltas); err != nil {
		t.Fatal(err)
	}
}

func tryCommit(s *file.Store, d checkpoint.Delta) error {
	return s.Commit(context.Background(), []checkpoint.Delta{d})
}

func load(t testing.TB, s checkpoint.Store, key string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := s.Load(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c != nil {
		c.Committed = time.Time{} // differs in each run
	}
	return c
}

func identity(resource string) checkpoint.Identity {
	return checkpoint.Identity{
		Cluster: checkpoint.Cluster{UID: "c0ffee", Address: "https://example.com:6443 sha256:1234"},
		Group:   "example.com", Resource: resource, StorageVersionHash: "hash=", Namespaces: []string{"one", "two"},
		LabelSelector: "a=b", FieldSelector: "metadata.name=c",
	}
}

// at returns a delta with a version and without objects.
func at(key, version string) checkpoint.Delta {
	return checkpoint.Delta{Key: key, Identity: identity("pods"), ResourceVersions: map[string]string{"one": version}}
}

// state is what a file holds, by key.
type state map[string]*checkpoint.Checkpoint

// contents loads everything.
func contents(s *file.Store) (state, error) {
	all := state{}
	for _, key := range s.Keys() {
		c, err := s.Load(context.Background(), key)
		if err != nil {
			return nil, err
		}
		c.Committed = time.Time{}
		all[key] = c
	}
	return all, nil
}

// attempt opens a file that may be damaged, and loads everything.
func attempt(path string) (state, error) {
	s, err := file.Open(path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return contents(s)
}

// diff ignores the order of objects.
func diff(want, got any) string {
	byID := cmpopts.SortSlices(func(a, b checkpoint.Object) bool { return compare(a, b) < 0 })
	return cmp.Diff(want, got, byID, cmpopts.EquateEmpty())
}

func compare(a, b checkpoint.Object) int {
	return stdcmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
		stdcmp.Compare(a.UID, b.UID))
}

func inTemp(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "positions.db")
}

// inMemory is for thousands of files, which would be slow to write to a disk.
func inMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "checkpoint")
	if err != nil {
		return inTemp(t)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "positions.db")
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// isRefused reports whether an error says that a file can't be read.
func isRefused(err error) bool { return errors.As(err, new(*checkpoint.CorruptError)) }

// checkNames checks that an error is about one checkpoint, and says how to go on without losing the others.
func checkNames(t testing.TB, err error, key string) {
	t.Helper()
	named, advice := fmt.Sprintf(": checkpoint %q: ", key), ": delete the checkpoint (Store.Delete, "
	if !isRefused(err) || !strings.Contains(err.Error(), named) || !strings.Contains(err.Error(), advice) ||
		strings.Contains(err.Error(), "move it away") {
		t.Errorf("%v, want a *CorruptError with %q and %q", err, named, advice)
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header returns the header of a record.
func header(length uint64, sum uint32) []byte {
	b := binary.LittleEndian.AppendUint64(nil, length)
	b = binary.LittleEndian.AppendUint32(b, sum)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// record returns a file of one record, whose header has the given length.
func record(payload string, length uint64) []byte {
	b := append([]byte(firstLine), header(length, crc32.Checksum([]byte(payload), castagnoli))...)
	return append(b, payload...)
}

// of returns encoded texts.
func of(texts ...string) (all string) {
	for _, s := range texts {
		all += string(binary.AppendUvarint(nil, uint64(len(s)))) + s
	}
	return all
}
