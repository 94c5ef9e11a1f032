package screen_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

// TestStatusDisturbsNothing writes rows, messages and pieces of lines to one terminal, as well as to a terminal and a
// file, while the status changes. After each step the terminal shows what was written to it, and at most the status.
func TestStatusDisturbsNothing(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			w, pipe := &terminal{columns: 40, rows: 10}, &bytes.Buffer{}
			s, outIsTerminal := screen.New(w, w, nil), rand.IntN(2) == 0
			if !outIsTerminal {
				s = screen.New(pipe, w, nil)
			}
			var calls atomic.Int64
			hide := s.ShowStatus(func() string {
				n := calls.Add(1)
				return fmt.Sprintf("status %d %s", n/3, strings.Repeat("日\x1b", int(n)%20))
			})
			table := &screen.Table{Out: s.Out}
			_ = table.Columns(columns("NAME")...)
			shown, piped, seen := "", "", false
			out := func(text string) {
				if outIsTerminal {
					shown += text
				} else {
					piped += text
				}
			}
			check := func() {
				t.Helper()
				synctest.Wait()
				got, status, _ := strings.Cut(w.text(), "status ")
				seen = seen || status != ""
				if want := strings.TrimRight(shown, "\n"); strings.TrimRight(got, "\n") != want ||
					strings.Contains(status, "\n") {
					t.Fatalf("want\n%s\ngot\n%s", want, w.text())
				}
				if pipe.String() != piped {
					t.Fatalf("pipe: want\n%s\ngot\n%s", piped, pipe.String())
				}
				if len(w.problems) > 0 {
					t.Fatal(w.problems)
				}
			}
			header := "NAME\n"
			for i := range 40 {
				switch rand.IntN(6) {
				case 0:
					fmt.Fprintf(s.ErrOut, "message %d\n", i)
					shown += fmt.Sprintf("message %d\n", i)
				case 1:
					_ = table.Row(nil, texts(fmt.Sprint(i))...)
					_ = table.Flush()
					out(header + fmt.Sprint(i) + "\n")
					header = ""
				case 2: // a line in pieces
					for _, piece := range []string{"a", "b", "", "\n"} {
						fmt.Fprint(s.Out, piece)
						out(piece)
						time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
						check()
					}
				case 3:
					_ = screen.WriteLine(s.Out, screen.Text{Text: "line", Style: screen.Red})
					out("line\n")
				default:
					time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
				}
				check()
			}
			hide()
			hide()
			check()
			if got := strings.TrimRight(w.text(), "\n"); got != strings.TrimRight(shown, "\n") {
				t.Errorf("after hide: want\n%s\ngot\n%s", shown, got)
			}
			if !seen {
				t.Error("the status was never seen")
			}
			fmt.Fprintln(s.ErrOut, "end")
			shown += "end\n"
			check()
		})
	}
}

func TestStatusIsDrawnAtMostFiveTimesPerSecond(t *testing.T) {
	t.Setenv("TERM", "xterm")
	tests := []struct {
		text func(n int) string
		want int // writes in a minute
		why  string
	}{
		{func(n int) string { return fmt.Sprint(n) }, 300, "a text that always changes"},
		{func(n int) string { return "same" }, 1, "one that never changes"},
		{func(n int) string { return strings.Repeat("x", 200) + fmt.Sprint(n) }, 1, "one whose shown part does not"},
		{func(n int) string { return "" }, 0, "nothing"},
		{func(n int) string { return "x"[:n%2] }, 300, "one that comes and goes"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			w, n := &terminal{columns: 40, rows: 10}, 0
			hide := screen.New(io.Discard, w, nil).ShowStatus(func() string {
				n++
				return tt.text(n)
			})
			time.Sleep(time.Minute + time.Millisecond)
			synctest.Wait()
			if w.writes != tt.want || n != 300 {
				t.Errorf("%s: want %d writes, got %d; the text was asked for %d times", tt.why, tt.want, w.writes, n)
			}
			hide()
			if w.text() != "" {
				t.Errorf("%s: left %q", tt.why, w.text())
			}
		})
	}
}

// TestStatusStaysDuringManyWrites proves that the line can be seen although each row erases it.
func TestStatusStaysDuringManyWrites(t *testing.T) {
	t.Setenv("TERM", "xterm")
	synctest.Test(t, func(t *testing.T) {
		w := &terminal{columns: 40, rows: 10}
		s := screen.New(w, w, nil)
		defer s.ShowStatus(func() string { return "status" })()
		time.Sleep(time.Second)
		for range 5 {
			fmt.Fprintln(s.Out, "row")
			if !strings.HasSuffix(w.text(), "row\nstatus") {
				t.Fatal(w.text())
			}
		}
	})
}

// TestNoStatus has outputs that must get exactly what was written, because stderr is no terminal or a dumb one.
func TestNoStatus(t *testing.T) {
	for _, outIsOne := range []bool{false, true} { // but not stderr
		t.Setenv("TERM", "xterm")
		synctest.Test(t, func(t *testing.T) {
			var out, errOut bytes.Buffer
			s := screen.New(&out, &errOut, nil)
			if outIsOne {
				s = screen.New(sized{&out}, &errOut, nil)
			}
			hide := s.ShowStatus(func() string { t.Error("asked for a text"); return "x" })
			_ = screen.WriteLine(s.ErrOut, screen.Text{Text: "a", Style: screen.Red})
			fmt.Fprintln(s.Out, "b")
			time.Sleep(time.Minute)
			hide()
			if diff := cmp.Diff([]string{"b\n", "a\n"}, []string{out.String(), errOut.String()}); diff != "" {
				t.Errorf("stdout is a terminal: %v (-want +got):\n%s", outIsOne, diff)
			}
		})
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	synctest.Test(t, func(t *testing.T) {
		var errOut bytes.Buffer
		hide := screen.New(w, sized{&errOut}, nil).ShowStatus(func() string { return "x" })
		time.Sleep(time.Minute)
		hide()
		if errOut.Len() > 0 {
			t.Errorf("the reader of a pipe may print to the terminal, which got %q", errOut.String())
		}
	})
	t.Setenv("TERM", "dumb")
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		hide := screen.New(&out, sized{&out}, nil).ShowStatus(func() string { return "x" })
		time.Sleep(time.Minute)
		hide()
		if out.Len() > 0 {
			t.Errorf("a dumb terminal got %q", out.String())
		}
	})
}

func TestStatusEndsWithTheProgram(t *testing.T) {
	t.Setenv("TERM", "xterm")
	synctest.Test(t, func(t *testing.T) {
		w, ended := &terminal{columns: 40, rows: 10}, make(chan struct{})
		s := screen.New(w, w, ended)
		hide := s.ShowStatus(func() string { return "status" })
		time.Sleep(time.Second)
		close(ended)
		synctest.Wait()
		fmt.Fprintln(s.ErrOut, "end")
		if diff := cmp.Diff("end", w.text()); diff != "" {
			t.Errorf("a signal erases the status (-want +got):\n%s", diff)
		}
		hide()
	})
}

// stopped is a terminal whose user has pressed ^S: writes wait.
type stopped struct{ *io.PipeWriter }

func (stopped) Size() (columns, rows int) { return 80, 24 }

// TestStoppedTerminalDelaysTheEndOnce has a status line that waits for the terminal when a signal ends the program.
func TestStoppedTerminalDelaysTheEndOnce(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for _, status := range []string{"always waits", ""} {
		synctest.Test(t, func(t *testing.T) {
			r, w := io.Pipe()
			ended := make(chan struct{})
			s := screen.New(stopped{w}, stopped{w}, ended)
			if status == "" { // drawn before ^S
				go func() { _, _ = io.ReadFull(r, make([]byte, len("\r\x1b[?7lshown\x1b[J\x1b[?7h\r"))) }()
				status = "shown"
			}
			hide := s.ShowStatus(func() string { return status })
			time.Sleep(time.Hour)
			close(ended)
			synctest.Wait() // unless it waits, the status would be erased now
			began := time.Now()
			time.Sleep(250 * time.Millisecond) // not in Write, because the bubble can't wait for a mutex
			synctest.Wait()
			for _, o := range []*screen.Output{s.ErrOut, s.Out} {
				if _, err := o.Write([]byte("x\n")); !errors.Is(err, screen.ErrUnread) {
					t.Errorf("%s: got %v", status, err)
				}
			}
			hide()
			if took := time.Since(began); took > 500*time.Millisecond {
				t.Errorf("%s: the end took %v", status, took)
			}
			r.Close()
			synctest.Wait()
		})
	}
}
