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
	Watch bool // or a list
	// Exotic: the fast decoder may decline some of it.
	Exotic bool
}

// Frames are the events of a watch, each with its newline.
func (r Recorded) Frames() [][]byte {
	return slices.Collect(bytes.Lines(r.Data))
}

// exoticFiles: one has an object that has other fields than objects have, "Kind" among them.
var exoticFiles = map[string]bool{
	"frees.list.json": true, "frees.watch.ndjson": true,
	"expired.watch.ndjson": true, // an ERROR
	// Not lists of objects.
	"typeds-table.list.json": true,
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
