package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// code matches a block of code, in which ](x) is no link.
var code = regexp.MustCompile("(?ms)^```.*?^```$")

var (
	link     = regexp.MustCompile(`\]\(([^)#: ]*)(?:#([^) ]+))?\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noAnchor = regexp.MustCompile(`[^a-z0-9 _-]`) // what an anchor lacks of its heading
)

// TestLinksExist: relative links lead to a file or folder, and to a heading in it.
func TestLinksExist(t *testing.T) {
	for _, file := range documents(t) {
		for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, file), ""), -1) {
			to := file
			if found[1] != "" {
				to = filepath.Join(filepath.Dir(file), found[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
			} else if found[2] != "" && !anchors(t, to)[found[2]] {
				t.Errorf("%s: %s has no heading #%s", filepath.Base(file), filepath.Base(to), found[2])
			}
		}
	}
}

// anchors returns the anchors of the headings of a document.
func anchors(t *testing.T, file string) map[string]bool {
	all := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(code.ReplaceAllString(read(t, file), ""), -1) {
		plain := noAnchor.ReplaceAllString(strings.ToLower(found[1]), "")
		all[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return all
}

var goFile = regexp.MustCompile("`((?:[a-z0-9]+/)+[a-z_]+\\.go)`")

// TestNamedFilesExist: a Go file that a document names by its path, as in `stream/stream.go`, is there.
func TestNamedFilesExist(t *testing.T) {
	for _, file := range documents(t) {
		for _, found := range goFile.FindAllStringSubmatch(read(t, file), -1) {
			if _, err := os.Stat(filepath.Join(root, found[1])); err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
			}
		}
	}
}

// testName matches a test, and names of its cases in parentheses.
var testName = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz|Example)\\w*)`(?: \\(([^)]*)\\))?")

// TestNamedTestsExist: a test that a document names, as in `stream.TestFaults` ("reset"), is in the package.
func TestNamedTestsExist(t *testing.T) {
	for _, file := range documents(t) {
		text := strings.Join(strings.Fields(read(t, file)), " ")
		for _, found := range testName.FindAllStringSubmatch(text, -1) {
			dir := found[1]
			if !strings.Contains(tests(t, dir), "\nfunc "+found[2]+"(") {
				t.Errorf("%s: package %s has no %s", filepath.Base(file), dir, found[2])
			}
			for _, name := range strings.Split(found[3], ", ") {
				if strings.HasPrefix(name, `"`) && !strings.Contains(tests(t, dir), name) {
					t.Errorf("%s: package %s has no test case %s", filepath.Base(file), dir, name)
				}
			}
		}
	}
}

// tests returns the text of a package's test files.
func tests(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		all.WriteString(read(t, file))
	}
	return all.String()
}

// promise matches the heading of a package, or the wording of a promise.
var promise = regexp.MustCompile(`(?m)^## Package (\S+)$|^(> .*\n)+`)

// TestPromisesAreInPackageDocs: doc.go has each promise that docs/promises.md and the README quote, word for word.
func TestPromisesAreInPackageDocs(t *testing.T) {
	plain := strings.NewReplacer("[", "", "]", "", "`", "", "// ", " ", "//\n", "\n", "\n> ", " ", "*", "")
	words := func(text string) string { return strings.Join(strings.Fields(plain.Replace("\n"+text)), " ") }
	dir, doc, found := "", "", 0
	_, readme, ok := strings.Cut(read(t, filepath.Join(root, "README.md")), "## What it promises")
	if !ok {
		t.Fatal("README.md has no section of promises")
	}
	quotes := read(t, filepath.Join(root, "docs/promises.md")) + "\n## Package stream\n\n" + readme
	for _, part := range promise.FindAllStringSubmatch(quotes, -1) {
		if part[1] != "" {
			dir, doc = part[1], words(read(t, filepath.Join(root, part[1], "doc.go")))
			continue
		}
		found++
		if want := words(part[0]); !strings.Contains(doc, want) {
			t.Errorf("%s/doc.go does not say: %s", dir, want)
		}
	}
	if found < 13 {
		t.Errorf("found %d promises", found)
	}
}
