package top

import (
	"slices"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

const (
	// highlighted is how long a cell is highlighted that has changed, or a row that is new.
	highlighted = 5 * time.Second
	// deletedStays is how long a deleted object keeps its row.
	deletedStays = 10 * time.Second
)

// Model is what the view shows: a row for each object. It is not for concurrent use. Use NewModel.
type Model struct {
	rows    map[key]*row
	order   order
	columns []screen.Column // of the last row
	churn   churn
	deleted []deletion      // in their order
	synced  map[string]bool // sources whose objects that existed have all arrived
	filter  string
	differ  *changes.Differ
	history *history
}

// deletion is a row whose object was deleted at a time.
type deletion struct {
	row *row
	at  time.Time
}

// NewModel returns a Model without objects, sorted by churn.
func NewModel() *Model {
	m := &Model{
		rows: map[key]*row{}, synced: map[string]bool{}, differ: changes.NewDiffer(), history: newHistory(),
	}
	m.order.by = ByChurn
	m.Advance()
	return m
}

// Apply takes an event. Columns and cells are those of its row, and object is the event with the object as the server
// sent it: what has changed is found in that. Objects that exist when their watch begins do not count as changes.
func (m *Model) Apply(ev stream.Event, columns []screen.Column, cells []screen.Text) {
	m.Advance()
	source := mux.SourceOf(ev)
	switch {
	case ev.Type == stream.Synced:
		m.synced[source] = true
		return
	case !ev.HasObject():
		return
	}
	now, k := time.Now(), keyOf(ev)
	r := m.rows[k]
	if r == nil {
		k.namespace, k.name = strings.Clone(k.namespace), strings.Clone(k.name) // they are parts of the object
		r = &row{key: k, kind: strings.ToLower(ev.Resource.Kind)}
		m.rows[k] = r
		m.order.move(r)
	}
	if ev.Type != stream.Deleted || r.cells == nil { // a DELETED may have no cells
		m.setColumns(columns)
		r.set(m.columns, cells, now)
		if created := ev.Meta().GetCreationTimestamp(); created.Time != r.created {
			r.created = created.Time
			m.order.move(r)
		}
	}
	r.matches = strings.Contains(r.text, m.filter)
	isNew := ev.Type == stream.Added
	if ev.Type == stream.Deleted {
		r.deleted = now
		m.deleted = append(m.deleted, deletion{r, now})
	} else {
		r.deleted = time.Time{}
	}
	c := m.compare(ev, now)
	if isNew && !m.synced[source] {
		return // it existed before
	}
	if isNew {
		r.added, r.changed = now, nil
	}
	m.churn.add(r)
	m.order.move(r)
	m.history.add(r.key, c)
}

// setColumns keeps the columns if they are new: rows share them.
func (m *Model) setColumns(columns []screen.Column) {
	if slices.Equal(columns, m.columns) {
		return
	}
	m.columns = make([]screen.Column, len(columns))
	for i, c := range columns {
		c.Title = string(screen.AppendEscaped(nil, shorten(c.Title), ""))
		m.columns[i] = c
	}
}

// compare returns what an event has changed.
func (m *Model) compare(ev stream.Event, now time.Time) change {
	found, err := m.differ.Compare(ev)
	c := change{at: now, kind: ev.Type, by: found.By, fields: found.Fields}
	switch {
	case err != nil:
		c.note = "the server sent an object that can't be decoded"
	case ev.Type == stream.Modified && !found.Known:
		c.note = "its state before is not known"
	case ev.Type == stream.Modified && len(found.Fields) == 0:
		c.note = "no change but its resourceVersion"
	}
	return c
}

// Advance does what is due by now: changes leave the last minute, and objects that were deleted leave the view.
func (m *Model) Advance() {
	now := time.Now()
	m.churn.advance(now, m.order.move)
	for len(m.deleted) > 0 && now.Sub(m.deleted[0].at) >= deletedStays {
		d := m.deleted[0]
		m.deleted = m.deleted[1:]
		if d.row.deleted == d.at { // it has not been created again
			d.row.gone = true
			m.order.move(d.row)
			delete(m.rows, d.row.key)
		}
	}
}

// setFilter shows only rows that have this text, in upper or lower case, in their kind, namespace, name or cells.
func (m *Model) setFilter(text string) {
	m.filter = strings.ToLower(text)
	for _, r := range m.rows {
		r.matches = strings.Contains(r.text, m.filter)
	}
}

// visible returns the rows that the filter matches, in order.
func (m *Model) visible() []*row {
	all := m.order.sorted()
	if m.filter == "" {
		return all
	}
	var some []*row
	for _, r := range all {
		if r.matches {
			some = append(some, r)
		}
	}
	return some
}
