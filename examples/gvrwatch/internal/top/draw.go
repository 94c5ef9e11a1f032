package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/difftext"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/stream"
)

// styles are those of the types of events, as in the other outputs of the tool.
var styles = map[stream.Type]screen.Style{
	stream.Added: screen.Green, stream.Modified: screen.Yellow, stream.Deleted: screen.Red,
}

// Draw draws what is to be seen now: a line with what is shown and in which order, the header, the rows, the message,
// and the status. A grid with one line has only the first one.
func (v *View) Draw(g Grid) {
	v.model.Advance()
	columns, lines := g.Size()
	if columns <= 0 || lines <= 0 {
		return
	}
	last := func(of func() string, style screen.Style) {
		if of == nil || lines < 2 {
			return
		}
		if escaped := string(screen.AppendEscaped(nil, shorten(of()), "")); escaped != "" {
			lines--
			text(g, 0, lines, columns, screen.Cut(escaped, columns, true), Style{Text: style})
		}
	}
	last(v.Status, screen.Dim)
	if lines > 4 {
		last(v.Message, screen.Yellow)
	}
	if v.detail != nil {
		v.drawDetail(g, columns, lines)
	} else {
		v.drawList(g, columns, lines)
	}
}

// title draws the first line: keys at the right, if there is room.
func (v *View) title(g Grid, columns int, left, keys string) {
	left = string(screen.AppendEscaped(nil, shorten(left), ""))
	text(g, 0, 0, columns, left, Style{Text: screen.Bold})
	if at := columns - screen.Width(keys); at >= screen.Width(left)+2 {
		text(g, at, 0, columns-at, keys, Style{Text: screen.Dim})
	}
}

// churnTitle is the title of the first column. Deleted objects have a word there that says so.
const churnTitle, deletedText = "CHURN/MIN", "deleted"

// drawList draws the rows, in the first lines of the grid.
func (v *View) drawList(g Grid, columns, lines int) {
	rows := v.model.visible()
	left := string(screen.AppendEscaped(nil, shorten(v.Title), ""))
	left = screen.Cut(left, columns/3, true) + "  sort: " + string(v.model.order.by)
	if v.typing || v.filter != "" {
		left += "  filter: " + v.filter
		if v.typing {
			left += "_"
		}
	}
	if v.filter != "" {
		left += fmt.Sprintf("  %d of %d", len(rows), len(v.model.rows))
	}
	v.title(g, columns, strings.TrimSpace(left), "/ filter  s sort  Enter changes  q quit")
	v.page = max(1, lines-2)
	v.cursor.index = v.indexOf(rows)
	v.scroll(len(rows))
	shown := rows[v.cursor.offset:min(len(rows), v.cursor.offset+v.page)]
	now := time.Now()
	titles := append([]screen.Column{{Title: churnTitle}}, v.model.columns...)
	v.fit(shown, titles, columns, now)
	header := func(i int) (string, Style) { return titles[i].Title, Style{Text: screen.Bold} }
	if lines > 1 {
		v.drawLine(g, 1, columns, Style{Text: screen.Bold}, titles, header)
	}
	for n := range v.page {
		if 2+n >= lines {
			break
		}
		if n >= len(shown) {
			text(g, 0, 2+n, columns, "", Style{})
			continue
		}
		r := shown[n]
		style := Style{Selected: v.cursor.offset+n == v.cursor.index}
		switch {
		case !r.deleted.IsZero():
			style.Text = screen.Red
		case now.Sub(r.added) < highlighted:
			style.Text = screen.Green
		}
		v.drawLine(g, 2+n, columns, style, titles, func(i int) (string, Style) {
			if i == 0 {
				return churnText(r), style
			}
			cell, changed := r.cell(v.model.columns, i-1, now)
			style := style
			if style.Text == screen.Plain && now.Sub(changed) < highlighted {
				style.Text, style.Changed = screen.Yellow, true
			}
			return cell, style
		})
	}
}

func churnText(r *row) string {
	if !r.deleted.IsZero() {
		return deletedText
	}
	return strconv.Itoa(r.perMin)
}

// scroll moves the lines that are shown so that the cursor is among them.
func (v *View) scroll(rows int) {
	c := &v.cursor
	c.offset = min(c.offset, max(0, rows-v.page), c.index)
	c.offset = max(c.offset, c.index-v.page+1, 0)
}

// fit finds where the columns are for the rows that are shown.
func (v *View) fit(shown []*row, titles []screen.Column, columns int, now time.Time) {
	want, widest := make([]int, len(titles)), make([]int, len(titles)) // with and without the titles
	for i, c := range titles {
		want[i] = screen.Width(c.Title)
		for _, r := range shown {
			cell := churnText(r)
			if i > 0 {
				cell, _ = r.cell(v.model.columns, i-1, now)
			}
			widest[i] = max(widest[i], screen.Width(cell))
			want[i] = max(want[i], widest[i])
		}
	}
	v.layout = v.layout.Fit(want, widest, titles, columns)
}

// drawLine draws a line of the table. The style is that of what is between the cells.
func (v *View) drawLine(
	g Grid, line, columns int, style Style, titles []screen.Column, cell func(i int) (string, Style),
) {
	style.Changed = false
	text(g, 0, line, columns, "", style)
	at := 0
	for i, width := range v.layout.Widths() {
		if i >= len(titles) || at >= columns {
			break
		}
		content, look := cell(i)
		width = min(width, columns-at)
		content = screen.Cut(content, width, titles[i].Name)
		text(g, at, line, screen.Width(content), content, look)
		at += width + v.layout.Gap()
	}
}

func (v *View) drawDetail(g Grid, columns, lines int) {
	d := v.detail
	changes := v.model.history.of(d.key)
	name := d.key.name
	if d.key.namespace != "" {
		name = d.key.namespace + "/" + name
	}
	left := fmt.Sprintf("%s %s  last changes: %d", d.kind, name, len(changes))
	v.title(g, columns, left, "Enter back  q quit")
	var all [][]screen.Text
	for i := len(changes) - 1; i >= 0; i-- { // the last one first
		all = append(all, changes[i].lines(columns)...)
	}
	if len(changes) == 0 {
		all = [][]screen.Text{{{Text: fmt.Sprintf("no change has been seen; they are kept of the %d objects that "+
			"changed last", mostObjects), Style: screen.Dim}}}
	}
	v.page = max(1, lines-1)
	d.offset = max(0, min(d.offset, len(all)-v.page))
	for n := range v.page {
		if 1+n >= lines {
			break
		}
		text(g, 0, 1+n, columns, "", Style{})
		if d.offset+n >= len(all) {
			continue
		}
		at := 0
		for _, t := range all[d.offset+n] {
			width := min(screen.Width(t.Text), columns-at)
			text(g, at, 1+n, width, t.Text, Style{Text: t.Style})
			at += width
		}
	}
}

// lines returns a change as lines: when, which, who, and a line for each field.
func (c *change) lines(columns int) (lines [][]screen.Text) {
	first := []screen.Text{
		{Text: c.at.Format("15:04:05") + "  ", Style: screen.Dim}, {Text: string(c.kind), Style: styles[c.kind]},
	}
	if len(c.by) > 0 {
		first = append(first, screen.Text{Text: "  by " + strings.Join(c.by, ", "), Most: columns})
	}
	if c.note != "" {
		first = append(first, screen.Text{Text: "  " + c.note, Style: screen.Dim})
	}
	line, _ := screen.FitLine(columns, first...)
	lines = append(lines, line)
	for _, f := range c.fields {
		indent := screen.Text{Text: "          "}
		line, fits := screen.FitLine(columns, append([]screen.Text{indent}, difftext.Of(f)...)...)
		if !fits {
			line, _ = screen.FitLine(columns, append([]screen.Text{indent}, difftext.Of(difftext.Shorten(f))...)...)
		}
		lines = append(lines, line)
	}
	return lines
}
