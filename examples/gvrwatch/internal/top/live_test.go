package top

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gdamore/tcell/v3"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/stream"
)

// fakeScreen is a screen of 80x24 that shows nothing.
type fakeScreen struct {
	tcell.Screen // what is not called
	events       chan tcell.Event
	show         func()

	mu       sync.Mutex
	shown    int
	finished bool
}

func newFakeScreen() *fakeScreen {
	return &fakeScreen{events: make(chan tcell.Event, 10), show: func() {}}
}

func (s *fakeScreen) Size() (columns, rows int)         { return 80, 24 }
func (s *fakeScreen) Colors() int                       { return 256 }
func (s *fakeScreen) RegisterRuneFallback(rune, string) {}
func (s *fakeScreen) EventQ() chan tcell.Event          { return s.events }

func (s *fakeScreen) Put(_, _ int, text string, _ tcell.Style) (rest string, width int) {
	return "", screen.Width(text)
}

func (s *fakeScreen) Show() {
	s.mu.Lock()
	s.shown++
	s.mu.Unlock()
	s.show()
}

func (s *fakeScreen) Fini() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
}

// since returns how often the screen was drawn since the last call.
func (s *fakeScreen) since() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.shown
	s.shown = 0
	return n
}

func empty() string { return "" }

// TestDrawingIsRare: many events cause few drawings, and without one only ages are drawn.
func TestDrawingIsRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := NewLive("robots", empty, empty), newFakeScreen()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.run(ctx, s) }()
		synctest.Wait()
		s.since()
		time.Sleep(10 * time.Second)
		if n := s.since(); n < 8 || n > 10 {
			t.Errorf("without events it was drawn %d times in 10 s, want once a second", n)
		}
		for i := range 2000 {
			l.Apply(object{name: fmt.Sprint(i)}.event(stream.Added), columns, nil)
			time.Sleep(5 * time.Millisecond)
		}
		if n := s.since(); n < 40 || n > 51 {
			t.Errorf("with 200 events per second it was drawn %d times in 10 s, want at most 5 per second", n)
		}
		time.Sleep(betweenDrawings * 3 / 2)
		s.since()
		s.events <- tcell.NewEventKey(tcell.KeyDown, "", 0)
		synctest.Wait()
		if n := s.since(); n != 1 {
			t.Errorf("after a key it was drawn %d times, want at once", n)
		}
		cancel()
		if err := <-ended; err != nil || !s.finished {
			t.Errorf("the end of the context: %v, restored: %v", err, s.finished)
		}
	})
}

// TestEveryEndRestores: however a run ends, the screen is finished, and then Run returns.
func TestEveryEndRestores(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		why  string
		do   func(*fakeScreen)
		fail func()
		want func(error) bool
	}{
		{"q", func(s *fakeScreen) { s.events <- tcell.NewEventKey(tcell.KeyRune, "q", 0) }, nil,
			func(err error) bool { return err == nil }},
		{"Ctrl-C", func(s *fakeScreen) { s.events <- tcell.NewEventKey(tcell.KeyCtrlC, "", tcell.ModCtrl) }, nil,
			func(err error) bool { return err == nil }},
		{"the terminal is gone", func(s *fakeScreen) { s.events <- tcell.NewEventError(broken) }, nil,
			func(err error) bool { return err != nil }},
		{"a panic", func(*fakeScreen) {}, func() { panic(broken) },
			func(err error) bool { var p *stream.PanicError; return errors.As(err, &p) && p.Value == broken }},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeScreen()
			l := NewLive("", func() string {
				if tt.fail != nil {
					tt.fail()
				}
				return ""
			}, empty)
			tt.do(s)
			if err := l.run(t.Context(), s); !tt.want(err) || !s.finished {
				t.Errorf("%s: %v, restored: %v", tt.why, err, s.finished)
			}
		})
	}
}

// TestStuckTerminal: a terminal that takes nothing neither delays events nor the end.
func TestStuckTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := NewLive("", empty, empty), newFakeScreen()
		read := make(chan struct{})
		s.show = func() { <-read }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.run(ctx, s) }()
		synctest.Wait()
		l.Apply(object{name: "a"}.event(stream.Added), columns, nil)
		cancel()
		began := time.Now()
		if err := <-ended; !errors.Is(err, ErrStuck) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		close(read)
	})
}

// TestQuickEscape: Escape and a character that arrive together are both.
func TestQuickEscape(t *testing.T) {
	l := NewLive("", empty, empty)
	l.press(tcell.NewEventKey(tcell.KeyRune, "x", 0))
	l.press(tcell.NewEventKey(tcell.KeyRune, "y", tcell.ModAlt))
	if l.view.filter != "y" {
		t.Errorf("the filter is %q, want y", l.view.filter)
	}
	l.press(tcell.NewEventKey(tcell.KeyRune, "z", tcell.ModCtrl))
	if l.view.filter != "y" {
		t.Errorf("after Ctrl-Z the filter is %q", l.view.filter)
	}
}

// TestStylesWithoutColour: each style that means something has attributes of its own.
func TestStylesWithoutColour(t *testing.T) {
	plain := cells{}
	for _, tt := range []struct {
		style Style
		want  tcell.Style
		why   string
	}{
		{Style{}, tcell.StyleDefault, "most cells"},
		{Style{Text: screen.Yellow, Changed: true}, tcell.StyleDefault.Bold(true).Underline(true), "a changed cell"},
		{Style{Selected: true}, tcell.StyleDefault.Reverse(true), "the cursor"},
		{Style{Text: screen.Green}, tcell.StyleDefault.Bold(true), "a new object"},
		{Style{Text: screen.Red}, tcell.StyleDefault.Dim(true), "a deleted object"},
	} {
		if got := plain.style(tt.style); got != tt.want {
			t.Errorf("%s: %+v", tt.why, got)
		}
	}
	colored := cells{color: true}
	if colored.style(Style{Text: screen.Red}) == colored.style(Style{Text: screen.Green}) {
		t.Error("with colours red is green")
	}
}

func TestCheckTerm(t *testing.T) {
	for _, term := range []string{
		"xterm", "xterm-256color", "xterm-ghostty", "screen", "screen.xterm-256color", "tmux-256color", "vt100",
		"vt220",
		"linux", "alacritty", "foot-extra", "st-256color", "ms-terminal", "rxvt-unicode-256color",
	} {
		if err := CheckTerm(term); err != nil {
			t.Errorf("%s: %v", term, err)
		}
	}
	for _, term := range []string{"", "dumb", "unknown", "wyse50", "-", "x", "xtermx", "\x1b[31m"} {
		if CheckTerm(term) == nil {
			t.Errorf("%q is accepted", term)
		}
	}
}
