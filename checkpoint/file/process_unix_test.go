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

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

// childVariable makes the test binary another process that has a file open: "PATH" to commit to it until it is killed,
// "PATH LIMIT" to do so until it may not grow any more, "watch PATH URL" to watch a server.
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

// child prints its progress to stdout.
func child(order []string) error {
	if order[0] == watchOrder {
		return watchAsChild(order[1], order[2])
	}
	s, err := file.Open(order[0])
	if err != nil {
		return err
	}
	if len(order) > 1 {
		signal.Ignore(syscall.SIGXFSZ)
		if err := limit(order[1]); err != nil {
			return err
		}
	}
	for n := 1; ; n++ {
		d := at("k", fmt.Sprint(n))
		for i := range 50 { // every object is at the version that the checkpoint is at
			d.Put = append(d.Put, checkpoint.Object{Name: fmt.Sprint("n-", i), ResourceVersion: fmt.Sprint(n)})
		}
		// Much of the file is soon outdated, so that snapshots are written.
		d.Put = append(d.Put, checkpoint.Object{Name: strings.Repeat("x", 60_000), ResourceVersion: fmt.Sprint(n)})
		if err := s.Commit(context.Background(), []checkpoint.Delta{d}); err != nil {
			fmt.Println("refused at", n)
			return again(s, d, n)
		}
		fmt.Println("committed", n)
	}
}

// limit is the maximal size of a file, which simulates a full disk.
func limit(bytes string) error {
	var r syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &r)
	if r.Cur = r.Max; bytes != "" {
		_, scanErr := fmt.Sscan(bytes, &r.Cur)
		err = errors.Join(err, scanErr)
	}
	return errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &r))
}

// again checks that a Store is unchanged after a failed commit, and can commit when there is room.
func again(s *file.Store, d checkpoint.Delta, n int) error {
	for range 2 {
		c, err := s.Load(context.Background(), "k")
		if err != nil || c.Position.ResourceVersions["one"] != fmt.Sprint(n-1) {
			return fmt.Errorf("after a commit that failed: %v, %v", c, err)
		}
		if err := s.Commit(context.Background(), []checkpoint.Delta{d}); !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("%v, want that there is no room", err)
		}
	}
	err := limit("")
	fmt.Println("again:", errors.Join(err, s.Commit(context.Background(), []checkpoint.Delta{d}), s.Close()))
	return nil
}

// startChild starts a child and returns the lines that it prints.
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

func TestSecondProcessGetsALockedError(t *testing.T) {
	path := inTemp(t)
	cmd, lines := startChild(t, path)
	if !lines.Scan() {
		t.Fatal("the other process said nothing")
	}
	go func() {
		for lines.Scan() { // it must not wait for us
		}
	}()
	_, err := file.Open(path)
	var locked *checkpoint.LockedError
	holder := fmt.Sprintf("process %d on ", cmd.Process.Pid)
	if !errors.As(err, &locked) || locked.Store != path || !strings.HasPrefix(locked.Holder, holder) {
		t.Errorf("%v, want a *LockedError that names %s", err, holder)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	open(t, path)
}

// Processes are killed at random instants.
func TestKilledProcessLosesNoCommit(t *testing.T) {
	path := inTemp(t)
	for range 10 * seedtest.Soak() {
		cmd, lines := startChild(t, path)
		n := 0
		for range 1 + rand.IntN(40) {
			lines.Scan()
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for ok := true; ok; ok = lines.Scan() { // what it printed before
			_, _ = fmt.Sscanf(lines.Text(), "committed %d\n", &n)
		}
		_ = cmd.Wait()
		s := open(t, path)
		c := load(t, s, "k")
		closeStore(t, s)
		if n == 0 || c == nil {
			t.Fatalf("commit %d has left %v", n, c)
		}
		at, err := strconv.Atoi(c.Position.ResourceVersions["one"])
		if err != nil || at != n && at != n+1 {
			t.Fatalf("it is at %d (%v), and %d was committed", at, err, n)
		}
		for _, o := range c.Position.Objects {
			if o.ResourceVersion != fmt.Sprint(at) {
				t.Fatalf("it is at %d, and an object at %s", at, o.ResourceVersion)
			}
		}
	}
}

func TestCommitBeyondTheSizeLimitChangesNothing(t *testing.T) {
	path := inTemp(t)
	_, lines := startChild(t, path+" 500000")
	var said []string
	committed := 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "committed ") {
			committed++
		} else {
			said = append(said, lines.Text())
		}
	}
	if want := fmt.Sprintf("[refused at %d again: <nil>]", committed+1); fmt.Sprint(said) != want || committed < 5 {
		t.Fatalf("after %d commits: %q, want %s", committed, said, want)
	}
	c := load(t, open(t, path), "k")
	if c.Position.ResourceVersions["one"] != fmt.Sprint(committed+1) || len(c.Position.Objects) != 51 {
		t.Errorf("it is at %v", c.Position.ResourceVersions)
	}
}

func TestOpenRefusesBadPaths(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	valid := filepath.Join(dir, "valid")
	write(t, valid, nil)
	dangling := filepath.Join(dir, "dangling")
	lockedByPipe, lockedByLink := filepath.Join(dir, "piped"), filepath.Join(dir, "linked")
	err := errors.Join(os.Symlink(filepath.Join(dir, "nothing"), dangling),
		syscall.Mkfifo(lockedByPipe+".gvrwatch-lock", 0o600), os.Symlink(valid, lockedByLink+".gvrwatch-lock"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path string
		want error
		why  string
	}{
		{dir, os.ErrInvalid, "a directory"},
		{fifo, os.ErrInvalid, "a pipe: to open it would be to wait for ever"},
		{"/dev/null", os.ErrInvalid, "a device"},
		{filepath.Join(dir, "missing", "file"), os.ErrNotExist, "no such folder"},
		{filepath.Join(valid, "file"), syscall.ENOTDIR, "a file is no folder"},
		{filepath.Join(dir, strings.Repeat("n", 300)), syscall.ENAMETOOLONG, "a name that no file can have"},
		{"", os.ErrInvalid, "no name at all"},
		{dangling, os.ErrNotExist, "a link to what may not be mounted: there is no making it"},
		{lockedByPipe, os.ErrInvalid, "something else in the place of the lock"},
		{lockedByLink, os.ErrInvalid, "a link there: what it leads to would be written to"},
	}
	for _, tt := range tests {
		_, err := file.Open(tt.path)
		var pathError *os.PathError
		if !errors.Is(err, tt.want) || !errors.As(err, &pathError) {
			t.Errorf("%s: %v, want an *fs.PathError of %v", tt.why, err, tt.want)
		}
	}
}

// What the lock file says may come from anybody who could write to it.
func TestHolderIsShortAndPrintable(t *testing.T) {
	path := inTemp(t)
	open(t, path)
	for _, tt := range []struct{ text, want, why string }{
		{"pod-ü (process 7)\n", "pod-ü (process 7)", "a usual one"},
		{"\x1b[2J\u202e\xff\r\n\u0085\x00x", "?[2J??????x", "what changes a terminal"},
		{strings.Repeat("\xff", 1<<20), strings.Repeat("?", 1<<10), "a long one"},
		{"", "", "an empty one"},
	} {
		write(t, path+".gvrwatch-lock", []byte(tt.text))
		_, err := file.Open(path)
		var locked *checkpoint.LockedError
		if !errors.As(err, &locked) || locked.Holder != tt.want {
			t.Errorf("%s: %v, want the holder %q", tt.why, err, tt.want)
		}
	}
}

// The rule is the same for the file and its lock.
func TestFileThatOthersCanWriteToIsRefused(t *testing.T) {
	const group = 4711
	mode := func(mode os.FileMode) func(string) error { return func(p string) error { return os.Chmod(p, mode) } }
	folder := func(mode os.FileMode) func(string) error {
		return func(p string) error { return errors.Join(os.Chmod(p, 0o660), os.Chmod(filepath.Dir(p), mode)) }
	}
	for _, tt := range []struct {
		change func(path string) error
		want   string // in the error; empty if the file is accepted
		why    string
	}{
		{mode(0o644), "", "others may read it"},
		{mode(0o620), "invalid mode -rw--w----", "its group can write to it"},
		{mode(0o602), "chmod go-w, or use a volume whose files have modes", "all others can"},
		{folder(0o770), "", "its group can replace it anyway: the kubelet does this to volumes with an fsGroup"},
		{folder(0o770 | os.ModeSticky), "chmod go-w", "but not if the folder is sticky"},
		{folder(0o755), "chmod go-w", "nor if only the user can write to the folder"},
		{func(p string) error { return os.Link(p, p+"-2") }, "invalid number of hard links, 2", "it has another name"},
		{func(p string) error {
			return errors.Join(folder(0o770)(p), os.Lchown(p, -1, group))
		}, "chmod go-w", "another group can write to it than to the folder"},
	} {
		for _, suffix := range []string{"", ".gvrwatch-lock"} {
			path := inTemp(t)
			s := open(t, path)
			if err := tt.change(path + suffix); os.IsPermission(err) {
				continue // only root can do that
			} else if err != nil {
				t.Fatal(err)
			}
			commitErr := tryCommit(s, at("k", "1"))
			closeStore(t, s)
			s, openErr := file.Open(path)
			if openErr == nil {
				closeStore(t, s)
			}
			for _, err := range []error{openErr, commitErr} {
				if suffix != "" && err == commitErr && err == nil {
					continue // only Open opens the lock
				}
				ok := err == nil
				if tt.want != "" {
					ok = errors.Is(err, os.ErrPermission) && strings.Contains(err.Error(), path+suffix+": ") &&
						strings.Contains(err.Error(), tt.want)
				}
				if !ok {
					t.Errorf("%q, %s: %v, want %q", suffix, tt.why, err, tt.want)
				}
			}
		}
	}
}

func TestFileOfAnotherUserIsRefused(t *testing.T) {
	path := inTemp(t)
	write(t, path, nil)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		owner   uint32
		process int
		want    string
		why     string
	}{
		{1000, 1000, "", "its own file"},
		{0, 1000, "", "root may do everything anyway"},
		{1001, 1000, "invalid owner 1001: must be 1000, the user of this process", "another user's"},
		{1001, 0, "invalid owner 1001: must be 0", "for root, too"},
	} {
		info.Sys().(*syscall.Stat_t).Uid = tt.owner
		err := file.CheckOwner(path, info, tt.process)
		if (err == nil) != (tt.want == "") ||
			err != nil && (!errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.why, err, tt.want)
		}
	}
}

// It may have replaced the file since that was examined.
func TestLinkIsNotOpened(t *testing.T) {
	link := inTemp(t)
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	if f, err := os.OpenFile(link, os.O_RDWR|file.NoFollow, 0); err == nil {
		f.Close()
		t.Error("it was opened")
	}
}

// A link remains a link.
func TestFileHasOneLockForAllNames(t *testing.T) {
	path := inTemp(t)
	closeStore(t, open(t, path))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	s := open(t, link)
	if _, err := file.Open(path); !errors.As(err, new(*checkpoint.LockedError)) {
		t.Errorf("the same file under another name: %v, want a *LockedError", err)
	}
	rewritten(t, s)
	if _, err := file.Open(path); !errors.As(err, new(*checkpoint.LockedError)) {
		t.Errorf("after a snapshot: %v, want a *LockedError", err)
	}
	closeStore(t, s)
	all, err := attempt(path)
	if leads, linkErr := os.Readlink(link); leads != path || errors.Join(err, linkErr) != nil || len(all) != 1 {
		t.Errorf("the link leads to %s, and the file holds %v (%v)", leads, all, err)
	}
}
