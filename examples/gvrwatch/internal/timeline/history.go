package timeline

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
	"github.com/gvrwatch/gvrwatch/internal/recording"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Options say what of a recording is on a page. Zero means everything.
type Options struct {
	Title string
	// Keep reports whether an event is on the page: of an object, or a GAP of a resource.
	Keep func(stream.Event) bool
	// Only says in words what Keep keeps.
	Only string
	// Kinds are those of which an object on the page has at least one mark. Changes are left out unless Changed is one
	// of them. Other marks are not, because they say when an object existed.
	Kinds []Kind
}

// Of returns the page of a recording, whose entries must be those of recording.Changes. It keeps the last state of each
// object in memory, compressed, and the fields of each mark, cut as on the page. An error is that of the entries.
func Of(entries iter.Seq2[recording.Entry, error], o Options) (Page, error) {
	h := &history{
		options: o, differ: changes.NewDiffer(), objects: map[[3]string]int{}, complete: map[string]bool{},
		synced: map[string]bool{}, open: map[string]int{},
	}
	h.page.Title = o.Title
	for e, err := range entries {
		if err != nil {
			return Page{}, err
		}
		h.add(e)
	}
	if o.Only != "" {
		h.page.Selection += ", of that only " + o.Only
	}
	h.page.Objects = slices.DeleteFunc(h.page.Objects, func(row Object) bool { return !o.shows(row) })
	return h.page, nil
}

func (o *Options) shows(row Object) bool {
	isShown := func(m Mark) bool { return slices.Contains(o.Kinds, m.Kind) }
	return len(o.Kinds) == 0 || slices.ContainsFunc(row.Marks, isShown)
}

type history struct {
	options Options
	page    Page
	differ  *changes.Differ
	objects map[[3]string]int // places in page.Objects by type, namespace and name
	run     *recording.Header
	last    time.Time // when the writer was there
	// complete has the types, and the types and namespaces, of which all objects were known: an ADDED is a new one.
	complete map[string]bool
	synced   map[string]bool // in this run
	open     map[string]int  // places in page.Gaps, by type and namespace, of those that no SYNCED has ended
}

func (h *history) add(e recording.Entry) {
	switch ev := e.Event; {
	case e.Run != nil:
		h.begin(e)
	case ev.Type != "" && h.options.Keep != nil && !h.options.Keep(ev):
	case ev.Type == stream.Gap:
		h.gap(e)
	case ev.Type == stream.Synced:
		h.end(e)
	case ev.HasObject():
		h.mark(e)
	}
	if e.Time.After(h.last) {
		h.last = e.Time
	}
	h.page.To = h.last
}

// begin begins a run of the writer. Before it nobody recorded, unless it is the first one.
func (h *history) begin(e recording.Entry) {
	before := h.run
	h.run = e.Run
	clear(h.open)
	clear(h.synced)
	if before == nil {
		h.page.From, h.page.Cluster = e.Time, e.Run.Server
		h.page.Selection = selectionOf(e.Run.Selection)
		return
	}
	reason := "Nobody recorded. What had changed was seen by a comparison afterwards."
	switch selection := selectionOf(e.Run.Selection); {
	case e.Forgets && selection != selectionOf(before.Selection):
		reason = "Nobody recorded. Afterwards something else was watched, so what was deleted until then is not known."
		h.page.Selection += ", then " + selection
	case e.Forgets:
		reason = "Nobody recorded. What happened until then is not known."
	case e.Run.Start == recording.Resumed:
		reason = "Nobody recorded. What happened was delivered afterwards."
	}
	if e.Forgets {
		clear(h.complete)
	}
	h.page.Gaps = append(h.page.Gaps, Gap{From: h.last, To: later(h.last, e.Time), Reason: reason, Forgets: e.Forgets})
}

func later(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}

func selectionOf(s recording.Selection) string {
	var b strings.Builder
	add := func(name string, list ...string) {
		if text := strings.Join(list, ","); text != "" {
			b.WriteString(name + text)
		}
	}
	add("", s.Types...)
	add(" without ", s.Exclude...)
	add(" in ", s.Namespaces...)
	add(" labels ", s.LabelSelector)
	add(" fields ", s.FieldSelector)
	if s.MetadataOnly {
		b.WriteString(", metadata only")
	}
	return strings.TrimSpace(b.String())
}

// reasons say what a GAP means for who looks at it later.
var reasons = map[stream.GapReason]string{
	stream.GapExpired:     "the server no longer had the events",
	stream.GapRewound:     "the server has gone back in time, as after a restored backup",
	stream.GapFuture:      "the server had not reached the version to start from",
	stream.GapPoison:      "the server sent an event that can't be read",
	stream.GapUnordered:   "the server does not keep its versions in order",
	stream.GapUnversioned: "the server gave no version to continue from",
	stream.GapRestarted:   "the watch started again without a version to continue from",
	stream.GapScope:       "the watch changed between namespaces and the whole cluster",
}

func (h *history) gap(e recording.Entry) {
	ev := e.Event
	why, ok := reasons[ev.Gap.Reason]
	if !ok {
		why = string(ev.Gap.Reason)
	}
	reason := fmt.Sprintf("Events are lost: %s (%s). Only differences are known.", why, ev.Gap.Reason)
	if ev.Gap.HistoryLost {
		reason += " What was deleted is not known."
	}
	key := typeOf(ev) + " " + ev.Namespace
	h.open[key] = len(h.page.Gaps)
	h.page.Gaps = append(h.page.Gaps, Gap{
		From: e.Time.Add(-ev.Gap.Duration), To: e.Time, Type: typeOf(ev), Namespace: ev.Namespace, Reason: reason,
	})
}

// end ends the GAPs of a type: it is synced. A SYNCED without a namespace is one for all of them.
func (h *history) end(e recording.Entry) {
	typ, namespace := typeOf(e.Event), e.Event.Namespace
	for key, i := range h.open {
		if g := &h.page.Gaps[i]; g.Type == typ && (namespace == "" || g.Namespace == namespace) {
			g.To = later(g.To, e.Time)
			delete(h.open, key)
		}
	}
	h.complete[typ+" "+namespace], h.synced[typ+" "+namespace] = true, true
}

func typeOf(ev stream.Event) string { return ev.Resource.GroupResource().String() }

func (h *history) mark(e recording.Entry) {
	ev := e.Event
	name := ev.NamespacedName()
	key := [3]string{typeOf(ev), name.Namespace, name.Name}
	m := h.markOf(e)
	if k := h.options.Kinds; m.Kind == Changed && len(k) > 0 && !slices.Contains(k, Changed) {
		return
	}
	i, ok := h.objects[key]
	if !ok {
		i = len(h.page.Objects)
		h.objects[key] = i
		h.page.Objects = append(h.page.Objects, Object{Type: key[0], Namespace: key[1], Name: key[2]})
	}
	o := &h.page.Objects[i]
	o.Marks = append(o.Marks, m)
}

// markOf returns the mark of an event, which has an object.
func (h *history) markOf(e recording.Entry) Mark {
	ev := e.Event
	change, err := h.differ.CompareAt(ev, e.Time)
	m := Mark{Time: e.Time, Kind: Changed, Inferred: ev.Inferred, By: change.By}
	m.Fields, m.More = bounded(change.Fields)
	switch ev.Type {
	case stream.Deleted:
		m.Kind = Deleted
	case stream.Added:
		m.Kind, m.Inferred = h.added(ev, change)
	}
	switch {
	case m.Kind == Existed:
		m.By = nil // they made it some time before
	case err != nil:
		m.Note = "The server sent an object that can't be decoded."
	case m.Kind == Changed && !change.Known:
		m.Note = "Its state before is not known."
	case m.Kind == Changed && len(m.Fields) == 0:
		m.Note = "No change but its resourceVersion."
	}
	if n := ev.Coalesced(); n > 0 {
		m.Note = strings.TrimSpace(fmt.Sprintf("%s It stands for %s of the object as well.", m.Note, count(n, "event")))
	}
	return m
}

// added returns what an ADDED says: a snapshot has objects that existed before.
func (h *history) added(ev stream.Event, change changes.Change) (kind Kind, inferred bool) {
	switch {
	case change.Known && len(change.Fields) > 0: // by a run with another selection
		return Changed, true
	case change.Known:
		return Existed, false
	case h.run.Start == recording.Later:
		return Created, ev.Inferred
	case h.of(h.complete, ev):
		return Created, ev.Inferred || !h.of(h.synced, ev) // while nobody recorded
	}
	return Existed, false
}

// of reports whether a map of types, and of types and namespaces, has that of an event.
func (h *history) of(known map[string]bool, ev stream.Event) bool {
	return known[typeOf(ev)+" "] || known[typeOf(ev)+" "+ev.Namespace]
}
