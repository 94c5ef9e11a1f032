package screen_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

// roleVariable makes the test binary a program in a terminal.
const roleVariable = "SCREEN_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "shell": // starts a job in the background, as a shell does for &, and is in the foreground itself
		job := exec.Command(os.Args[0])
		job.Env = append(os.Environ(), roleVariable+"=job")
		job.Stdout, job.Stderr, job.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Setpgid: true}
		if err := job.Run(); err != nil {
			fmt.Println(err)
		}
	case "job":
		s, asked := screen.New(os.Stdout, os.Stderr, nil), make(chan struct{}, 10)
		hide := s.ShowStatus(func() string {
			asked <- struct{}{}
			return "status of the job"
		})
		for range 3 { // the second call is after the first line was drawn, or was not
			<-asked
		}
		fmt.Fprintln(s.Out, "row")
		hide()
	}
}

// TestStatusInARealTerminal runs a program in the foreground and in the background of a pseudoterminal.
func TestStatusInARealTerminal(t *testing.T) {
	tests := []struct {
		role string
		want bool
		why  string
	}{
		{"job", true, "a program in the foreground shows its status"},
		{"shell", false, "in the background it would overwrite what the user types into the shell"},
	}
	for _, tt := range tests {
		master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		if err != nil {
			t.Skip("no pseudoterminals:", err)
		}
		defer master.Close()
		n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
		if err == nil {
			err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
		}
		if err == nil {
			err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 12, Row: 24})
		}
		if err != nil {
			t.Fatal(err)
		}
		slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), roleVariable+"="+tt.role, "TERM=xterm", "GORACE=atexit_sleep_ms=0")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		killed := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		killed.Stop()
		slave.Close()
		var got strings.Builder
		for buf := make([]byte, 4096); ; { // until EIO, because the program has ended
			n, err := master.Read(buf)
			got.Write(buf[:n])
			if err != nil {
				break
			}
		}
		w := &terminal{columns: 12, rows: 24}
		_, _ = w.Write([]byte(got.String()))
		if drawn := strings.Contains(got.String(), "status of …"); drawn != tt.want {
			t.Errorf("%s: got %q", tt.why, got.String())
		}
		if strings.TrimRight(w.text(), "\n") != "row" || len(w.problems) > 0 {
			t.Errorf("%s: left %q, %q", tt.why, w.text(), w.problems)
		}
	}
}
