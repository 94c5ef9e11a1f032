package screen

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFit(t *testing.T) {
	n, o := Column{Name: true}, Column{}
	tests := []struct {
		want    []int
		columns []Column
		screen  int
		widths  []int
		gap     int
		why     string
	}{
		{[]int{8, 11, 20, 4}, []Column{o, o, n, o}, 52, []int{8, 11, 20, 4}, 3, "what fits has kubectl's gaps"},
		{[]int{8, 11, 20, 4}, []Column{o, o, n, o}, 51, []int{8, 11, 20, 4}, 2, "narrow gaps come before cuts"},
		{[]int{8, 30, 90}, []Column{o, n, o}, 80, []int{8, 30, 38}, 2, "the last column takes what is left"},
		{[]int{8, 60, 90}, []Column{o, n, o}, 80, []int{8, 48, 20}, 2, "but at least 20; then names give way"},
		{[]int{8, 60, 7}, []Column{o, n, o}, 40, []int{8, 21, 7}, 2, "the widest becomes narrower"},
		{[]int{8, 40, 38, 5}, []Column{o, n, o, o}, 60, []int{8, 21, 20, 5}, 2, "the widest two become equal"},
		{[]int{30, 60, 4}, []Column{o, n, o}, 40, []int{12, 20, 4}, 2, "names stay 20 while others are wider than 8"},
		{[]int{30, 60, 30}, []Column{o, n, o}, 40, []int{8, 20, 8}, 2, "others go down to 8"},
		{[]int{8, 12, 60, 5, 9}, []Column{o, o, n, o, o}, 50, []int{8, 11, 20, 5}, 2, "then the last are left out"},
		{[]int{8, 12, 60, 5, 9}, []Column{o, o, n, o, o}, 40, []int{8, 8, 20}, 2, "as many as needed"},
		{[]int{8, 12, 60, 5, 9}, []Column{o, o, n, o, o}, 20, []int{4, 4, 8}, 2, "at 20, names are 8 wide"},
		{[]int{8, 12, 60}, []Column{o, o, n}, 8, []int{2, 1, 1}, 2, "at 8, everything is tiny"},
		{[]int{8, 12, 60}, []Column{o, o, n}, 5, []int{2, 1}, 2, "at 5, two columns have room"},
		{[]int{8}, []Column{o}, 1, []int{1}, 2, "at 1 as well"},
		{nil, nil, 80, nil, 3, "no columns"},
	}
	for _, tt := range tests {
		got := fit(tt.want, tt.want, tt.columns, tt.screen)
		if diff := cmp.Diff(layout{tt.widths, tt.gap}, got, cmp.AllowUnexported(layout{})); diff != "" {
			t.Errorf("%v in %d: %s (-want +got):\n%s", tt.want, tt.screen, tt.why, diff)
		}
	}
}

// TestFitAlwaysFits tries all sizes of screens with random columns.
func TestFitAlwaysFits(t *testing.T) {
	for range 2000 {
		columns := make([]Column, 1+rand.IntN(12))
		want, cells := make([]int, len(columns)), make([]int, len(columns))
		all := narrowGap * (len(columns) - 1) // of cells that are not cut, and three columns of a title
		for i := range columns {
			columns[i].Name, want[i] = rand.IntN(8) == 0, rand.IntN(1+rand.IntN(100))
			cells[i] = rand.IntN(want[i] + 1)
			all += max(cells[i], min(want[i], 3))
		}
		screen := 1 + rand.IntN(200)
		l := fit(want, cells, columns, screen)
		if len(l.widths) == 0 || sum(l.widths)+l.gap*(len(l.widths)-1) > screen {
			t.Fatalf("%v, %v in %d: got %+v", want, columns, screen, l)
		}
		for i, w := range l.widths {
			if w > want[i] || w < min(want[i], 1) {
				t.Fatalf("%v, %v in %d: got %+v", want, columns, screen, l)
			}
			if all <= screen && (w < cells[i] || len(l.widths) < len(columns)) {
				t.Fatalf("%v, %v in %d: a cell was cut, but titles were not: %+v", want, cells, screen, l)
			}
			if columns[i].Name && w < min(cells[i], 20) && len(columns)*(20+narrowGap) <= screen {
				t.Fatalf("%v, %v in %d: a name was cut below 20: %+v", want, columns, screen, l)
			}
		}
	}
}

func TestFitOfHostileColumns(t *testing.T) {
	want, columns := make([]int, 100_000), make([]Column, 100_000)
	for i := range want {
		want[i] = 1000
	}
	columns[len(columns)-1].Name = true
	if l := fit(want, want, columns, 500); len(l.widths) != 167 {
		t.Errorf("got %d columns", len(l.widths))
	}
}

func TestCut(t *testing.T) {
	tests := []struct {
		text    string
		columns int
		middle  bool
		want    string
		why     string
	}{
		{"abc", 3, false, "abc", "it fits"},
		{"abcd", 3, false, "ab…", "the end is left out"},
		{"web-7d4b9c6f5-x2x8z", 12, true, "web-7d…x2x8z", "both ends of a name remain"},
		{"web-7d4b9c6f5-x2x8z", 7, true, "web-7d…", "with too little room only the begin"},
		{"abc", 1, false, "…", "room for the ellipsis only"},
		{"abc", 0, true, "", "no room"},
		{"abc", -5, false, "", "less than no room"},
		{"日本語日本語", 6, false, "日本…", "half of a wide character is left out"},
		{"日本語日本語日本語", 10, true, "日本…本語", "in the middle too"},
		{"e\u0301e\u0301e\u0301", 2, false, "e\u0301…", "marks stay with what they combine with"},
		{"abcdefghie\u0301", 8, true, "abcd…hie\u0301", "marks at the end too"},
		{"abcdefg\u0301\u0301hij", 8, true, "abcd…hij", "but not without it"},
		{"\u0301\u0301\u0301", 0, true, "\u0301\u0301\u0301", "only marks"},
	}
	for _, tt := range tests {
		got := cut(tt.text, tt.columns, tt.middle)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q at %d: %s (-want +got):\n%s", tt.text, tt.columns, tt.why, diff)
		}
	}
}

// TestCellWidth has the widths that tmux 3.3a shows.
func TestCellWidth(t *testing.T) {
	tests := []struct {
		text string
		want int
		why  string
	}{
		{"", 0, "nothing"},
		{"a é…·→α∞", 8, "ambiguous ones are narrow"},
		{"e\u0301", 1, "combining mark"},
		{"日本", 4, "East Asian wide"},
		{"ｱＡ", 3, "half and full width"},
		{"각", 2, "precomposed Hangul"},
		{"\u1100\u1161\u11a8", 2, "Hangul of three characters"},
		{"👍✅", 4, "emoji"},
		{"👍🏽", 4, "a terminal may also show 2"},
		{"🇩🇪", 2, "flag"},
		{"❤\ufe0f1\ufe0f\u20e3", 2, "a terminal may also show 4"},
		{"นี้", 1, "Thai"},
	}
	for _, tt := range tests {
		if got := cellWidth(tt.text); got != tt.want {
			t.Errorf("%q: %s: want %d, got %d", tt.text, tt.why, tt.want, got)
		}
	}
}
