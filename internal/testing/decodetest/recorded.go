package decodetest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Recorded is a file of testdata/objects.
type Recorded struct {
	Name  string
	Data  []byte
	Watch bool // else it is a list
	// Exotic says that package decode may decline some of it.
	Exotic bool
}

// Frames returns the events of a watch, each with its line end.
func (r Recorded) Frames() [][]byte {
	return slices.Collect(bytes.Lines(r.Data))
}

// exoticFiles are the files with Exotic data.
var exoticFiles = map[string]bool{
	"frees.list.json":        true, // has an object with a field "Kind"
	"frees.watch.ndjson":     true, // the same
	"expired.watch.ndjson":   true, // an ERROR
	"typeds-table.list.json": true, // not a list of objects
}

// ReadRecorded reads the folder testdata/objects.
func ReadRecorded(t testing.TB, folder string) []Recorded {
	t.Helper()
	var all []Recorded
	for _, pattern := range []string{"*.list.json", "*.watch.ndjson"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s in %s: %v", pattern, folder, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(file)
			all = append(all, Recorded{name, data, filepath.Ext(name) == ".ndjson", exoticFiles[name]})
		}
	}
	return all
}
