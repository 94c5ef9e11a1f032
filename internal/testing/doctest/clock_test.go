package doctest

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wall matches what takes the monotonic reading from a time, so that a jump of the clock would count as elapsed time.
var wall = regexp.MustCompile(`\.Unix(Milli|Micro|Nano)?\(|\.Round\(0\)|time\.(Unix|UnixMilli|UnixMicro)\(`)

// TestDurationsAreMonotonic: the library measures durations between times of time.Now, which a jump of the clock does
// not change.
func TestDurationsAreMonotonic(t *testing.T) {
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "examples" || d.Name() == ".ci") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		for n, line := range strings.Split(read(t, path), "\n") {
			if found := wall.FindString(line); found != "" {
				t.Errorf("%s:%d: %s drops the monotonic reading", path, n+1, found)
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("read %d files: %v", files, err)
	}
}
