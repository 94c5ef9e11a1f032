package timeline

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
)

// Authors of objects choose how long values and names are, and how much changes. What is beyond these is cut.
const (
	maxValue  = 240 // runes of an old or new value, and of a path
	maxName   = 512 // runes of other texts
	maxFields = 40  // of a mark
	maxBy     = 8   // managers of a mark
)

// data is what the page's script reads. Texts are numbers: indexes of Strings, of which each is there once. So is each
// change in Changes: many events of a day make the same ones.
type data struct {
	Strings []string `json:"strings"` // the first one is empty
	From    int64    `json:"from"`    // milliseconds since 1970
	To      int64    `json:"to"`
	Gaps    []gap    `json:"gaps"`
	// Changes are lists of numbers: the note, how many fields were left out, how many managers follow, the managers,
	// and three texts a field: path, old, new. The first change is that of marks without one.
	Changes [][]int  `json:"changes"`
	Objects []object `json:"objects"`
}

type gap struct {
	From      int64 `json:"from"`
	To        int64 `json:"to"`
	Reason    int   `json:"reason"`
	Type      int   `json:"type"`
	Namespace int   `json:"namespace"`
	Forgets   bool  `json:"forgets"`
}

type object struct {
	Type      int `json:"type"`
	Namespace int `json:"namespace"`
	Name      int `json:"name"`
	// Marks are three numbers each: milliseconds since the page's From, the Kind, plus 4 if it is inferred, the change.
	Marks []int64 `json:"marks"`
}

const inferred = 4

// counts are those of the page's title.
type counts struct {
	objects, gaps int
	marks         [kinds]int
}

// encoder numbers texts and changes.
type encoder struct {
	data    data
	texts   map[string]int
	changes map[string]int
}

// encode returns the data of a page. It is the same for the same page, whatever the order of its objects is.
func encode(p Page) (data, counts) {
	e := &encoder{texts: map[string]int{}, changes: map[string]int{}}
	e.text("", maxName)
	e.change(Mark{})
	from, to := bounds(p)
	e.data.From, e.data.To = from.UnixMilli(), to.UnixMilli()
	n := counts{objects: len(p.Objects), gaps: len(p.Gaps)}
	gaps := slices.Clone(p.Gaps)
	slices.SortFunc(gaps, func(a, b Gap) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Reason, b.Reason))
	})
	e.data.Gaps = make([]gap, 0, len(gaps))
	for _, g := range gaps {
		e.data.Gaps = append(e.data.Gaps, gap{g.From.UnixMilli(), g.To.UnixMilli(),
			e.text(g.Reason, maxName), e.text(g.Type, maxName), e.text(g.Namespace, maxName),
			g.Forgets})
	}
	objects := slices.Clone(p.Objects)
	slices.SortStableFunc(objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	e.data.Objects = make([]object, 0, len(objects))
	for _, o := range objects {
		row := object{e.text(o.Type, maxName), e.text(o.Namespace, maxName), e.text(o.Name, maxName),
			make([]int64, 0, 3*len(o.Marks))}
		last := from
		for _, m := range o.Marks {
			if m.Time.Before(last) { // a clock was set back: the order of the events is what is certain
				m.Time = last
			}
			last = m.Time
			kind := int64(m.Kind)
			if m.Inferred {
				kind += inferred
			}
			row.Marks = append(row.Marks, m.Time.UnixMilli()-e.data.From, kind, int64(e.change(m)))
			n.marks[m.Kind]++
		}
		e.data.Objects = append(e.data.Objects, row)
	}
	return e.data, n
}

// bounds returns when the page begins and ends: all its marks and gaps are between them.
func bounds(p Page) (from, to time.Time) {
	from, to = p.From, p.To
	add := func(t time.Time) {
		if from.IsZero() || t.Before(from) {
			from = t
		}
		if to.IsZero() || t.After(to) {
			to = t
		}
	}
	for _, o := range p.Objects {
		for _, m := range o.Marks {
			add(m.Time)
		}
	}
	for _, g := range p.Gaps {
		add(g.From)
		add(g.To)
	}
	if from.IsZero() {
		from = time.UnixMilli(0)
	}
	if to.Before(from) {
		to = from
	}
	return from, to
}

// text returns the number of a text, of which it keeps the first runes.
func (e *encoder) text(s string, most int) int {
	s = cut(s, most)
	i, ok := e.texts[s]
	if !ok {
		i = len(e.data.Strings)
		e.data.Strings = append(e.data.Strings, s)
		e.texts[s] = i
	}
	return i
}

// change returns the number of what a mark has changed.
func (e *encoder) change(m Mark) int {
	fields, more := bounded(m.Fields)
	by := m.By[:min(len(m.By), maxBy)]
	list := []int{e.text(m.Note, maxName), more + m.More, len(by)}
	for _, b := range by {
		list = append(list, e.text(b, maxValue))
	}
	for _, f := range fields {
		list = append(list, e.text(f.Path, maxValue), e.text(f.Old, maxValue), e.text(f.New, maxValue))
	}
	var key []byte
	for _, n := range list {
		key = append(strconv.AppendInt(key, int64(n), 36), ' ')
	}
	i, ok := e.changes[string(key)]
	if !ok {
		i = len(e.data.Changes)
		e.data.Changes = append(e.data.Changes, list)
		e.changes[string(key)] = i
	}
	return i
}

// bounded returns the first fields, cut, and how many more there are. What is bounded stays as it is.
func bounded(fields []changes.Field) (first []changes.Field, more int) {
	for _, f := range fields[:min(len(fields), maxFields)] {
		f.Path = cut(f.Path, maxValue)
		f.Old, f.New = cutValues(f.Old, f.New)
		first = append(first, f)
	}
	return first, len(fields) - len(first)
}

// cutValues returns the old and the new value of a field, cut. If they are long, what both begin with is left out, so
// that the cut leaves what differs.
func cutValues(old, now string) (shorterOld, shorterNew string) {
	const context = 20
	long := utf8.RuneCountInString(old) > maxValue || utf8.RuneCountInString(now) > maxValue
	same := 0
	for long && same < min(len(old), len(now)) && old[same] == now[same] {
		same++
	}
	begin := max(0, same-context)
	for begin > 0 && begin < len(old) && !utf8.RuneStart(old[begin]) {
		begin--
	}
	if begin == 0 {
		return cut(old, maxValue), cut(now, maxValue)
	}
	return "…" + cut(old[begin:], maxValue-1), "…" + cut(now[begin:], maxValue-1)
}

// cut returns a text of at most some runes, as valid UTF-8. If it is longer, it ends with how much was left out.
func cut(s string, most int) string {
	const end = 30 // runes for that
	if utf8.RuneCountInString(s) > most {
		n := 0
		for i := range s {
			if n++; n > most-end {
				s = s[:i] + "… (" + strconv.Itoa(len(s)-i) + " bytes more)"
				break
			}
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
