package screen_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

// TestLayout: columns stay where they are while there is room, also for narrower cells, and move with the screen.
func TestLayout(t *testing.T) {
	columns := []screen.Column{{Title: "A"}, {Title: "NAME", Name: true}, {Title: "C"}}
	var l screen.Layout
	for _, tt := range []struct {
		why    string
		want   []int
		screen int
		widths []int
		gap    int
	}{
		{"all fits", []int{5, 10, 20}, 80, []int{5, 10, 20}, 3},
		{"narrower cells move nothing", []int{3, 4, 5}, 80, []int{5, 10, 20}, 3},
		{"a wider one in the last column neither, and is not cut", []int{3, 4, 30}, 80, []int{5, 10, 30}, 3},
		{"a wider one does", []int{3, 12, 5}, 80, []int{3, 12, 5}, 3},
		{"a narrow screen cuts", []int{5, 40, 30}, 60, []int{5, 31, 20}, 2},
		{"a narrower one leaves out the last", []int{5, 40, 30}, 30, []int{5, 23}, 2},
		{"and back", []int{5, 40, 30}, 100, []int{5, 40, 30}, 3},
	} {
		l = l.Fit(tt.want, tt.want, columns, tt.screen)
		if diff := cmp.Diff(tt.widths, l.Widths()); diff != "" || l.Gap() != tt.gap {
			t.Errorf("%s: a gap of %d, want %d (-want +got):\n%s", tt.why, l.Gap(), tt.gap, diff)
		}
	}
}

// TestFitLine: texts that may be cut become narrower, and all are escaped.
func TestFitLine(t *testing.T) {
	texts := []screen.Text{{Text: "\x1b: "}, {Text: "0123456789abcdefghij", Most: 80}}
	for columns, want := range map[int]string{80: `\u001b: 0123456789abcdefghij`, 20: `\u001b: 012345…fghij`} {
		line, fits := screen.FitLine(columns, texts...)
		if got := line[0].Text + line[1].Text; got != want || fits != (columns == 80) {
			t.Errorf("%d columns: %q fits: %v, want %q", columns, got, fits, want)
		}
	}
}
