package screen_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

func TestWriteLineCutsValues(t *testing.T) {
	line := func(old, now string) []screen.Text {
		return []screen.Text{{Text: "spec.n: "}, {Text: old, Most: 80}, {Text: " → "}, {Text: now, Most: 80}}
	}
	long, wide := strings.Repeat("x", 100), strings.Repeat("世", 40)
	short := func(begin, end int) string { return long[:begin] + "…" + long[:end] }
	for _, tt := range []struct {
		columns  int // 0 for a pipe
		old, now string
		want     string // after the path
		fits     bool
		why      string
	}{
		{0, "1", "2", "1 → 2", true, "a pipe has no width"},
		{0, long, "2", short(40, 39) + " → 2", false, "a pipe gets 80 characters of a value"},
		{80, "1", "2", "1 → 2", true, "short values fit"},
		{40, long, "2", short(14, 13) + " → 2", false, "a long value takes what is left"},
		{40, long, long, short(7, 7) + " → " + short(7, 6), false, "two long values share it"},
		{20, long, long, short(4, 3) + " → " + short(4, 3), false, "the line wraps before values vanish"},
		{30, wide, "2", wide[:12] + "…" + wide[:12] + " → 2", false, "a wide character takes two columns"},
		{30, "\x1b[2J\n", "2", `\u001b[2J\u000a → 2`, true, "a value is escaped before it is measured"},
	} {
		var w interface {
			Write([]byte) (int, error)
			String() string
		} = &bytes.Buffer{}
		if tt.columns > 0 {
			w = &sizedBuffer{columns: tt.columns}
		}
		out := screen.New(w, &bytes.Buffer{}, nil).Out
		if err := screen.WriteLine(out, line(tt.old, tt.now)...); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("spec.n: "+tt.want+"\n", w.String()); diff != "" {
			t.Errorf("%d columns: %s (-want +got):\n%s", tt.columns, tt.why, diff)
		}
		if fits := screen.Fits(out, line(tt.old, tt.now)...); fits != tt.fits {
			t.Errorf("%d columns: %s: Fits is %v", tt.columns, tt.why, fits)
		}
	}
}

// sizedBuffer is a terminal that keeps what is written.
type sizedBuffer struct {
	bytes.Buffer
	columns int
}

func (b *sizedBuffer) Size() (columns, rows int) { return b.columns, 24 }
