package screen_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

func columns(titles ...string) []screen.Column {
	var columns []screen.Column
	for _, title := range titles {
		columns = append(columns, screen.Column{Title: title, Name: title == "NAME"})
	}
	return columns
}

func texts(cells ...string) []screen.Text {
	var texts []screen.Text
	for _, cell := range cells {
		texts = append(texts, screen.Text{Text: cell})
	}
	return texts
}

// live returns a live table of a terminal, which has printed the header and the first row.
func live(t *testing.T, w *terminal, titles string, cells ...string) *screen.Table {
	t.Helper()
	table := &screen.Table{Out: screen.New(w, &bytes.Buffer{}, nil).Out, Live: true}
	if err := table.Columns(columns(strings.Fields(titles)...)...); err != nil {
		t.Fatal(err)
	}
	add(t, table, cells...)
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	return table
}

func add(t *testing.T, table *screen.Table, cells ...string) {
	t.Helper()
	if err := table.Row(nil, texts(cells...)...); err != nil {
		t.Fatal(err)
	}
}

// TestTableIsKubectls compares with the writer that kubectl uses, which counts characters: there are no wide ones here.
func TestTableIsKubectls(t *testing.T) {
	for range 200 {
		var got, want bytes.Buffer
		isLive := rand.IntN(2) == 0
		table := &screen.Table{Out: &got, Live: isLive}
		kubectl := printers.GetNewTabWriter(&want)
		titles := make([]string, 1+rand.IntN(5))
		for i := range titles {
			titles[i] = strings.Repeat("T", rand.IntN(12))
		}
		_ = table.Columns(columns(titles...)...)
		fmt.Fprintln(kubectl, strings.Join(titles, "\t"))
		for range 1 + rand.IntN(20) {
			cells := make([]string, len(titles))
			for i := range cells {
				cells[i] = strings.Repeat("é", rand.IntN(1+rand.IntN(30)))
			}
			add(t, table, cells...)
			fmt.Fprintln(kubectl, strings.Join(cells, "\t"))
			if isLive {
				_ = kubectl.Flush()
				_ = table.Flush() // the first rows, which it prints together
			}
		}
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		_ = kubectl.Flush()
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Fatalf("live %v (-want +got):\n%s", isLive, diff)
		}
	}
}

func TestTableCuts(t *testing.T) {
	rows := [][]string{
		{"ADDED", "default", "web-7d4b9c6f5-x2x8z", "1/1", "Running", "5d3h"},
		{"MODIFIED", "team-payments-production", "a-name-of-a-deployment-7d4b9c6f5-q9x8z", "0/1",
			"CrashLoopBackOff", "3m"},
		{"ADDED", "日本語", "e\u0301-0", "\x1b[2J", "Running", "1s", "beyond the last column"},
		{"DELETED", "default"},
	}
	tests := []struct {
		columns int
		want    string
	}{
		{80, `
EVENT     NAMESPACE        NAME                  READY      STATUS          AGE
ADDED     default          web-7d4b9c6f5-x2x8z   1/1        Running         5d3h
MODIFIED  team-payments-…  a-name-of-…6f5-q9x8z  0/1        CrashLoopBack…  3m
ADDED     日本語           é-0                   \u001b[2J  Running         1s
DELETED   default
`},
		{120, `
EVENT      NAMESPACE                  NAME                                     READY       STATUS             AGE
ADDED      default                    web-7d4b9c6f5-x2x8z                      1/1         Running            5d3h
MODIFIED   team-payments-production   a-name-of-a-deployment-7d4b9c6f5-q9x8z   0/1         CrashLoopBackOff   3m
ADDED      日本語                     é-0                                      \u001b[2J   Running            1s
DELETED    default
`},
		{20, `
EVE…  NAM…  NAME
ADD…  def…  web-…x8z
MOD…  tea…  a-na…x8z
ADD…  日…   é-0
DEL…  def…
`},
	}
	for _, tt := range tests {
		w := &terminal{columns: tt.columns, rows: 24}
		table := &screen.Table{Out: screen.New(w, &bytes.Buffer{}, nil).Out}
		_ = table.Columns(columns("EVENT", "NAMESPACE", "NAME", "READY", "STATUS", "AGE")...)
		for _, cells := range rows {
			add(t, table, cells...)
		}
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), w.text()+"\n"); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", tt.columns, diff)
		}
	}
}

// TestTableCutsTitlesFirst: no column is as wide as its title while cells are cut, or columns are left out.
func TestTableCutsTitlesFirst(t *testing.T) {
	tests := []struct {
		columns int
		want    string
	}{
		{40, `
EVENT  NAMESP…  NAME                 RE…
ADDED  shop     web-7d4b9c6f5-x2x8z  1/1
`},
		{48, `
EVENT  NAM…  NAME                 REA…  RE…  AGE
ADDED  shop  web-7d4b9c6f5-x2x8z  1/1   0    5d
`},
		{55, `
EVENT  NAMESP…  NAME                 READY  RESTA…  AGE
ADDED  shop     web-7d4b9c6f5-x2x8z  1/1    0       5d
`},
	}
	for _, tt := range tests {
		w := &terminal{columns: tt.columns, rows: 24}
		table := &screen.Table{Out: screen.New(w, &bytes.Buffer{}, nil).Out, Live: true}
		_ = table.Columns(columns("EVENT", "NAMESPACE", "NAME", "READY", "RESTARTS", "AGE")...)
		for range 50 {
			add(t, table, "ADDED", "shop", "web-7d4b9c6f5-x2x8z", "1/1", "0", "5d")
			_ = table.Flush()
		}
		first := strings.Join(strings.Split(w.text(), "\n")[:2], "\n") + "\n"
		if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), first); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", tt.columns, diff)
		}
		if n := strings.Count(w.text(), "EVENT"); n != 1 {
			t.Errorf("%d columns: %d headers, although nothing has moved", tt.columns, n)
		}
		add(t, table, "DELETED", "warehouse", "web-7d4b9c6f5-x2x8z", "1/1", "0", "5d")
		if n := strings.Count(w.text(), "EVE"); n != 2 {
			t.Errorf("%d columns: %d headers, want another one: a cell has become wide\n%s", tt.columns, n, w.text())
		}
	}
}

func TestTableWrapsALongColumn(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	var w sizedBuffer
	w.columns = 50
	table := &screen.Table{Out: screen.New(&w, &bytes.Buffer{}, nil).Out, Live: true}
	_ = table.Columns(append(columns("REASON", "OBJECT"), screen.Column{Title: "MESSAGE", Long: true})...)
	message := strings.Repeat("0123456789", 6)
	add(t, table, "BackOff", "pod/web", message)
	_ = table.Flush()
	add(t, table, "a-reason-that-is-long", "pod/web", "short")
	want := "REASON    OBJECT    MESSAGE\n" +
		"BackOff   pod/web   " + message + "\n" +
		"a-reason-that-is-lo…  pod/web  short\n"
	if diff := cmp.Diff(want, w.String()); diff != "" {
		t.Errorf("a long column is not cut, and others leave 20 for it (-want +got):\n%s", diff)
	}
	for range 12 { // of two lines each, on a screen of 24
		add(t, table, "BackOff", "pod/web", message)
	}
	add(t, table, "BackOff", "pod/a-longer-name", "short")
	if n := strings.Count(w.String(), "MESSAGE"); n != 2 {
		t.Errorf("%d headers, want 2: the first one has left the screen when columns move\n%s", n, w.String())
	}
}

// TestTableWrapsALongCell: only the rows that have one wrap, and other columns keep their widths.
func TestTableWrapsALongCell(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	t.Setenv("TERM", "dumb")
	var w sizedBuffer
	w.columns = 40
	table := &screen.Table{Out: screen.New(&w, &bytes.Buffer{}, nil).Out}
	_ = table.Columns(columns("KIND", "DETAILS")...)
	long := strings.Repeat("0123456789", 6)
	add(t, table, "a-robot", long)
	if err := table.Row(nil, screen.Text{Text: "an-event"}, screen.Text{Text: long, Long: true}); err != nil {
		t.Fatal(err)
	}
	add(t, table, "a-robot", "short")
	_ = table.Flush()
	want := "KIND      DETAILS\na-robot   " + long[:29] + "…\nan-event  " + long + "\na-robot   short\n"
	if diff := cmp.Diff(want, w.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTableNeverWraps prints random rows, while the terminal changes its width.
func TestTableNeverWraps(t *testing.T) {
	pieces := []string{"web-", "日本", "e\u0301", "\x1b[31m", "\u202e", "👍", "x", "5d3h", "\n", "\t", "\xff"}
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			sizes := []int{0, 1, 2, 7, 20, 40, 80, 120, 160}
			w := &terminal{columns: sizes[rand.IntN(len(sizes))], rows: rand.IntN(30)}
			table := &screen.Table{Out: screen.New(w, &bytes.Buffer{}, nil).Out, Live: true}
			_ = table.Columns(columns("EVENT", "NAMESPACE", "NAME", "STATUS", "AGE")...)
			n := rand.IntN(50)
			for range n {
				cells := make([]string, rand.IntN(7))
				for i := range cells {
					cells[i] = strings.Repeat(pieces[rand.IntN(len(pieces))], rand.IntN(1+rand.IntN(40)))
				}
				add(t, table, cells...)
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
				if rand.IntN(30) == 0 {
					_ = table.Flush() // what was collected
					w.resize(sizes[rand.IntN(len(sizes))])
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if len(w.problems) > 0 {
				t.Fatalf("%d columns: %q\n%s", w.columns, w.problems, w.text())
			}
			if n > 0 && len(w.lines) < 1+n {
				t.Errorf("%d lines for %d rows:\n%s", len(w.lines), n, w.text())
			}
		})
	}
}

func TestTableCollectsTheFirstRows(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		rows  int
		each  time.Duration
		live  bool
		short bool // Finite
		pipe  bool
		lines []int // that are written after each row; the last is after Flush
		why   string
	}{
		{3, 40 * ms, true, false, false, []int{0, 0, 0, 4}, "nothing is printed in the first 100 ms"},
		{4, 60 * ms, true, false, false, []int{0, 0, 4, 5, 5}, "then what is there, and each row at once"},
		{4, 60 * ms, true, false, true, []int{0, 0, 4, 5, 5}, "in a pipe too"},
		{3, 400 * ms, true, true, true, []int{0, 0, 0, 4}, "a pipe gets the rows of a second if there are few"},
		{4, 600 * ms, true, true, false, []int{0, 0, 4, 5, 5}, "and so does a terminal"},
		{2, time.Hour, false, false, false, []int{0, 0, 3}, "a table that is not live waits for Flush"},
		{2, time.Hour, false, false, true, []int{0, 0, 3}, "in a pipe too"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			w, pipe := &terminal{columns: 80, rows: 24}, &bytes.Buffer{}
			s := screen.New(w, pipe, nil)
			out, lines := s.Out, w.count
			if tt.pipe {
				out, lines = s.ErrOut, func() int { return strings.Count(pipe.String(), "\n") }
			}
			table := &screen.Table{Out: out, Live: tt.live, Finite: tt.short}
			_ = table.Columns(columns("NAME")...)
			var written atomic.Int64
			var got []int
			for i := range tt.rows {
				if i > 0 {
					time.Sleep(tt.each)
					synctest.Wait()
				}
				if err := table.Row(func() { written.Add(1) }, texts("x")...); err != nil {
					t.Fatal(err)
				}
				if got = append(got, lines()); int(written.Load()) != max(0, lines()-1) {
					t.Errorf("%s: row %d: %d lines, but %d rows are written", tt.why, i, lines(), written.Load())
				}
			}
			if err := table.Flush(); err != nil || int(written.Load()) != tt.rows {
				t.Errorf("%s: Flush returned %v; %d rows are written", tt.why, err, written.Load())
			}
			if diff := cmp.Diff(tt.lines, append(got, lines())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
			time.Sleep(time.Hour)
			if more := lines(); more != tt.rows+1 {
				t.Errorf("%s: %d lines at the end", tt.why, more)
			}
		})
	}
}

func TestTableCollectsAtMost(t *testing.T) {
	for finite, most := range map[bool]int{false: 200, true: 1000} {
		w := &terminal{columns: 80, rows: 24}
		table := &screen.Table{Out: screen.New(w, &bytes.Buffer{}, nil).Out, Live: true, Finite: finite}
		_ = table.Columns(columns("NAME")...)
		for range most {
			if w.writes > 0 {
				t.Fatal("written too early")
			}
			add(t, table, "x")
		}
		if w.writes != 1 || len(w.lines) != 1+most {
			t.Errorf("%d writes, %d lines", w.writes, len(w.lines))
		}
	}
}

func TestTablePrintsTheHeaderAgain(t *testing.T) {
	const rows = 10
	tests := []struct {
		before int // rows after the first
		change func(*terminal, *screen.Table)
		cell   string // of the row after it
		want   bool
		why    string
	}{
		{20, nil, "x", false, "nothing has moved"},
		{rows - 3, nil, "wide-cell", false, "the last header can still be seen"},
		{rows - 2, nil, "wide-cell", true, "columns have moved, and the header has gone"},
		{0, func(w *terminal, _ *screen.Table) { w.resize(12) }, "wide-cell", true, "the terminal has become narrow"},
		{20, func(w *terminal, _ *screen.Table) { w.resize(79) }, "x", false, "narrower, but nothing has moved"},
		{0, func(_ *terminal, table *screen.Table) { _ = table.Columns(columns("A", "B", "C")...) }, "x", true,
			"there is one more column"},
		{0, func(_ *terminal, table *screen.Table) { _ = table.Columns(columns("A", "B")...) }, "x", false,
			"the same columns"},
	}
	for _, tt := range tests {
		w := &terminal{columns: 80, rows: rows}
		table := live(t, w, "A B", "x", "y")
		for range tt.before {
			add(t, table, "x", "y")
		}
		if tt.change != nil {
			tt.change(w, table)
		}
		add(t, table, tt.cell, "y")
		_ = table.Flush()
		if got := strings.Count(w.text(), "A ") == 2; got != tt.want {
			t.Errorf("%s:\n%s", tt.why, w.text())
		}
	}
}

func TestTableWithoutHeaders(t *testing.T) {
	w := &terminal{columns: 20, rows: 2}
	table := &screen.Table{Out: screen.New(w, &bytes.Buffer{}, nil).Out, NoHeaders: true}
	_ = table.Columns(columns("A-LONG-TITLE", "B")...)
	for range 5 {
		add(t, table, "abcd", "y")
	}
	add(t, table, "abcdef", "y")
	_ = table.Flush()
	if diff := cmp.Diff(strings.Repeat("abcd     y\n", 5)+"abcdef   y\n", w.text()+"\n"); diff != "" {
		t.Errorf("titles must not count (-want +got):\n%s", diff)
	}
}

func TestTableOfHostileCells(t *testing.T) {
	var out bytes.Buffer
	table := &screen.Table{Out: &out, Live: true}
	add(t, table, "no columns")
	_ = table.Columns(columns("A", "B")...)
	add(t, table, strings.Repeat("x", 1<<20), "y")
	add(t, table)
	before := out.Len()
	add(t, table, "x", "y")
	if n := out.Len() - before; n > 1100 {
		t.Errorf("after a huge cell each row has %d bytes", n)
	}
}
