package top

import (
	"container/list"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/difftext"
	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Bounds of what is kept of changes.
const (
	mostObjects = 500      // that changed last
	mostChanges = 50       // of an object
	mostFields  = 100      // of a change
	mostOfValue = 1 << 10  // bytes of a value
	mostBytes   = 64 << 10 // of the changes of an object, roughly
)

// change is what an event has changed.
type change struct {
	at     time.Time
	kind   stream.Type
	by     []string
	fields []changes.Field
	note   string // in place of fields
	bytes  int
}

// history has the last changes of the objects that changed last.
type history struct {
	objects map[key]*list.Element // of *changesOf
	recent  *list.List            // the one that changed last is the first
}

// changesOf are the changes of an object, the last one last.
type changesOf struct {
	key     key
	changes []change
	bytes   int
}

func newHistory() *history { return &history{map[key]*list.Element{}, list.New()} }

// add keeps a change, and forgets what is too old.
func (h *history) add(k key, c change) {
	c.bound()
	e := h.objects[k]
	if e == nil {
		e = h.recent.PushFront(&changesOf{key: k})
		h.objects[k] = e
	}
	h.recent.MoveToFront(e)
	of := e.Value.(*changesOf)
	of.changes, of.bytes = append(of.changes, c), of.bytes+c.bytes
	for len(of.changes) > mostChanges || of.bytes > mostBytes && len(of.changes) > 1 {
		of.bytes -= of.changes[0].bytes
		of.changes = of.changes[1:]
	}
	if h.recent.Len() > mostObjects {
		oldest := h.recent.Back()
		h.recent.Remove(oldest)
		delete(h.objects, oldest.Value.(*changesOf).key)
	}
}

// of returns the changes that are kept of an object, the last one last.
func (h *history) of(k key) []change {
	if e := h.objects[k]; e != nil {
		return e.Value.(*changesOf).changes
	}
	return nil
}

// bound leaves out fields and parts of values: authors of objects choose them.
func (c *change) bound() {
	if more := len(c.fields) - mostFields; more > 0 {
		c.fields = append(c.fields[:mostFields:mostFields], changes.Field{Path: "(more)", New: "(not kept)"})
	}
	part := func(s string) string {
		if len(s) > mostOfValue {
			s = strings.ToValidUTF8(s[:mostOfValue], "") + "…"
		}
		c.bytes += len(s)
		return strings.Clone(s) // s may be a part of a whole object
	}
	for i, f := range c.fields {
		if len(f.Old)+len(f.New) > mostOfValue {
			f = difftext.Shorten(f)
		}
		c.fields[i] = changes.Field{Path: part(f.Path), Old: based(part(f.Old)), New: based(part(f.New))}
	}
	for i, by := range c.by {
		c.by[i] = part(by)
	}
	if len(c.by) > mostFields {
		c.by = c.by[:mostFields]
	}
}
