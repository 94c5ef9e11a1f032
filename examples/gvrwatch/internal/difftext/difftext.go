package difftext

import (
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
)

// MostOfValue is how wide a value is where there is room.
const MostOfValue = 80

// Shorten replaces what the two values of a field begin or end with by an ellipsis, except for a few characters.
func Shorten(f changes.Field) changes.Field {
	const context = 8
	a, b := []rune(f.Old), []rune(f.New)
	begin, end := 0, 0
	for begin < min(len(a), len(b)) && a[begin] == b[begin] {
		begin++
	}
	for end < min(len(a), len(b))-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	shorter := func(r []rune) string {
		before, after := "", ""
		if end > context+1 {
			r, after = r[:len(r)-end+context], "…"
		}
		if begin > context+1 {
			r, before = r[begin-context:], "…"
		}
		return before + string(r) + after
	}
	f.Old, f.New = shorter(a), shorter(b)
	return f
}

// Of returns "PATH: OLD → NEW", "PATH: NEW" with a plus, or "PATH: OLD" with a minus.
func Of(f changes.Field) []screen.Text {
	path, colon := screen.Text{Text: f.Path, Most: MostOfValue}, screen.Text{Text: ": "}
	old := screen.Text{Text: f.Old, Style: screen.Red, Most: MostOfValue}
	now := screen.Text{Text: f.New, Style: screen.Green, Most: MostOfValue}
	switch {
	case f.Old == "":
		return []screen.Text{{Text: "+ ", Style: screen.Green}, path, colon, now}
	case f.New == "":
		return []screen.Text{{Text: "- ", Style: screen.Red}, path, colon, old}
	}
	return []screen.Text{path, colon, old, {Text: " → "}, now}
}
