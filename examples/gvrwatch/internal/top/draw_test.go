package top

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/stream"
)

// textGrid is a Grid for tests. It fails the test if a character would leave its cells.
type textGrid struct {
	t             *testing.T
	columns, rows int
	cells         map[[2]int]string // by column and row; the second half of a wide character is empty
	styles        map[[2]int]Style
}

func newTextGrid(t *testing.T, columns, rows int) *textGrid {
	return &textGrid{t, columns, rows, map[[2]int]string{}, map[[2]int]Style{}}
}

func (g *textGrid) Size() (columns, rows int) { return g.columns, g.rows }

func (g *textGrid) Put(column, row int, character string, width int, style Style) {
	if column < 0 || row < 0 || column+width > g.columns || row >= g.rows {
		g.t.Errorf("%q, %d wide, at column %d and row %d of %dx%d", character, width, column, row, g.columns, g.rows)
	}
	for _, r := range character {
		if !unicode.IsPrint(r) {
			g.t.Errorf("%q is drawn", r)
		}
	}
	for i := range width {
		g.cells[[2]int{column + i, row}] = ""
	}
	g.cells[[2]int{column, row}], g.styles[[2]int{column, row}] = character, style
}

// draw returns the lines of a View.
func draw(t *testing.T, v *View, columns, rows int) (lines []string, g *textGrid) {
	t.Helper()
	g = newTextGrid(t, columns, rows)
	v.Draw(g)
	for row := range rows {
		line := ""
		for column := range columns {
			line += g.cells[[2]int{column, row}]
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines, g
}

// styled returns the text that has a style, in a line.
func (g *textGrid) styled(row int, is func(Style) bool) (text string) {
	for column := range g.columns {
		if at := [2]int{column, row}; is(g.styles[at]) {
			text += g.cells[at]
		}
	}
	return strings.TrimSpace(text)
}

func isChanged(s Style) bool  { return s.Changed }
func isSelected(s Style) bool { return s.Selected }
func isRed(s Style) bool      { return s.Text == screen.Red }
func isGreen(s Style) bool    { return s.Text == screen.Green }

// TestDrawing: what is seen as objects change, at once and later.
func TestDrawing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewModel()
		v := NewView(m)
		v.Title, v.Status = "robots", func() string { return "synced, 3 objects" }
		a := object{name: "a", namespace: "shop", job: "drill", created: time.Now()}
		b := object{name: "b", namespace: "web", job: "drill", created: time.Now().Add(-time.Hour)}
		a.apply(m, stream.Added)
		b.apply(m, stream.Added)
		synced(m)
		draw(t, v, 50, 6)
		time.Sleep(3 * time.Second)
		lines, _ := draw(t, v, 50, 6)
		want(t, "ages tick without an event", lines,
			"robots  sort: churn",
			"CHURN/MIN   NAMESPACE   NAME   JOB     AGE",
			"0           shop        a      drill   3s",
			"0           web         b      drill   60m",
			"",
			"synced, 3 objects")
		b.job = "paint"
		b.apply(m, stream.Modified)
		time.Sleep(highlighted - time.Second)
		lines, g := draw(t, v, 50, 6)
		want(t, "the one that changed is the first", lines[2:4],
			"1           web         b      paint   60m",
			"0           shop        a      drill   7s")
		if got := g.styled(2, isChanged); got != "paint" {
			t.Errorf("highlighted is %q, want the cell that has changed", got)
		}
		time.Sleep(time.Second)
		if _, g = draw(t, v, 50, 6); g.styled(2, isChanged) != "" {
			t.Error("it is still highlighted")
		}
		object{name: "c", created: time.Now()}.apply(m, stream.Added)
		b.apply(m, stream.Deleted)
		time.Sleep(2 * time.Second)
		lines, g = draw(t, v, 50, 6)
		want(t, "a new one and a deleted one", lines[2:5],
			"deleted     web         b      paint   60m", // 2 changes
			"1                       c              2s",
			"0           shop        a      drill   10s")
		time.Sleep(3 * time.Minute)
		lines, _ = draw(t, v, 50, 6)
		want(t, "an age that has become wider", lines[2:4],
			"0                       c              3m2s",
			"0           shop        a      drill   3m10s")
		if red, green := g.styled(2, isRed), g.styled(3, isGreen); !strings.Contains(red, "b") || green == "" {
			t.Errorf("deleted is %q, new is %q", red, green)
		}
	})
}

// TestMessage: a message has a line of its own, of which the beginning and the end are seen.
func TestMessage(t *testing.T) {
	v := NewView(NewModel())
	message := ""
	v.Status, v.Message = func() string { return "status" }, func() string { return message }
	lines, _ := draw(t, v, 40, 6)
	want(t, "no message", lines[4:], "", "status")
	message = "robots: trying again in 1s: a long text: connection refused"
	lines, _ = draw(t, v, 40, 6)
	want(t, "a message", lines[4:], "robots: trying again… connection refused", "status")
	lines, _ = draw(t, v, 40, 4)
	want(t, "no room for it", lines[2:], "", "status")
}

// TestOtherColumns: when the columns of a type change, rows keep the cells of titles that remain.
func TestOtherColumns(t *testing.T) {
	m := NewModel()
	v := NewView(m)
	object{name: "a", job: "drill"}.apply(m, stream.Added)
	m.Apply(object{name: "b"}.event(stream.Added), []screen.Column{{Title: "NAME"}, {Title: "NEW"}, {Title: "JOB"}},
		[]screen.Text{{Text: "b"}, {Text: "yes"}, {Text: "paint"}})
	lines, _ := draw(t, v, 50, 5)
	want(t, "columns", lines[1:4],
		"CHURN/MIN   NAME   NEW   JOB",
		"0           a            drill",
		"0           b      yes   paint")
}

// TestKeys: what each key does.
func TestKeys(t *testing.T) {
	m := NewModel()
	v := NewView(m)
	v.Status = func() string { return "status" }
	for i := range 30 {
		object{name: fmt.Sprintf("robot-%02d", i), job: "drill"}.apply(m, stream.Added)
	}
	synced(m)
	object{name: "robot-05", job: "paint", manager: "painter"}.apply(m, stream.Modified)
	list := func(height int) (first, selected, title string) {
		lines, g := draw(t, v, 60, height)
		for row := 2; row < height-1; row++ {
			if text := g.styled(row, isSelected); text != "" {
				selected += strings.Fields(text)[1]
			}
		}
		return strings.Fields(lines[2] + "    - -")[1], selected, lines[0]
	}
	const letters = "" // a step with a text types it
	for i, step := range []struct {
		press           Key
		typed           string
		first, selected string
		title           string // part of the first line
	}{
		{"", letters, "robot-05", "robot-05", "sort: churn"},
		{Down, letters, "robot-05", "robot-00", ""},
		{PageDown, letters, "robot-01", "robot-11", ""}, // 10 lines
		{PageDown, letters, "robot-12", "robot-21", ""},
		{End, letters, "robot-20", "robot-29", ""},
		{Down, letters, "robot-20", "robot-29", ""},
		{Up, letters, "robot-20", "robot-28", ""},
		{PageUp, letters, "robot-18", "robot-18", ""},
		{Home, letters, "robot-05", "robot-05", ""},
		{Up, letters, "robot-05", "robot-05", ""},
		{"", "s", "robot-00", "robot-00", "sort: age"},
		{"", "s", "robot-00", "robot-00", "sort: name"},
		{"", "s", "robot-05", "robot-05", "sort: churn"},
		{"", "/", "robot-05", "robot-05", "filter: _"},
		{"", "s", "robot-05", "robot-05", "filter: s_  0 of 30"},
		{Backspace, letters, "robot-05", "robot-05", "filter: _"},
		{Escape, letters, "robot-05", "robot-05", "sort: churn"},
		{"", "t-2q", "-", "", "filter: t-2q_  0 of 30"},
		{Backspace, letters, "robot-20", "robot-20", "filter: t-2_  10 of 30"},
		{Down, letters, "robot-20", "robot-21", "filter: t-2  10 of 30"},
		{"", "s", "robot-20", "robot-20", "sort: age  filter: t-2  10 of 30"},
		{"", "7", "robot-27", "robot-27", "filter: t-27_  1 of 30"},
		{Enter, letters, "-", "", "robot robot-27  last changes: 0"},
		{Escape, letters, "robot-27", "robot-27", "filter: t-27  1 of 30"},
		{Escape, letters, "robot-00", "robot-00", "sort: age"},
		{"", "05", "robot-05", "robot-05", "filter: 05_  1 of 30"},
		{Enter, letters, "drill", "", "robot robot-05  last changes: 1"},
		{Enter, letters, "robot-05", "robot-05", "filter: 05  1 of 30"},
	} {
		if step.press != "" && v.Press(step.press) {
			t.Errorf("%d: %s leaves", i, step.press)
		}
		for _, r := range step.typed {
			if v.Type(r) {
				t.Errorf("%d: %c leaves", i, r)
			}
		}
		first, selected, title := list(13)
		if step.title == "filter: s_  0 of 30" { // no robot has an s
			first, selected = step.first, step.selected
		}
		got := []string{first, selected}
		diff := cmp.Diff([]string{step.first, step.selected}, got)
		if diff != "" || !strings.Contains(title, step.title) {
			t.Errorf("step %d %s%s: %q, want %q (-want +got):\n%s", i, step.press, step.typed, title, step.title, diff)
		}
	}
	if !v.Type('q') || !v.Press(Interrupt) {
		t.Error("q and Ctrl-C do not leave")
	}
	v.Press(Enter)
	if v.Type('x') || !v.Type('q') || !v.Press(Interrupt) {
		t.Error("q and Ctrl-C do not leave from the changes of an object, or another key does")
	}
}

// TestCursorStaysOnItsObject: rows move, and the user wants the one that was selected.
func TestCursorStaysOnItsObject(t *testing.T) {
	m := NewModel()
	v := NewView(m)
	v.Status = func() string { return "status" }
	for i := range 30 {
		object{name: fmt.Sprintf("robot-%02d", i)}.apply(m, stream.Added)
	}
	synced(m)
	selected := func() string {
		_, g := draw(t, v, 60, 10)
		for row := range 10 {
			if text := g.styled(row, isSelected); text != "" {
				return strings.Fields(text)[1]
			}
		}
		return ""
	}
	object{name: "robot-29"}.apply(m, stream.Modified)
	if got := selected(); got != "robot-29" {
		t.Errorf("at the beginning the first row is selected, not %s", got)
	}
	v.Press(Down)
	for _, name := range []string{"robot-10", "robot-20", "robot-00"} {
		object{name: name}.apply(m, stream.Modified)
		if got := selected(); got != "robot-00" {
			t.Errorf("after a change of %s the cursor is at %s", name, got)
		}
	}
}

// TestManyChangesScroll: the changes of an object may be more than lines.
func TestManyChangesScroll(t *testing.T) {
	m := NewModel()
	v := NewView(m)
	v.Status = func() string { return "status" }
	synced(m)
	for i := range mostChanges {
		object{name: "a", job: fmt.Sprint("job", i)}.apply(m, stream.Modified)
	}
	v.Press(Enter)
	for _, tt := range []struct {
		press         Key
		first, second string
	}{
		{"", "MODIFIED", "job48 → job49"}, {Down, "job48 → job49", "MODIFIED"}, {PageDown, "job44", "MODIFIED"},
		{End, "MODIFIED", "job0 → job1"}, {Down, "MODIFIED", "job0 → job1"}, {Home, "MODIFIED", "job48 → job49"},
	} {
		if tt.press != "" {
			v.Press(tt.press)
		}
		lines, _ := draw(t, v, 60, 10)
		if tt.press == End || tt.press == Down && strings.Contains(tt.second, "job0") {
			if last := strings.Join(lines[7:9], " "); !strings.Contains(last, "its state before is not known") {
				t.Errorf("%s: the last lines are %q", tt.press, last)
			}
			continue
		}
		if !strings.Contains(lines[1], tt.first) || !strings.Contains(lines[2], tt.second) {
			t.Errorf("%s: want %q and %q, got %q", tt.press, tt.first, tt.second, lines[1:3])
		}
	}
}

// TestEverySizeAndText: no size and no text of a server makes the drawing fail, leave its cells, or draw what a
// terminal interprets.
func TestEverySizeAndText(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	texts := []string{
		"", "a", "\x1b[31mred\x1b[0m", "line\nbreak\ttab\r", "中文字符宽", "e\u0301\u0301\u0301",
		strings.Repeat("\u0301", 40), "\u202eright to left\u2066", "👩\u200d👧 family", "🇩🇪 flag",
		"❤\ufe0f", "\xff\xfe", strings.Repeat("long ", 5000),
		"\u00ad\u200b", "각", strings.Repeat("中", 3000), "\u0007\u009b31m",
	}
	any := func() string { return texts[random.IntN(len(texts))] + texts[random.IntN(len(texts))] }
	m := NewModel()
	v := NewView(m)
	v.Title, v.Status, v.Message = any(), any, any
	keys := []Key{Up, Down, PageUp, PageDown, Home, End, Enter, Escape, Backspace}
	for n := range 300 {
		o := object{name: any(), namespace: any(), job: any(), manager: any(), wrote: n}
		titled := []screen.Column{{Title: any(), Name: true}, {Title: any()}, {Title: "AGE"}}[:random.IntN(4)]
		kind := []stream.Type{stream.Added, stream.Modified, stream.Deleted, stream.Synced}[random.IntN(4)]
		m.Apply(o.event(kind), titled, []screen.Text{{Text: any()}, {Text: any()}, {Text: any()}, {Text: any()}})
		switch random.IntN(3) {
		case 0:
			v.Press(keys[random.IntN(len(keys))])
		case 1:
			for _, r := range []rune(any() + "abc")[:3] {
				v.Type(r)
			}
		}
		draw(t, v, random.IntN(100), random.IntN(30))
		if t.Failed() {
			t.Fatalf("after %d steps", n)
		}
	}
	draw(t, v, 20, 5)
	draw(t, v, 1, 1)
}

// TestNarrow: cells are cut before columns are left out, and the count and the name stay.
func TestNarrow(t *testing.T) {
	m := NewModel()
	v := NewView(m)
	o := object{namespace: "shop", name: "web-7d4b9c6f5-x2x8z-and-a-very-long-name", job: "a long text of a job"}
	o.apply(m, stream.Added)
	for columns, text := range map[int]string{
		100: "0           shop        web-7d4b9c6f5-x2x8z-and-a-very-long-name   a long text of a job   0s",
		80:  "0      shop  web-7d4b9c6f5-x2x8z-and-a-very-long-name  a long text of a job  0s",
		40:  "0    shop  web-7d4b9c6f5-…very-long-name",
		20:  "0    shop  web-…name",
	} {
		lines, _ := draw(t, v, columns, 5)
		want(t, fmt.Sprint(columns, " columns"), lines[2:3], text)
	}
}

// TestNoCellIsCutForNothing: a cell that begins with a mark keeps its end, and the first column what it says.
func TestNoCellIsCutForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewModel()
		v := NewView(m)
		wide := strings.Repeat("x", 60)
		for name, job := range map[string]string{"a": "\u0301start", "b": "\ufe0f\u2764", "c": "\u1160가", "d": wide} {
			object{name: name, job: job}.apply(m, stream.Added)
		}
		synced(m)
		for range 1234 {
			object{name: "c", job: "\u1160가"}.apply(m, stream.Modified)
		}
		object{name: "d", job: wide}.apply(m, stream.Deleted)
		lines, _ := draw(t, v, 40, 6)
		for i, want := range []string{"1234 \u1160가", "deleted xxx", "0 \u0301start", "0 \ufe0f\u2764"} {
			fields := strings.Fields(lines[2+i])
			number, job, _ := strings.Cut(want, " ")
			if !strings.HasPrefix(lines[2+i], number+" ") || !strings.Contains(strings.Join(fields, " "), job) {
				t.Errorf("line %q: want %q", lines[2+i], want)
			}
		}
	})
}
