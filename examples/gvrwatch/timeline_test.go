package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded returns the path of a recording of what exists.
func recorded(t *testing.T) string {
	t.Helper()
	skipIfShort(t)
	path := filepath.Join(t.TempDir(), "x.rec")
	status, _, stderr := runTool(t, "watch", "boats,oceans", "-A", "--record", path, "--until-synced")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	return path
}

var summaryLine = regexp.MustCompile(`<p id="summary"><bdi>cluster [^<]* · ([^·<]*) · [^·<]* UTC · ([^<]*)<`)

// TestTimeline: what is selected of a recording is on the page, and only that.
func TestTimeline(t *testing.T) {
	path := recorded(t)
	for _, c := range []struct {
		why          string
		args         []string
		names        []string // of those that exist
		what, counts string
	}{
		{"everything", nil, []string{"argo", "bounty", "pacific"}, "boats,oceans", "3 objects"},
		{"a type", []string{"boat"}, []string{"argo", "bounty"}, "boats,oceans, of that only boat", "2 objects"},
		{"a name", []string{"bt/argo"}, []string{"argo"}, "boats,oceans, of that only bt/argo", "1 object"},
		{"a namespace", []string{"boats", "-n", "harbour"}, []string{"bounty"},
			"boats,oceans, of that only boats in harbour", "1 object"},
		{"a pattern", []string{"*.cli.example.com", "-A"}, []string{"argo", "bounty", "pacific"},
			"boats,oceans, of that only *.cli.example.com", "3 objects"},
		{"types of events", []string{"--types", "added"}, []string{"argo", "bounty", "pacific"},
			"boats,oceans, of that only with ADDED", "3 objects"},
		{"types of events that nothing has", []string{"--types", "DELETED,MODIFIED"}, nil,
			"boats,oceans, of that only with DELETED,MODIFIED", "0 objects"},
	} {
		page := filepath.Join(t.TempDir(), "page.html")
		status, stdout, stderr := runTool(t, slices.Concat([]string{"timeline", path, "-o", page}, c.args)...)
		if empty := strings.Contains(stderr, "no events"); status != 0 || stdout != "" || empty != (c.names == nil) {
			t.Fatalf("%s: status %d, stdout %q, stderr %s", c.why, status, stdout, stderr)
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"argo", "bounty", "pacific"} {
			if has := bytes.Contains(text, []byte(`"`+name+`"`)); has != slices.Contains(c.names, name) {
				t.Errorf("%s: the page has %s: %v", c.why, name, has)
			}
		}
		found := summaryLine.FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s: the page has no title", c.why)
		}
		counts, _, _ := strings.Cut(string(found[2]), ":")
		if diff := cmp.Diff([]string{c.what, c.counts}, []string{string(found[1]), counts}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
		_, stdout, _ = runTool(t, slices.Concat([]string{"timeline", path, "-o", "-"}, c.args)...)
		if stdout != string(text) {
			t.Errorf("%s: stdout gets another page than the file", c.why)
		}
	}
}

// fakeTerminal is a writer that says it is one.
type fakeTerminal struct{ bytes.Buffer }

func (*fakeTerminal) Size() (columns, rows int) { return 80, 24 }

func TestTimelineRefuses(t *testing.T) {
	path, dir := recorded(t), t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	page, link := filepath.Join(dir, "page.html"), filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		why    string
		args   []string
		status int
		want   string
	}{
		{"no file", []string{"-o", page}, statusUsage, "missing FILE"},
		{"no page", []string{path}, statusUsage, "missing --output"},
		{"a type of events that no object has", []string{path, "-o", page, "--types", "GAP"}, statusUsage,
			"--types=GAP: must be of ADDED, MODIFIED and DELETED"},
		{"no selector", []string{path, "-o", page, "-l", "a=b=c"}, statusUsage, "--selector=a=b=c"},
		{"a file that does not exist", []string{path + "x", "-o", page}, statusError, "no such file"},
		{"a file that is empty", []string{file("empty", ""), "-o", page}, statusError, "it is empty"},
		{"a file that is no recording", []string{file("other", "some text\n"), "-o", page}, statusError,
			"must be what --record has written"},
		{"JSON that is no recording", []string{file("json", "{}\n"), "-o", page}, statusError, "invalid recording"},
		{"a type that the recording does not have", []string{path, "pods", "-o", page}, statusError,
			`the recording has no resource "pods": it has boats.v1.cli.example.com, oceans.v1.cli.example.com`},
		{"the recording itself", []string{path, "-o", path}, statusError, "is the recording"},
		{"a link to the recording", []string{path, "-o", link}, statusError, "is the recording"},
		{"a folder that does not exist", []string{path, "-o", filepath.Join(dir, "x", "y")}, statusError,
			"no such file"},
		{"a folder", []string{path, "-o", dir}, statusError, "is a directory"},
		{"a terminal", []string{path, "-o", "-"}, statusError, "stdout is a terminal"},
	} {
		out := &fakeTerminal{}
		status, stderr := runToolTo(t, out, append([]string{"timeline"}, c.args...)...)
		if status != c.status || !strings.Contains(stderr, c.want) || out.Len() > 0 {
			t.Errorf("%s: status %d, stdout %q, stderr %s", c.why, status, &out.Buffer, stderr)
		}
	}
	if _, err := os.Stat(page); err == nil {
		t.Error("there is a page")
	}
	if _, _, stderr := runTool(t, "timeline", path, "-o", page); stderr != "" {
		t.Errorf("the recording is not what it was: %s", stderr)
	}
}

// TestWriteFile: whoever opens the page sees the old one or the new one.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "page"), filepath.Join(dir, "link")
	if err := os.Symlink("page", link); err != nil {
		t.Skip(err)
	}
	full := errors.New("no space left on device")
	for _, c := range []struct {
		why, to, text string
		fails         error
		want          string
	}{
		{"a new file", path, "1", nil, "1"},
		{"it is replaced", path, "2", nil, "2"},
		{"a write that fails leaves it", path, "3", full, "2"},
		{"a link stays one", link, "4", nil, "4"},
	} {
		err := writeFile(c.to, func(w io.Writer) error {
			_, err := io.WriteString(w, c.text)
			return errors.Join(err, c.fails)
		})
		if !errors.Is(err, c.fails) {
			t.Errorf("%s: %v", c.why, err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: want %q, got %q, %v", c.why, c.want, got, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 2 {
			t.Errorf("%s: %v is left, %v", c.why, entries, err)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s: the link is none, %v", c.why, err)
		}
	}
}
