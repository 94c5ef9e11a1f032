package screen

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// cellWidth returns how many columns of a terminal s takes. It counts characters, as wcwidth(3) does, and not clusters
// of them: terminals differ in clusters, and the most usual ones have a joiner, which is escaped.
func cellWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) || r >= 0x1160 && r <= 0x11ff || r >= 0xd7b0 && r <= 0xd7ff {
		return 0 // combining marks, and vowels and finals of Hangul, which join the consonant before
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cut shortens s to at most columns with an ellipsis for what is left out: the end or, if middle and there is room for
// both ends, the middle.
func cut(s string, columns int, middle bool) string {
	if len(s) <= columns || cellWidth(s) <= columns {
		return s
	}
	if columns <= 0 {
		return ""
	}
	end := len(s)
	if used := 0; middle && columns >= 8 {
		for i := end; ; { // the longest end
			r, size := utf8.DecodeLastRuneInString(s[:i])
			n := runeWidth(r)
			if used+n > (columns-1)/2 {
				break
			}
			i, used = i-size, used+n
			if n > 0 { // a mark needs what it combines with
				end = i
			}
		}
		columns -= used
	}
	begin, used := 0, 0
	for i, r := range s {
		if used += runeWidth(r); used > columns-1 {
			begin = i
			break
		}
	}
	return s[:begin] + "…" + s[end:]
}

// Gaps between two columns: kubectl's, and the one where cells are cut.
const wideGap, narrowGap = 3, 2

// leastLast is how wide the last column stays while others can become narrower.
const leastLast = 20

// fit returns a layout whose rows fit into a screen. Want has the width of the widest cell of each column, its title
// included; cells has it without. The columns get what they want if that fits. Otherwise titles are cut before cells.
// If that does not fit, the last column takes what is left, but at least 20. If that does not fit, the widest
// columns become narrower, those of names down to 20, others down to 8. If that does not fit either, the last columns
// are left out, but no name, and what remains becomes as narrow as needed, names down to 8 first.
func fit(want, cells []int, columns []Column, screen int) layout {
	if sum(want)+wideGap*(len(want)-1) <= screen {
		return layout{slices.Clone(want), wideGap}
	}
	const leastName, leastOther, leastTitle = 20, 8, 3
	room := screen - narrowGap*(len(want)-1)
	least := make([]int, len(want))
	for i := range want {
		least[i] = max(cells[i], min(want[i], leastTitle))
	}
	if widths := slices.Clone(want); shrink(widths, least, room) {
		return layout{widths, narrowGap}
	}
	titled := want
	want = least
	isName := func(c Column) bool { return c.Name }
	most := min(len(want), (screen+narrowGap)/(1+narrowGap)) // each at least 1 wide
	n := most
	for ; n > 0 && !slices.ContainsFunc(columns[n:], isName); n-- {
		room := screen - narrowGap*(n-1)
		widths := slices.Clone(want[:n])
		if last := n - 1; !columns[last].Name {
			widths[last] = min(want[last], max(leastLast, room-sum(want[:last])))
		}
		if shrink(widths, leastWidths(columns[:n], leastName, leastOther), room) {
			grow(widths, titled, room)
			return layout{widths, narrowGap}
		}
	}
	n = max(1, min(n+1, most))
	widths := slices.Clone(want[:n])
	room = screen - narrowGap*(n-1)
	if !shrink(widths, leastWidths(columns[:n], 8, 1), room) {
		shrink(widths, leastWidths(columns[:n], 1, 1), room)
	}
	return layout{widths, narrowGap}
}

// grow gives columns the room that they want, as far as there is some.
func grow(widths, want []int, room int) {
	spare := max(room-sum(widths), 0)
	for i, w := range widths {
		more := min(max(want[i]-w, 0), spare)
		widths[i] += more
		spare -= more
	}
}

func leastWidths(columns []Column, name, other int) []int {
	least := slices.Repeat([]int{other}, len(columns))
	for i, c := range columns {
		if c.Name {
			least[i] = name
		}
	}
	return least
}

// shrink makes the widest of the widths as narrow as needed for a sum of room, but none narrower than the least. It
// reports false, and changes nothing, if that is not possible.
func shrink(widths, least []int, room int) bool {
	if sum(widths) <= room {
		return true
	}
	narrow := make([]int, len(widths))
	for most := min(room, slices.Max(widths)); most > 0; most-- {
		for i, w := range widths {
			narrow[i] = min(w, max(most, least[i]))
		}
		spare := room - sum(narrow)
		if spare < 0 {
			continue
		}
		for i, w := range widths {
			if spare > 0 && narrow[i] == most && w > most {
				narrow[i]++
				spare--
			}
		}
		copy(widths, narrow)
		return true
	}
	return false
}

func sum(widths []int) int {
	n := 0
	for _, w := range widths {
		n += w
	}
	return n
}
