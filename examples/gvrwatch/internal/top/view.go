package top

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

// View is what a user sees of a Model. It is not for concurrent use.
type View struct {
	Title   string        // what is watched
	Status  func() string // the last line; nil means empty
	Message func() string // the line above it, which is for the rows while it is empty; nil means empty

	model  *Model
	typing bool // of the filter
	filter string
	cursor cursor
	layout screen.Layout
	detail *detail // nil if the list is shown
	page   int     // lines of the last drawing that can be moved through
}

// cursor is the selected row. It stays on its object when rows move, but at the top while nobody has moved it.
type cursor struct {
	at     *row // nil: the first row
	index  int  // of the row at the last drawing
	offset int  // of the first line that is shown
}

// detail shows the last changes of an object.
type detail struct {
	key    key
	kind   string
	offset int
}

// NewView returns a View of a Model.
func NewView(m *Model) *View { return &View{model: m} }

// Key is a key that is no character.
type Key string

// Keys.
const (
	Up        Key = "up"
	Down      Key = "down"
	PageUp    Key = "page up"
	PageDown  Key = "page down"
	Home      Key = "home"
	End       Key = "end"
	Enter     Key = "enter"
	Escape    Key = "escape"
	Backspace Key = "backspace"
	Interrupt Key = "interrupt" // Ctrl-C
)

// Press does what a key is for. It reports whether the user wants to leave.
func (v *View) Press(k Key) (leave bool) {
	switch k {
	case Interrupt:
		return true
	case Escape:
		v.escape()
	case Enter:
		v.enter()
	case Backspace:
		if v.detail == nil && v.filter != "" {
			_, size := utf8.DecodeLastRuneInString(v.filter)
			v.typing = true
			v.setFilter(v.filter[:len(v.filter)-size])
		}
	default:
		v.typing = false
		v.move(k)
	}
	return false
}

// Type does what a character is for: q leaves, s changes the order, and others begin the filter or are added to it. It
// reports whether the user wants to leave.
func (v *View) Type(r rune) (leave bool) {
	const mostOfFilter = 60
	switch {
	case v.detail != nil:
		return r == 'q'
	case v.typing:
		if unicode.IsPrint(r) && utf8.RuneCountInString(v.filter) < mostOfFilter {
			v.setFilter(v.filter + string(r))
		}
	case r == 'q':
		return true
	case r == 's':
		v.model.order.sort(v.model.order.by.next())
		v.cursor = cursor{}
	case r == '/':
		v.typing = true
	case unicode.IsLetter(r) || unicode.IsDigit(r):
		v.typing = true
		v.setFilter(v.filter + string(r))
	}
	return false
}

func (v *View) setFilter(text string) {
	v.filter, v.cursor = text, cursor{}
	v.model.setFilter(text)
}

// escape leaves the changes of an object, or clears the filter.
func (v *View) escape() {
	if v.detail != nil {
		v.detail = nil
		return
	}
	v.typing = false
	v.setFilter("")
}

// enter shows the changes of the selected object, or leaves them.
func (v *View) enter() {
	v.typing = false
	if v.detail != nil {
		v.detail = nil
		return
	}
	rows := v.model.visible()
	if v.cursor.index = v.indexOf(rows); v.cursor.index < len(rows) {
		r := rows[v.cursor.index]
		v.cursor.at = r
		v.detail = &detail{key: r.key, kind: r.kind}
	}
}

// indexOf returns where the cursor is in these rows: at the row of its object, or at the place where that was.
func (v *View) indexOf(rows []*row) int {
	if v.cursor.at == nil {
		return 0
	}
	if i := slices.Index(rows, v.cursor.at); i >= 0 {
		return i
	}
	return max(0, min(v.cursor.index, len(rows)-1))
}

// move moves the cursor, or the changes that are shown.
func (v *View) move(k Key) {
	by := map[Key]int{Up: -1, Down: 1, PageUp: -v.page, PageDown: v.page}
	if d := v.detail; d != nil {
		switch k {
		case Home:
			d.offset = 0
		case End:
			d.offset = 1 << 30 // draw knows how many lines there are
		default:
			d.offset = max(0, d.offset+by[k])
		}
		return
	}
	rows := v.model.visible()
	index := v.indexOf(rows)
	switch k {
	case Home:
		v.cursor = cursor{}
		return
	case End:
		index = len(rows) - 1
	default:
		index = min(index+by[k], len(rows)-1)
	}
	v.cursor.index, v.cursor.at = max(0, index), nil
	if index >= 0 && index < len(rows) {
		v.cursor.at = rows[index]
	}
}
