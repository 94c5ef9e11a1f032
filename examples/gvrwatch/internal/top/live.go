package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Live runs a View in a terminal. Its methods may be called from any goroutine.
type Live struct {
	Color bool // colours are used

	mu      sync.Mutex
	model   *Model
	view    *View
	changed bool // since the last drawing
}

// NewLive returns a Live without objects. Title says what is watched. Status and message, which are called some times
// per second, are the last lines, as of a View.
func NewLive(title string, status, message func() string) *Live {
	m := NewModel()
	v := NewView(m)
	v.Title, v.Status, v.Message = title, status, message
	return &Live{model: m, view: v}
}

// Apply takes an event, see Model.Apply.
func (l *Live) Apply(ev stream.Event, columns []screen.Column, cells []screen.Text) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = true
	l.model.Apply(ev, columns, cells)
}

const (
	betweenDrawings = time.Second / 5       // of what has changed
	betweenKeys     = 30 * time.Millisecond // drawings because of keys
)

// ErrStuck is the error of a terminal that does not take what is drawn when the context has ended.
var ErrStuck = errors.New("the terminal does not take what is drawn")

// Run draws on the terminal of the process until the user leaves or ctx ends; both are no error. The terminal is
// restored when Run returns, unless the error is ErrStuck. A panic is a *stream.PanicError.
func (l *Live) Run(ctx context.Context) error {
	o := []tcell.TerminfoScreenOption{tcell.OptNegotiation(false), tcell.OptSanitizeContent(true)}
	switch {
	case !l.Color:
		o = append(o, tcell.OptColors(0))
	case os.Getenv("NO_COLOR") != "": // the user asks for colours all the same, and the library would have none
		o = append(o, tcell.OptColors(8))
	}
	s, err := tcell.NewScreen(o...)
	if err == nil {
		tcell.SetEncodingFallback(tcell.EncodingFallbackUTF8)
		err = s.Init()
	}
	if err != nil {
		return fmt.Errorf("the terminal can't be used: %w", err)
	}
	return l.run(ctx, s)
}

func (l *Live) run(ctx context.Context, s tcell.Screen) error {
	const grace = time.Second
	done := make(chan error, 1)
	go func() {
		err := Protect(func() error { return l.loop(ctx, s) })
		s.Fini()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
		return ErrStuck
	}
}

// Protect calls f. A panic is a *stream.PanicError: it must not end the program before the terminal is restored.
func Protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &stream.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return f()
}

// loop draws and obeys keys. While it draws on the terminal, which may take time, the Live is not locked.
func (l *Live) loop(ctx context.Context, s tcell.Screen) error {
	s.RegisterRuneFallback('…', "~") // in a locale without them
	s.RegisterRuneFallback('→', ">")
	g := newCells(s, l.Color)
	tick := time.NewTicker(betweenDrawings)
	defer tick.Stop()
	drawn := l.draw(g)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if l.due(drawn) {
				drawn = l.draw(g)
			}
		case ev := <-s.EventQ():
			switch ev := ev.(type) {
			case *tcell.EventError:
				return fmt.Errorf("the terminal can't be read: %w", ev)
			case *tcell.EventResize:
				drawn = l.draw(g)
				s.Sync()
			case *tcell.EventKey:
				if l.press(ev) {
					return nil
				}
				if len(s.EventQ()) == 0 || time.Since(drawn) >= betweenKeys {
					drawn = l.draw(g)
				}
			}
		}
	}
}

// due reports whether something has changed since the last drawing, or ages have.
func (l *Live) due(drawn time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed || time.Since(drawn) >= time.Second
}

func (l *Live) draw(g cells) (at time.Time) {
	func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed = false
		l.view.Draw(g)
	}()
	g.screen.Show()
	return time.Now()
}

var keys = map[tcell.Key]Key{
	tcell.KeyUp: Up, tcell.KeyDown: Down, tcell.KeyPgUp: PageUp, tcell.KeyPgDn: PageDown, tcell.KeyHome: Home,
	tcell.KeyEnd: End, tcell.KeyEnter: Enter, tcell.KeyEscape: Escape, tcell.KeyBackspace: Backspace,
	tcell.KeyBackspace2: Backspace, tcell.KeyCtrlC: Interrupt,
}

func (l *Live) press(ev *tcell.EventKey) (leave bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k, ok := keys[ev.Key()]; ok {
		return l.view.Press(k)
	}
	if ev.Key() == tcell.KeyRune && ev.Modifiers()&(tcell.ModCtrl|tcell.ModMeta) == 0 {
		if ev.Modifiers()&tcell.ModAlt != 0 { // what a terminal sends for it is Escape and the character
			l.view.Press(Escape)
		}
		for _, r := range ev.Str() {
			if l.view.Type(r) {
				return true
			}
		}
	}
	return false
}

// cells is a screen as a Grid.
type cells struct {
	screen tcell.Screen
	color  bool
}

func newCells(s tcell.Screen, color bool) cells { return cells{s, color && s.Colors() > 0} }

// Size is for Grid.
func (c cells) Size() (columns, rows int) { return c.screen.Size() }

// Put is for Grid. A character whose width is another one for the library is replaced: what follows it in the line
// would be in other cells than we think.
func (c cells) Put(column, row int, character string, width int, style Style) {
	look := c.style(style)
	if _, n := c.screen.Put(column, row, character, look); n == width || n == 0 {
		return
	}
	for n := range width {
		c.screen.Put(column+n, row, "?", look)
	}
}

var colors = map[screen.Style]color.Color{
	screen.Red: color.Maroon, screen.Green: color.Green, screen.Yellow: color.Olive, screen.Magenta: color.Purple,
}

// style returns the attributes of a style and, where colours are used, its colour.
func (c cells) style(s Style) tcell.Style {
	look := tcell.StyleDefault.Reverse(s.Selected)
	switch {
	case s.Text == screen.Bold, s.Changed, s.Text == screen.Green && !c.color:
		look = look.Bold(true)
	case s.Text == screen.Dim, s.Text == screen.Red && !c.color:
		look = look.Dim(true)
	}
	if !c.color {
		return look.Underline(s.Changed)
	}
	if of, ok := colors[s.Text]; ok {
		look = look.Foreground(of)
	}
	return look
}

// families are the terminals whose sequences are those of ECMA-48 and xterm, which the library writes.
var families = []string{
	"xterm", "screen", "tmux", "vt", "linux", "rxvt", "ansi", "alacritty", "foot", "kitty", "konsole", "gnome", "vte",
	"st", "stterm", "wezterm", "ghostty", "contour", "cygwin", "mintty", "iterm", "putty", "eterm", "mlterm", "rio",
	"dtterm", "aixterm", "terminator", "nsterm", "ms-terminal", "fbterm", "teraterm", "sun",
}

// CheckTerm returns an error if a terminal with this value of TERM is none that Live can draw on.
func CheckTerm(term string) error {
	family := strings.ToLower(term)
	if i := strings.IndexAny(family, "-+."); i > 0 && !slices.Contains(families, family) {
		family = family[:i]
	}
	if slices.Contains(families, strings.TrimRight(family, "0123456789")) { // vt100
		return nil
	}
	return fmt.Errorf("TERM=%q is no terminal that can be drawn on: set TERM=xterm-256color if it is like xterm", term)
}
