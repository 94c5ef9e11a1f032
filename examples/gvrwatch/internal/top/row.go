package top

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/stream"
)

// key identifies an object: its resource with version and group, namespace and name. An object that is created again
// has the row of the one before.
type key struct{ resource, namespace, name string }

func keyOf(ev stream.Event) key {
	m := ev.Meta()
	return key{ev.Resource.String(), m.GetNamespace(), m.GetName()}
}

// row is what is known of an object.
type row struct {
	key     key
	kind    string
	columns []screen.Column // shared
	cells   []string        // escaped
	changed []time.Time     // of each cell; nil if none has changed
	created time.Time       // zero if unknown
	added   time.Time       // zero if it existed when the view began
	deleted time.Time       // zero if it exists
	text    string          // what the filter searches
	matches bool            // the filter
	perMin  int             // changes in the last minute
	moved   bool            // its place in the order may have changed
	gone    bool            // from the model
}

// ageTitle is the title of the column whose cells are replaced by the time since the object was created.
const ageTitle = "AGE"

// mostOfCell is how wide a cell is at most. Wider ones are cut when they come in, because no terminal shows them.
const mostOfCell = 500

// set replaces the cells, and remembers which have changed. Ages change all the time and do not count.
func (r *row) set(columns []screen.Column, texts []screen.Text, now time.Time) {
	cells := make([]string, len(columns))
	for i := range columns {
		if i < len(texts) {
			escaped := screen.AppendEscaped(nil, shorten(texts[i].Text), "")
			cells[i] = screen.Cut(based(strings.TrimRight(string(escaped), " ")), mostOfCell, columns[i].Name)
		}
	}
	if r.cells == nil || !slices.Equal(columns, r.columns) {
		r.changed = nil
	} else {
		for i, text := range cells {
			if text == r.cells[i] || columns[i].Title == ageTitle {
				continue
			}
			if r.changed == nil {
				r.changed = make([]time.Time, len(columns))
			}
			r.changed[i] = now
		}
	}
	r.columns, r.cells = columns, cells
	var searched []string
	for i, text := range cells {
		if columns[i].Title != ageTitle {
			searched = append(searched, text)
		}
	}
	r.text = strings.ToLower(r.kind + "/" + r.key.namespace + "/" + r.key.name + " " + strings.Join(searched, " "))
}

// shorten leaves out the middle of a text of which a cell can't show a tenth, so that to escape it takes no time.
func shorten(text string) string {
	const most = 16 << 10
	if len(text) <= most {
		return text
	}
	return text[:most/2] + text[len(text)-most/2:]
}

// cell returns the text of a column, and when it changed.
func (r *row) cell(columns []screen.Column, i int, now time.Time) (text string, changed time.Time) {
	n := i
	if n >= len(r.columns) || r.columns[n] != columns[i] { // the row has other columns: those of before a change
		n = slices.IndexFunc(r.columns, func(c screen.Column) bool { return c.Title == columns[i].Title })
		if n < 0 {
			return "", time.Time{}
		}
	}
	if columns[i].Title == ageTitle && !r.created.IsZero() {
		if !r.deleted.IsZero() {
			now = r.deleted
		}
		return duration.HumanDuration(now.Sub(r.created)), time.Time{}
	}
	if r.changed != nil {
		changed = r.changed[n]
	}
	return r.cells[n], changed
}
