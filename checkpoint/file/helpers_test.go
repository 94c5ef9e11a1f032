package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

func open(t testing.TB, path string) *file.Store {
	t.Helper()
	s, err := file.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // more than once is no harm
	return s
}

func commit(t testing.TB, s checkpoint.Store, deltas ...checkpoint.Delta) {
	t.Helper()
	if err := s.Commit(context.Background(), deltas); err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, s checkpoint.Store, key string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := s.Load(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c != nil {
		c.Committed = time.Time{} // is another one each time
	}
	return c
}

func identity(resource string) checkpoint.Identity {
	return checkpoint.Identity{
		Cluster: checkpoint.Cluster{UID: "c0ffee", Address: "https://example.com:6443 sha256:1234"}, Group: "example.com", Resource: resource,
		StorageVersionHash: "hash=", Namespaces: []string{"one", "two"}, LabelSelector: "a=b", FieldSelector: "metadata.name=c", Objects: true,
	}
}

func name(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// odd are objects that not every encoding gives back as they were.
var odd = []checkpoint.Object{
	{Name: "cluster-scoped", UID: "7f6a2d6e-0f57-4b4c-9f0e-0d6a1c9c1a11", ResourceVersion: "1"},
	{Namespace: "one", Name: "usual", UID: "00000000-0000-4000-8000-000000000001", ResourceVersion: "18446744073709551615"},
	{Namespace: "one", Name: "hidden", UID: "00000000-0000-4000-8000-000000000002", ResourceVersion: "12", Hidden: true},
	{Namespace: "one", Name: "no-uid", ResourceVersion: "#fake"},
	{Namespace: "one", Name: "no-version", UID: "uid"},
	{Namespace: "one", Name: "upper", UID: "7F6A2D6E-0F57-4B4C-9F0E-0D6A1C9C1A11", ResourceVersion: "007"},
	{Namespace: "one", Name: "urn", UID: "urn:uuid:7f6a2d6e-0f57-4b4c-9f0e-0d6a1c9c1a11", ResourceVersion: "18446744073709551616"},
	{Namespace: "one", Name: "zero", UID: "00000000-0000-0000-0000-000000000000", ResourceVersion: "0"},
	{Namespace: "two", Name: "Ünïcode.and:others/too", UID: "u\x00v", ResourceVersion: "-1"},
	{Namespace: "one", Name: "usual", UID: "another-1", ResourceVersion: "20", Unacked: true},
	{Namespace: "one", Name: "usual", UID: "another-2", ResourceVersion: "21", Unacked: true},
}

// split is how objects come in a delta.
func split(objects []checkpoint.Object) (put, told []checkpoint.Object) {
	for _, o := range objects {
		if o.Unacked {
			told = append(told, o)
		} else {
			put = append(put, o)
		}
	}
	return put, told
}

// sample makes a file with two checkpoints and returns what is in it, by key.
func sample(t testing.TB, path string) map[string]*checkpoint.Checkpoint {
	t.Helper()
	s := open(t, path)
	put, told := split(odd)
	commit(t, s, checkpoint.Delta{Key: "pods", Identity: identity("pods"), Put: put, Told: told, ResourceVersions: map[string]string{"one": "100"}})
	commit(t, s, checkpoint.Delta{Key: "widgets.example.com", Identity: identity("widgets"), Partial: true, Unclean: true, ResourceVersions: map[string]string{"one": "101", "two": "102"}})
	commit(t, s, checkpoint.Delta{Key: "pods", Identity: identity("pods"), Gone: []types.NamespacedName{name("one", "hidden")}, ResourceVersions: map[string]string{"one": "103", "two": "104"}})
	all := contents(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

func contents(t testing.TB, s *file.Store) map[string]*checkpoint.Checkpoint {
	t.Helper()
	keys, err := s.Keys()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*checkpoint.Checkpoint{}
	for _, key := range keys {
		all[key] = load(t, s, key)
	}
	return all
}

// attempt opens a file that may be damaged, and loads all there is.
func attempt(t testing.TB, path string) (map[string]*checkpoint.Checkpoint, error) {
	t.Helper()
	s, err := file.Open(path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	keys, err := s.Keys()
	if err != nil {
		return nil, err
	}
	all := map[string]*checkpoint.Checkpoint{}
	for _, key := range keys {
		c, err := s.Load(context.Background(), key)
		if err != nil {
			return nil, err
		}
		c.Committed = time.Time{}
		all[key] = c
	}
	return all, nil
}

// checkDamaged holds a damaged file to the promise: what was committed, or a
// *CorruptError (or *FormatError); and it is left as it is.
func checkDamaged(t testing.TB, path string, damaged []byte, want ...map[string]*checkpoint.Checkpoint) {
	t.Helper()
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := attempt(t, path)
	var corrupt *checkpoint.CorruptError
	var format *checkpoint.FormatError
	if err != nil {
		if !errors.As(err, &corrupt) && !errors.As(err, &format) {
			t.Errorf("the error is no *CorruptError: %v", err)
		}
		after, readErr := os.ReadFile(path)
		if readErr != nil || string(after) != string(damaged) {
			t.Errorf("the file was changed (%v) by an attempt that failed: %v", readErr, err)
		}
		return
	}
	diff := ""
	for _, w := range want {
		if diff = cmp.Diff(w, got); diff == "" {
			return
		}
	}
	t.Errorf("it holds what never was committed (-want +got):\n%s", diff)
}

func inTemp(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "positions.db")
}
