package main

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const repository = "../.."

// dockerfile is what a Dockerfile says, one stage after the other.
type dockerfile []stage

type stage struct {
	from         string
	instructions [][2]string // the name, and its arguments
}

func readDockerfile(t *testing.T) (d dockerfile) {
	t.Helper()
	for line := range strings.Lines(string(contentOf(t, "deploy/Dockerfile"))) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		if name == "FROM" {
			d = append(d, stage{from: args})
			continue
		}
		last := &d[len(d)-1]
		last.instructions = append(last.instructions, [2]string{name, args})
	}
	return d
}

// clone copies the files that a clone of the work tree would have.
func clone(t *testing.T) string {
	t.Helper()
	list, err := exec.Command("git", "-C", repository, "ls-files", "-z", "--cached", "--others", "--exclude-standard").
		Output()
	if err != nil {
		t.Skipf("needs git and a clone: %v", err)
	}
	to := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(repository, name), filepath.Join(to, name)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) { // deleted, not committed
			t.Fatal(err)
		}
	}
	return to
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// TestImage does what the first stage of the Dockerfile says in a clone, as there may be no builder of images here:
// what it copies is enough, and what it builds is static and stripped. The image runs it as a user who is not root.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles the relay")
	}
	d := readDockerfile(t)
	if len(d) != 2 {
		t.Fatalf("%d stages, want 2", len(d))
	}
	source, root := clone(t), t.TempDir()
	inImage := func(dir, name string) string {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return filepath.Join(root, name)
	}
	dir, env := "/", os.Environ()
	for _, i := range d[0].instructions {
		name, args := i[0], i[1]
		switch name {
		case "WORKDIR":
			dir = args
			if err := os.MkdirAll(inImage(dir, ""), 0o755); err != nil {
				t.Fatal(err)
			}
		case "ENV":
			env = append(env, strings.Fields(args)...)
		case "COPY":
			words := strings.Fields(args)
			to := inImage(dir, words[len(words)-1])
			for _, from := range words[:len(words)-1] {
				found := filepath.Join(source, from)
				err := filepath.WalkDir(found, func(file string, e fs.DirEntry, err error) error {
					if err != nil || e.IsDir() {
						return err
					}
					in, err := filepath.Rel(found, file)
					if file == found {
						in = filepath.Base(file)
					}
					return errors.Join(err, copyFile(file, filepath.Join(to, in)))
				})
				if err != nil {
					t.Fatalf("COPY %s: %v", args, err)
				}
			}
		case "RUN":
			script := regexp.MustCompile(`--mount=\S+ `).ReplaceAllString(args, "")
			script = strings.ReplaceAll(script, " /out/", " "+root+"/out/")
			cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
			cmd.Dir, cmd.Env = inImage(dir, ""), env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("RUN %s: %v\n%s", args, err, out)
			}
		default:
			t.Fatalf("unknown instruction %s", name)
		}
	}
	built := filepath.Join(root, "out/relay")
	if out, err := exec.CommandContext(t.Context(), built, "--help").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	binary, err := elf.Open(built)
	if err != nil {
		t.Skipf("not built for Linux: %v", err)
	}
	defer binary.Close()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary is not static: it has an interpreter")
		}
	}
	if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("the binary needs libraries %q, %v", libraries, err)
	}
	if binary.Section(".symtab") != nil || binary.Section(".debug_info") != nil {
		t.Error("the binary is not stripped")
	}

	pod := readDeployed(t).deployment.Spec.Template.Spec
	var user, entrypoint string
	for _, i := range d[1].instructions {
		switch i[0] {
		case "USER":
			user, _, _ = strings.Cut(i[1], ":")
		case "ENTRYPOINT":
			entrypoint = i[1]
		case "COPY":
			if i[1] != "--from=build /out/relay /relay" {
				t.Errorf("COPY %s", i[1])
			}
		}
	}
	var command []string
	if err := json.Unmarshal([]byte(entrypoint), &command); err != nil || !slices.Equal(command, []string{"/relay"}) {
		t.Errorf("ENTRYPOINT %s, %v", entrypoint, err)
	}
	if want := *pod.SecurityContext.RunAsUser; user != "65532" || want != 65532 {
		t.Errorf("USER %s, and runAsUser %d in the manifest", user, want)
	}
	for _, s := range d {
		if image, _, _ := strings.Cut(s.from, " "); !regexp.MustCompile(`.:.*\d.*|-debian\d+:`).MatchString(image) {
			t.Errorf("FROM %s: no version", s.from)
		}
	}
}
