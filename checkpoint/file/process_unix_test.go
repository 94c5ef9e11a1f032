//go:build unix

package file_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

// childVariable makes the test binary another process that has a file open:
// "PATH" to commit to it until it is killed, "PATH LIMIT" to do so until it may not
// grow any more.
const childVariable = "GVRWATCH_FILE_CHILD"

func TestMain(m *testing.M) {
	order := strings.Fields(os.Getenv(childVariable))
	if len(order) == 0 {
		os.Exit(m.Run())
	}
	if err := child(order); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// child says on stdout how far it has come.
func child(order []string) error {
	s, err := file.Open(order[0])
	if err != nil {
		return err
	}
	if len(order) > 1 {
		limit, err := strconv.ParseUint(order[1], 10, 64)
		if err != nil {
			return err
		}
		signal.Ignore(syscall.SIGXFSZ)
		rlimit := syscall.Rlimit{Cur: limit, Max: limit}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &rlimit); err != nil {
			return err
		}
	}
	for n := 1; ; n++ {
		d := checkpoint.Delta{Key: "k", Identity: identity("pods"), ResourceVersions: map[string]string{"one": fmt.Sprint(n)}}
		for i := range 50 { // every object is at the version that the checkpoint is at
			d.Put = append(d.Put, checkpoint.Object{Namespace: "one", Name: fmt.Sprint("n-", i), ResourceVersion: fmt.Sprint(n)})
		}
		if len(order) > 1 { // and there are more and more
			d.Told = append(d.Told, checkpoint.Object{Name: strings.Repeat("x", 1000) + fmt.Sprint(n), ResourceVersion: fmt.Sprint(n), Unacked: true})
		}
		if err := s.Commit(context.Background(), []checkpoint.Delta{d}); err != nil {
			fmt.Println("refused at", n)
			return again(s, n, err)
		}
		fmt.Println("committed", n)
	}
}

// again checks that a Store goes on after a failed commit: with what there was,
// and with commits that find room.
func again(s *file.Store, n int, refused error) error {
	c, err := s.Load(context.Background(), "k")
	if err != nil || c.Position.ResourceVersions["one"] != fmt.Sprint(n-1) {
		return fmt.Errorf("after %v: %v, %v", refused, c, err)
	}
	small := checkpoint.Delta{Key: "k", Identity: identity("pods"), ResourceVersions: map[string]string{"one": fmt.Sprint(n)}}
	for i := 1; i < n; i++ {
		small.Settled = append(small.Settled, checkpoint.Object{Name: strings.Repeat("x", 1000) + fmt.Sprint(i)}.ID())
	}
	for range 3 {
		if err = s.Commit(context.Background(), []checkpoint.Delta{small}); err == nil {
			break
		}
	}
	fmt.Println("again:", err)
	return s.Close()
}

// startChild starts one and returns its lines.
func startChild(t *testing.T, order string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+order)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

func TestTwoProcesses(t *testing.T) {
	path := inTemp(t)
	cmd, lines := startChild(t, path)
	if !lines.Scan() {
		t.Fatal("the other process said nothing")
	}
	go func() {
		for lines.Scan() { // it must not wait for us
		}
	}()
	began := time.Now()
	_, err := file.Open(path)
	var locked *checkpoint.LockedError
	if !errors.As(err, &locked) || locked.Store != path || !strings.HasPrefix(locked.Holder, fmt.Sprintf("process %d on ", cmd.Process.Pid)) {
		t.Errorf("%v, want a *LockedError that names process %d", err, cmd.Process.Pid)
	}
	if waited := time.Since(began); waited > 10*time.Second {
		t.Errorf("it took %v to find out", waited)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	open(t, path)
}

// TestKilledWhileItCommits kills a process at random instants.
func TestKilledWhileItCommits(t *testing.T) {
	path := inTemp(t)
	for range 15 {
		cmd, lines := startChild(t, path)
		last := make(chan int)
		if !lines.Scan() {
			t.Fatal("the other process said nothing")
		}
		go func() {
			n := 0
			_, _ = fmt.Sscanf(lines.Text(), "committed %d", &n)
			for lines.Scan() {
				if m := 0; strings.HasPrefix(lines.Text(), "committed ") {
					if _, err := fmt.Sscanf(lines.Text(), "committed %d", &m); err == nil {
						n = m
					}
				}
			}
			last <- n
		}()
		time.Sleep(rand.N(60 * time.Millisecond)) // at any instant of its work
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		n := <-last
		_ = cmd.Wait()
		s := open(t, path)
		c := load(t, s, "k")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if n == 0 || c == nil {
			t.Fatalf("commit %d has left %v", n, c)
		}
		at, err := strconv.Atoi(c.Position.ResourceVersions["one"])
		if err != nil || at != n && at != n+1 {
			t.Fatalf("it is at %d (%v), and %d was committed", at, err, n)
		}
		for _, o := range c.Position.Objects {
			if o.ResourceVersion != fmt.Sprint(at) {
				t.Fatalf("it is at %d, and %s at %s", at, o.Name, o.ResourceVersion)
			}
		}
	}
}

// TestFull lets a file grow up to a limit of the system, as on a disk that is full.
func TestFull(t *testing.T) {
	path := inTemp(t)
	_, lines := startChild(t, path+" 200000")
	var said []string
	committed := 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "committed ") {
			committed++
		} else {
			said = append(said, lines.Text())
		}
	}
	if want := fmt.Sprintf("[refused at %d again: <nil>]", committed+1); fmt.Sprint(said) != want {
		t.Fatalf("after %d commits: %q, want %s", committed, said, want)
	}
	if c := load(t, open(t, path), "k"); c.Position.ResourceVersions["one"] != fmt.Sprint(committed+1) || len(c.Position.Objects) != 50 {
		t.Errorf("it is at %v", c.Position)
	}
}

func TestBadPaths(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	valid := filepath.Join(dir, "valid")
	sample(t, valid)
	dangling, lockedByPipe := filepath.Join(dir, "dangling"), filepath.Join(dir, "piped")
	err := errors.Join(os.Symlink(filepath.Join(dir, "nothing"), dangling), syscall.Mkfifo(lockedByPipe+".gvrwatch-lock", 0o600))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path string
		want error
		why  string
	}{
		{dir, syscall.EISDIR, "a directory"},
		{fifo, os.ErrInvalid, "a pipe: to open it would be to wait for ever"},
		{"/dev/null", os.ErrInvalid, "a device"},
		{filepath.Join(dir, "missing", "file"), os.ErrNotExist, "no such folder"},
		{filepath.Join(valid, "file"), syscall.ENOTDIR, "a file is no folder"},
		{filepath.Join(dir, strings.Repeat("n", 300)), syscall.ENAMETOOLONG, "a name that no file can have"},
		{"", os.ErrInvalid, "no name at all"},
		{dangling, os.ErrNotExist, "a link to what may not be mounted: there is no making it"},
		{lockedByPipe, os.ErrInvalid, "something else in the place of the lock"},
	}
	for _, tt := range tests {
		_, err := file.Open(tt.path)
		var pathError *os.PathError
		if !errors.Is(err, tt.want) || !errors.As(err, &pathError) {
			t.Errorf("%s: %v, want an *fs.PathError of %v", tt.why, err, tt.want)
		}
	}
}

func TestSymlink(t *testing.T) {
	path := inTemp(t)
	want := sample(t, path)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	s := open(t, link)
	var locked *checkpoint.LockedError
	began := time.Now()
	if _, err := file.Open(path); !errors.As(err, &locked) {
		t.Errorf("the same file under another name: %v, want a *LockedError", err)
	}
	if waited := time.Since(began); waited > time.Second {
		t.Errorf("it took %v to find out", waited)
	}
	if got := contents(t, s); len(got) != len(want) {
		t.Errorf("it holds %v", got)
	}
}
