package screen

import (
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Column is the title of a column. Name says that its cells are names: they are cut in the middle, because
// the ends of names differ where the rest is the same (web-7d4b9c6f5-x2x8z). Other cells lose their end.
type Column struct {
	Title string
	Name  bool
	Long  bool // if it is the last one, it is not cut: the terminal wraps the row
}

// Table aligns rows. Its methods may be called from any goroutine.
//
// In a terminal, the cells of a row are cut so that it does not wrap. The width of the terminal is asked for each time.
// When columns have moved, because a cell is wider than those before it, the header is printed again, but only if the
// last one has left the screen; when they have moved because of the terminal's width, it is printed at once. In
// anything else nothing is cut: a column is as wide as its widest cell so far, and three spaces apart from the next, as
// of kubectl get --watch.
type Table struct {
	Out io.Writer // an Output, or else what has neither colours nor a status line
	// Live prints each row at once, but the rows of the first 100 ms, at most 200, together, so that the first widths
	// are right. Without Live, Flush prints all rows.
	Live bool
	// Finite says that the end of a Live table is near: the rows of the first second, at most 1,000, are printed
	// together.
	Finite    bool
	NoHeaders bool

	mu      sync.Mutex
	columns []Column // with titles that are escaped
	want    []int    // widths of the widest cells, titles included
	cells   []int    // without them
	rows    []row    // that are not printed yet
	timer   *time.Timer
	shown   *shown // nil before the first row of the columns
}

type row struct {
	cells   []Text // escaped
	written func()
}

// shown is what is known of the last header.
type shown struct {
	header layout
	now    layout // of the last row
	screen int    // width of the terminal at the last row
	since  int    // rows since the header
}

// layout is where columns are.
type layout struct {
	widths []int
	gap    int
}

// Columns sets the columns of the rows that follow. If they are not the same as before, a header is printed before the
// next row, and what is known of widths is forgotten.
func (t *Table) Columns(columns ...Column) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	columns = slices.Clone(columns)
	for i, c := range columns {
		columns[i].Title = string(AppendEscaped(nil, c.Title, ""))
	}
	if slices.Equal(columns, t.columns) {
		return nil
	}
	err := t.flush()
	t.columns, t.want, t.cells, t.shown = columns, make([]int, len(columns)), make([]int, len(columns)), nil
	if !t.NoHeaders {
		widen(t.want, titles(columns))
	}
	return err
}

// Row adds a row. Cells beyond the last column are left out. Written, which may be nil, is called once the row is
// written: before Row, Flush or Columns returns, or in a goroutine. It must not use the Table.
func (t *Table) Row(written func(), cells ...Text) error {
	mostTime, mostRows := 100*time.Millisecond, 200
	if t.Finite {
		mostTime, mostRows = time.Second, 1000
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	cells = slices.Clone(cells[:min(len(cells), len(t.columns))])
	for i, c := range cells {
		cells[i].Text = string(AppendEscaped(nil, c.Text, ""))
	}
	widen(t.want, cells)
	widen(t.cells, cells)
	t.rows = append(t.rows, row{cells, written})
	switch {
	case !t.Live:
	case t.shown != nil, len(t.rows) == mostRows:
		return t.flush()
	case t.timer == nil:
		t.timer = time.AfterFunc(mostTime, func() { _ = t.Flush() }) // Out returns the error again
	}
	return nil
}

// Flush prints the rows that are not printed yet.
func (t *Table) Flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.flush()
}

func (t *Table) flush() error {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if len(t.rows) == 0 {
		return nil
	}
	rows, out := t.rows, outputOf(t.Out)
	t.rows = nil
	l, moved := t.layout(out)
	var lines []byte
	if moved && !t.NoHeaders {
		lines = t.appendRow(lines, out, l, titles(t.columns))
	}
	for _, r := range rows {
		lines = t.appendRow(lines, out, l, r.cells)
	}
	for _, r := range rows {
		t.shown.since += t.lines(l, r.cells)
	}
	if err := out.writeEscaped(lines); err != nil {
		return err
	}
	for _, r := range rows {
		if r.written != nil {
			r.written()
		}
	}
	return nil
}

// widen makes room for cells. One cell that is extremely wide must not pad all later rows, so it moves the next one.
func widen(widths []int, cells []Text) {
	most := 1000
	for i, c := range cells {
		if c.Long && i == len(widths)-1 {
			most = leastLast
		}
		widths[i] = max(widths[i], min(cellWidth(c.Text), most))
	}
}

// layout returns where the columns are now, and whether a header has to show it.
func (t *Table) layout(out *Output) (l layout, header bool) {
	width, height := 0, 0
	if out.to.size == nil {
		l = layout{slices.Clone(t.want), wideGap}
		for i, w := range l.widths {
			l.widths[i] = max(w, 3) // as kubectl does
		}
	} else {
		width, height = out.to.columnsAndRows()
		want, cells := slices.Clone(t.want), slices.Clone(t.cells)
		if last := len(want) - 1; t.isLong(last) {
			want[last], cells[last] = min(want[last], leastLast), min(cells[last], leastLast)
		}
		if t.shown != nil && width == t.shown.screen && t.shown.now.holds(cells, width) {
			l = t.shown.now
			if last := len(l.widths) - 1; l.widths[last] < cells[last] {
				l.widths = append(slices.Clone(l.widths[:last]), cells[last])
			}
		} else if l = fit(want, cells, t.columns, width); t.Live && !t.isLong(len(want)-1) {
			l.widen(width)
		}
	}
	switch {
	case t.shown == nil:
		header = true
	case out.to.size != nil && l.movedSince(t.shown.header):
		header = width != t.shown.screen || t.shown.since >= height-1
	}
	if header {
		t.shown = &shown{header: l}
	}
	t.shown.screen, t.shown.now = width, l
	return l, header
}

// lines returns how many lines of a terminal a row takes.
func (t *Table) lines(l layout, cells []Text) int {
	last := len(l.widths) - 1
	if t.shown.screen == 0 || len(cells) <= last || !t.isLong(last) && !cells[last].Long {
		return 1
	}
	width := sum(l.widths[:last]) + l.gap*last + cellWidth(cells[last].Text)
	return 1 + max(0, width-1)/t.shown.screen
}

func (t *Table) isLong(column int) bool {
	return column >= 0 && column == len(t.columns)-1 && t.columns[column].Long
}

// widen makes columns up to 3 wider than their cells, but the last, if a screen has room: later cells then move none.
func (l layout) widen(screen int) {
	const most = 3
	last := len(l.widths) - 1
	spare := screen - sum(l.widths) - l.gap*last
	for range most {
		for i := 0; i < last && spare > 0; i++ {
			l.widths[i]++
			spare--
		}
	}
}

// holds reports whether no cell needs to be cut, or moves a column.
func (l layout) holds(want []int, screen int) bool {
	last := len(l.widths) - 1
	if last < 0 || len(want) != len(l.widths) {
		return false
	}
	for i, w := range l.widths[:last] {
		if want[i] > w {
			return false
		}
	}
	return sum(l.widths[:last])+l.gap*last+want[last] <= screen
}

// movedSince compares all but the width of the last column.
func (l layout) movedSince(before layout) bool {
	n := len(l.widths)
	return l.gap != before.gap || n != len(before.widths) || n > 0 && !slices.Equal(l.widths[:n-1], before.widths[:n-1])
}

func (t *Table) appendRow(to []byte, out *Output, l layout, cells []Text) []byte {
	last := len(l.widths) - 1
	all := last == len(t.columns)-1 // none is left out
	wraps := t.isLong(last) || all && last >= 0 && last < len(cells) && cells[last].Long
	if out.to.sequences && !wraps {
		to = append(to, autowrapOff...)
	}
	for i, w := range l.widths {
		var cell Text
		if i < len(cells) {
			cell = cells[i]
		}
		if out.to.size != nil && !(wraps && i == last) {
			cell.Text = cut(cell.Text, w, t.columns[i].Name)
		}
		to = appendStyled(to, cell.Text, cell.Style, out.to.color)
		if i < last {
			to = append(to, strings.Repeat(" ", max(w-cellWidth(cell.Text), 0)+l.gap)...)
		}
	}
	if out.to.sequences && !wraps {
		to = append(to, autowrapOn...)
	}
	return append(to, '\n')
}

func titles(columns []Column) []Text {
	var cells []Text
	for _, c := range columns {
		cells = append(cells, Text{Text: c.Title, Style: Bold})
	}
	return cells
}
