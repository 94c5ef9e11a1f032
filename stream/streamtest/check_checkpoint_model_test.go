package streamtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// ackModel makes random runs of a program with a checkpoint over one history: what
// is told, and how package stream marks it.
type ackModel struct {
	*rand.Rand
	namespaces []string
	rev        int
	uids       int
	now        map[types.NamespacedName]ackObject
	log        []ackObject
	// The run that is being made.
	events []stream.Event
	steps  []ackStep
	lanes  []*ackLane
	synced int // lanes that are
	both   bool
}

// ackObject is a state of one; also its end.
type ackObject struct {
	types.NamespacedName
	uid          types.UID
	rev          int
	hidden, gone bool
}

// ackStep is one call of a Progress.
type ackStep struct {
	namespace string
	hold      bool
	notes     []checkpoint.Change
	version   string
	partial   bool
	mark      bool
	event     int // that the mark is acked with; -1 for none
}

type ackLane struct {
	*ackModel
	namespace string
	known     map[types.NamespacedName]ackObject
	cursor    int // -1 before there is one
	pos       int // in the log
	live      bool
	held      bool
	partial   bool
	list      []ackObject // that is left of the one being told
	seen      map[types.NamespacedName]bool
	listed    int // its version
	notes     []checkpoint.Change
}

func newAckModel(seed uint64, namespaces ...string) *ackModel {
	m := &ackModel{Rand: rand.New(rand.NewPCG(seed, 4)), namespaces: namespaces, rev: 10, now: map[types.NamespacedName]ackObject{}}
	m.both = m.IntN(2) == 0
	return m
}

// change lets something happen to the server.
func (m *ackModel) change() {
	m.rev++
	name := types.NamespacedName{Namespace: m.namespaces[m.IntN(len(m.namespaces))], Name: string(rune('a' + m.IntN(3)))}
	o, exists := m.now[name]
	switch {
	case exists && m.IntN(3) == 0:
		o.gone = true
		delete(m.now, name)
	case !exists:
		m.uids++
		o = ackObject{NamespacedName: name, uid: types.UID("u" + strconv.Itoa(m.uids)), hidden: m.IntN(4) == 0}
	case m.IntN(4) == 0:
		o.hidden = !o.hidden
	}
	o.rev = m.rev
	if !o.gone {
		m.now[name] = o
	}
	m.log = append(m.log, o)
}

// begin begins a run where a position says; kind may be "now" or "after", if there
// is none.
func (m *ackModel) begin(p *checkpoint.Position, kind string) {
	m.events, m.steps, m.lanes, m.synced = nil, nil, nil, 0
	for _, n := range m.namespaces {
		l := &ackLane{ackModel: m, namespace: n, known: map[types.NamespacedName]ackObject{}, cursor: -1}
		m.lanes = append(m.lanes, l)
		switch {
		case p != nil:
			l.resume(p)
		case kind == "now":
			l.held = true
			m.steps = append(m.steps, ackStep{namespace: n, hold: true, event: -1})
		case kind == "after":
			l.cursor, l.live, l.partial, l.pos = m.rev, true, true, len(m.log)
			l.pass(l.cursor)
		}
		if l.live {
			m.synced++
		}
		if !l.live {
			l.beginList()
		}
	}
}

func (l *ackLane) resume(p *checkpoint.Position) {
	for _, o := range p.Objects {
		if l.namespace == "" || o.Namespace == l.namespace {
			rev, _ := strconv.Atoi(o.ResourceVersion)
			l.known[o.NamespacedName()] = ackObject{NamespacedName: o.NamespacedName(), uid: o.UID, rev: rev, hidden: o.Hidden}
		}
	}
	if rv := p.ResourceVersions[l.namespace]; rv != "" {
		l.cursor, _ = strconv.Atoi(rv)
		l.live, l.partial = true, p.Partial
		for l.pos < len(l.log) && l.log[l.pos].rev <= l.cursor {
			l.pos++
		}
	}
}

// beginList reads what there is now.
func (l *ackLane) beginList() {
	l.list, l.seen, l.listed = nil, map[types.NamespacedName]bool{}, l.rev
	for _, name := range slices.SortedFunc(maps.Keys(l.now), func(a, b types.NamespacedName) int { return compareStrings(a.String(), b.String()) }) {
		if l.namespace == "" || name.Namespace == l.namespace {
			l.list = append(l.list, l.now[name])
		}
	}
	if !l.held {
		l.pass(-1)
	}
}

func compareStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func versionOf(rev int) string {
	if rev < 0 {
		return ""
	}
	return strconv.Itoa(rev)
}

func (l *ackLane) note(o ackObject) {
	l.notes = append(l.notes, checkpoint.Change{Gone: o.gone, Object: checkpoint.Object{
		Namespace: o.Namespace, Name: o.Name, UID: o.uid, ResourceVersion: versionOf(o.rev), Hidden: o.hidden}})
	if o.gone {
		delete(l.known, o.NamespacedName)
	} else {
		l.known[o.NamespacedName] = o
	}
}

func (l *ackLane) pass(rev int) {
	l.steps = append(l.steps, ackStep{namespace: l.namespace, notes: l.notes, version: versionOf(rev), partial: l.partial, event: -1})
	l.notes = nil
}

func (l *ackLane) mark(rev int, ev stream.Event) {
	l.steps = append(l.steps, ackStep{namespace: l.namespace, notes: l.notes, version: versionOf(rev), partial: l.partial, mark: true, event: len(l.events)})
	l.notes = nil
	if ev.Type != stream.Synced {
		ev.Namespace = l.namespace
	}
	l.events = append(l.events, ev)
}

func (l *ackLane) object(kind stream.Type, o ackObject, rev int, inferred bool) {
	l.mark(rev, stream.Event{Type: kind, Inferred: inferred, ResourceVersion: versionOf(o.rev),
		Object: identityAt(o.Namespace, o.Name, string(o.uid), versionOf(o.rev))})
}

// put tells what a state means to what is known; live says that it is an event.
func (l *ackLane) put(o ackObject, live bool) {
	known, has := l.known[o.NamespacedName]
	if has && known.uid == o.uid && (known.rev > o.rev || known.rev == o.rev && known.hidden == o.hidden && !o.gone) {
		if live {
			l.cursor = o.rev
			l.pass(l.cursor)
		}
		return
	}
	if has && known.uid != o.uid && !known.hidden {
		end := known
		end.gone = true
		l.note(end)
		l.object(stream.Deleted, end, l.cursorIf(live), true)
		has = false
	}
	was := has && !known.hidden
	believed := live && l.partial && !has && !o.hidden // of one that nothing is known of
	l.note(o)
	if live {
		l.cursor = o.rev
	}
	at := l.cursorIf(live)
	switch {
	case o.gone && (was || believed), was && o.hidden:
		l.object(stream.Deleted, o, at, !live)
	case o.gone || o.hidden:
		l.pass(at)
	case was:
		l.object(stream.Modified, o, at, !live)
	default:
		l.object(stream.Added, o, at, false)
	}
}

func (l *ackLane) cursorIf(live bool) int {
	if live {
		return l.cursor
	}
	return -1
}

// step tells a little more.
func (l *ackLane) step() {
	if !l.live {
		l.stepSnapshot()
		return
	}
	for l.pos < len(l.log) && l.namespace != "" && l.log[l.pos].Namespace != l.namespace {
		l.pos++
	}
	switch r := l.IntN(10); {
	case r == 0:
		from := stream.GapDetails{Reason: stream.GapExpired, From: versionOf(l.cursor)}
		l.mark(l.cursor, stream.Event{Type: stream.Gap, Gap: &from})
		l.live = false
		l.synced--
		l.change()
		l.beginList()
	case l.pos < len(l.log):
		o := l.log[l.pos]
		l.pos++
		l.put(o, true)
	case r < 3 && l.cursor < l.rev:
		l.cursor = l.rev
		l.pass(l.cursor)
	case r < 5:
		l.cursor = l.rev
		l.mark(l.cursor, stream.Event{Type: stream.Bookmark, ResourceVersion: versionOf(l.cursor)})
	}
}

func (l *ackLane) stepSnapshot() {
	if len(l.list) > 0 {
		o := l.list[0]
		l.list = l.list[1:]
		l.seen[o.NamespacedName] = true
		_, has := l.known[o.NamespacedName]
		switch {
		case l.held:
			l.note(o)
		case l.partial && !has && !o.hidden && o.rev <= l.cursor:
			l.note(o) // it existed at the start, and is only to be known
			l.pass(-1)
		default:
			l.put(o, false)
		}
		return
	}
	if l.IntN(6) == 0 { // it broke off
		l.change()
		l.beginList()
		return
	}
	for _, name := range slices.SortedFunc(maps.Keys(l.known), func(a, b types.NamespacedName) int { return compareStrings(a.String(), b.String()) }) {
		if o := l.known[name]; !l.seen[name] {
			o.gone = true
			l.note(o)
			switch {
			case l.held:
			case o.hidden:
				l.pass(-1)
			default:
				l.object(stream.Deleted, o, -1, true)
			}
		}
	}
	held := l.held
	l.cursor, l.live, l.held, l.partial = l.listed, true, false, false
	for l.pos = 0; l.pos < len(l.log) && l.log[l.pos].rev <= l.cursor; l.pos++ {
	}
	l.synced++
	if !held {
		l.pass(l.cursor) // a watch has to be opened before SYNCED is told
	}
	switch {
	case len(l.lanes) == 1:
		l.mark(l.cursor, stream.Event{Type: stream.Synced, ResourceVersion: versionOf(l.cursor)})
	case l.synced < len(l.lanes) && l.both:
		// Its mark is acked with the SYNCED of all: see ackWith.
		l.steps = append(l.steps, ackStep{namespace: l.namespace, notes: l.notes, version: versionOf(l.cursor), mark: true, event: -2})
		l.notes = nil
	case l.synced < len(l.lanes):
		l.steps = append(l.steps, ackStep{namespace: l.namespace, notes: l.notes, version: versionOf(l.cursor), mark: true, event: -3})
		l.notes = nil
	default:
		for i := range l.steps {
			if l.steps[i].event == -2 {
				l.steps[i].event = len(l.events)
			}
		}
		l.mark(l.cursor, stream.Event{Type: stream.Synced})
	}
}

// run tells until there are so many events.
func (m *ackModel) run(events int) {
	for tries := 0; len(m.events) < events && tries < 20*events; tries++ {
		if m.IntN(3) == 0 {
			m.change()
		}
		m.lanes[m.IntN(len(m.lanes))].step()
	}
}

// ackRun is a run that is being told to a tracker.
type ackRun struct {
	store   *checkpoint.Memory
	tracker *checkpoint.Tracker
	session *checkpoint.Session
	marks   map[int][]*checkpoint.Mark // by event
	acked   map[int]bool
}

func (m *ackModel) identity() checkpoint.Identity {
	id := checkpoint.Identity{Resource: "robots", Objects: true}
	if m.namespaces[0] != "" {
		id.Namespaces = m.namespaces
	}
	return id
}

func startAckRun(t testing.TB, store *checkpoint.Memory, id checkpoint.Identity) *ackRun {
	t.Helper()
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "c"}, Interval: 1 << 62, Events: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	session, err := tracker.Begin(context.Background(), "k", id)
	if err != nil {
		t.Fatal(err)
	}
	return &ackRun{store, tracker, session, map[int][]*checkpoint.Mark{}, map[int]bool{}}
}

// tell does a step.
func (r *ackRun) tell(s ackStep) {
	p := r.session.Progress(s.namespace)
	if s.hold {
		p.Hold()
		return
	}
	for _, c := range s.notes {
		p.Note(c)
	}
	if !s.mark {
		p.Pass(s.version, s.partial)
		return
	}
	m := p.Mark(s.version, s.partial)
	switch {
	case s.event == -3: // a SYNCED that the other namespaces' swallow
		m.Ack()
	case s.event >= 0 && r.acked[s.event]:
		m.Ack()
	default:
		r.marks[s.event] = append(r.marks[s.event], m)
	}
}

func (r *ackRun) ack(event int) {
	r.acked[event] = true
	for _, m := range r.marks[event] {
		m.Ack()
	}
	delete(r.marks, event)
}

// saved commits, and returns what is there.
func (r *ackRun) saved(t testing.TB) *checkpoint.Position {
	t.Helper()
	if err := r.tracker.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	return load(t, r.store)
}

func load(t testing.TB, store *checkpoint.Memory) *checkpoint.Position {
	t.Helper()
	c, err := store.Load(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return nil
	}
	return &c.Position
}

// storeOf returns one that holds a position.
func storeOf(t testing.TB, id checkpoint.Identity, p *checkpoint.Position) *checkpoint.Memory {
	t.Helper()
	m := checkpoint.NewMemory()
	if p == nil {
		return m
	}
	id.Cluster = checkpoint.Cluster{UID: "c"}
	if err := m.Commit(context.Background(), []checkpoint.Delta{{Key: "k", Identity: id, ResourceVersions: p.ResourceVersions, Partial: p.Partial, Put: p.Objects}}); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *ackModel) options(kind string, start int) CheckOptions {
	o := CheckOptions{Now: kind == "now"}
	if kind == "after" {
		o.After = strconv.Itoa(start)
	}
	if m.namespaces[0] != "" {
		o.Namespaces = m.namespaces
	}
	return o
}

// positionText is a position without what is hidden.
func positionText(p *checkpoint.Position) string {
	if p == nil {
		return "nothing"
	}
	s := fmt.Sprint(p.ResourceVersions)
	for _, o := range slices.SortedFunc(slices.Values(p.Objects), func(a, b checkpoint.Object) int {
		return compareStrings(a.NamespacedName().String(), b.NamespacedName().String())
	}) {
		if !o.Hidden {
			s += fmt.Sprintf(" %s(%s)@%s", o.NamespacedName(), o.UID, o.ResourceVersion)
		}
	}
	return s
}
