package explore

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// program appends everything that the future of a program and the promises about it depend on, so that of two programs
// with one key one is enough:
//
//   - the server, without the writes that no run can see any more, and what the Store has,
//   - what the receiver has seen and acked, and the events that are not acked with those after them: the promises are
//     about these alone (ledgerBase stands for all events before them),
//   - what the lines deliver next, with the index: it has all that a line knows of objects,
//   - all that the ledger has, found by reflection so that no field is forgotten, but for ledgerIgnores.
//
// Versions are replaced by their rank among those in the key, since nothing but their order matters. The number of an
// event within its run, the time of its delivery and counts of what no setup limits are left out: they only grow.
func (k *ledgerKey) program(p *ledgerProgram) {
	from := len(p.past.server.history)
	for _, l := range p.run.lines {
		l.skip(p)
		from = min(from, l.next, ledgerOldest(from, l.base.version))
	}
	for _, rv := range p.run.delta.ResourceVersions {
		from = ledgerOldest(from, rv)
	}
	k.ofPast(p.setup, &p.past, from)
	r := &p.run
	k.number(int(r.epoch))
	k.flags(r.committing, r.failed, r.ended, p.err != nil)
	k.flags(r.inherited, r.books.Marked(), r.books.Exposed())
	if r.committing {
		k.delta(r.delta)
	}
	for _, l := range r.lines {
		k.line(l, len(p.past.server.history))
	}
	k.number(len(r.events))
	for _, e := range r.events {
		k.number(slices.Index(r.lines, e.line))
		k.text(string(e.kind))
		k.id(e.id)
		k.content(e.content)
		k.version(e.at)
		k.flags(e.inferred, e.acked, e.hidden, acks.MayBeKnown(e.mark))
		k.text(string(e.reason))
		k.number(e.coalesced)
	}
	k.value(reflect.ValueOf(r.books.Memory()))
}

// past appends what the next run depends on, and what the promises say of its beginning.
func (k *ledgerKey) past(u *ledgerSetup, past *ledgerPast) {
	k.ofPast(u, past, len(past.server.history))
}

// ofPast appends what is left when a program is killed. Another run may resume from the write of a number.
func (k *ledgerKey) ofPast(u *ledgerSetup, past *ledgerPast, from int) {
	if past.saved != nil {
		for _, rv := range past.saved.Position.ResourceVersions {
			from = ledgerOldest(from, rv)
		}
	}
	if u.most.rewinds > 0 {
		from = 0
	}
	k.server(u, &past.server, from)
	n := &past.spent
	k.to = append(k.to, byte(n.kills), byte(n.failures), byte(n.gaps), byte(n.rewinds), byte(n.merges), byte(n.ends),
		byte(n.bookmarks))
	k.position(past.saved)
	for _, w := range []ledgerWorld{past.seen, past.handled, past.exposed, past.ahead} {
		k.world(w)
	}
	k.flags(past.unmarked, past.marked)
}

// ledgerOldest returns the number of the first write after a version, if there is one, and at most from.
func ledgerOldest(from int, version string) int {
	if version == "" {
		return from
	}
	return min(from, ledgerAfter(version))
}

// server appends the server, without the history that no run can resume from any more.
func (k *ledgerKey) server(u *ledgerSetup, s *ledgerServer, from int) {
	k.number(s.writes)
	k.number(int(s.epoch))
	k.version(s.version())
	for i, name := range ledgerNames[:u.objects] {
		id, exists := s.named(u.namespaceOf(i), name, u.recreated)
		k.id(id)
		k.flags(exists)
	}
	k.world(s.at(strconv.Itoa(from + 1)))
	k.number(len(s.history) - from)
	for _, c := range s.history[from:] {
		k.id(c.id)
		k.content(c.ledgerContent)
		k.flags(c.created, c.gone)
	}
}

func (k *ledgerKey) line(l *ledgerLine, left int) {
	k.to = append(k.to, byte(l.stage), byte(l.wait.asked))
	k.text(string(l.reason))
	k.flags(l.partial, l.unclean, l.synced, l.inferred, l.wait.waits)
	k.flags(l.snapshot.quiet, l.snapshot.stale, l.snapshot.read, l.snapshot.paged)
	k.number(int(l.base.epoch))
	k.flags(l.base.partial, l.base.within, l.wait.due, l.snapshot.unwritten)
	for _, v := range []string{l.version, l.snapshot.since, l.snapshot.version, l.base.version} {
		k.version(v)
	}
	k.number(left - l.next)
	k.world(l.snapshot.list)
	k.world(l.base.entries)
	all := l.index.All()
	slices.SortFunc(all, func(a, b objects.Version) int { return a.Compare(b.ID) })
	k.number(len(all))
	for _, v := range all {
		k.id(v.ID)
		k.version(v.ResourceVersion)
		k.flags(l.index.Saw(v.ID))
	}
}

// ledgerKey is a key that is being made.
type ledgerKey struct {
	to       []byte
	versions []ledgerPlace
	pointers []uintptr // those that were met, in order
}

// ledgerPlace is where a version stands in the key.
type ledgerPlace struct{ at, version int }

func (k *ledgerKey) number(n int) { k.to = append(k.to, byte(n), byte(n>>8)) }

func (k *ledgerKey) text(s string) { k.to = append(append(k.to, byte(len(s))), s...) }

func (k *ledgerKey) flags(all ...bool) {
	b := byte(0)
	for i, f := range all {
		if f {
			b |= 1 << i
		}
	}
	k.to = append(k.to, b)
}

func (k *ledgerKey) id(id objects.ID) {
	k.text(id.Namespace)
	k.text(id.Name)
	k.text(string(id.UID))
}

func (k *ledgerKey) content(c ledgerContent) {
	k.version(c.version)
	k.to = append(k.to, byte(c.epoch))
}

func (k *ledgerKey) world(w ledgerWorld) {
	k.number(len(w))
	for _, o := range w {
		k.id(o.id)
		k.content(o.ledgerContent)
	}
}

func (k *ledgerKey) version(v string) {
	n, _ := strconv.Atoi(v) // 0 if it is empty: no version is
	k.versions = append(k.versions, ledgerPlace{len(k.to), n})
	k.to = append(k.to, 0)
}

// ranked returns the key, with a rank in the place of each version.
func (k *ledgerKey) ranked() []byte {
	var used [256]bool
	for _, p := range k.versions {
		used[p.version] = true
	}
	var rank [256]byte
	n := byte(0)
	for v := 1; v < len(used); v++ {
		if used[v] {
			n++
			rank[v] = n
		}
	}
	for _, p := range k.versions {
		k.to[p.at] = rank[p.version]
	}
	return k.to
}

func (k *ledgerKey) position(c *checkpoint.Checkpoint) {
	if k.flags(c != nil); c != nil {
		p := &c.Position
		k.delta(checkpoint.Delta{ResourceVersions: p.ResourceVersions, Put: p.Objects, Partial: p.Partial,
			Rewound: p.Rewound, Unclean: p.Unclean})
	}
}

func (k *ledgerKey) delta(d checkpoint.Delta) {
	k.flags(d.Partial, d.Rewound, d.Unclean, d.Reset)
	k.number(len(d.ResourceVersions))
	for _, n := range slices.Sorted(maps.Keys(d.ResourceVersions)) {
		k.text(n)
		k.version(d.ResourceVersions[n])
	}
	for _, all := range [][]checkpoint.Object{d.Put, d.Removed} {
		k.number(len(all))
		for _, o := range slices.SortedFunc(slices.Values(all), compareEntries) {
			k.id(ledgerID(o))
			k.version(o.ResourceVersion)
		}
	}
}

func compareEntries(a, b checkpoint.Object) int { return ledgerID(a).Compare(ledgerID(b)) }

// ledgerIgnores are the fields that are not part of the key, by type and name.
var ledgerIgnores = map[string]string{
	"ledger.due":      "it is of the caller, and does nothing here",
	"ledger.late":     "likewise",
	"ledger.key":      "it is always the same",
	"ledger.identity": "it is always the same",
	"draft.applied":   "it only grows, and only its differences are used",
	"waiting.next":    "it is the ledger's",
	"entry.one":       "changes has it, or it is not used any more",
	"entry.prev":      "next of the others has it",
}

var (
	typeOfTime  = reflect.TypeFor[time.Time]()
	typeOfMutex = reflect.TypeFor[sync.Mutex]()
	typeOfID    = reflect.TypeFor[objects.ID]()
)

// value appends a value and all that it points to.
func (k *ledgerKey) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		k.flags(v.Bool())
	case reflect.Int:
		k.number(int(v.Int()))
	case reflect.String:
		k.string(v.String())
	case reflect.Slice:
		k.number(v.Len())
		for i := range v.Len() {
			k.value(v.Index(i))
		}
	case reflect.Map:
		k.map_(v)
	case reflect.Pointer:
		k.pointer(v)
	case reflect.Struct:
		for _, f := range ledgerFields(v.Type()) {
			if f.isTime {
				k.flags(v.Field(f.number).IsZero())
			} else {
				k.value(v.Field(f.number))
			}
		}
	default:
		panic("the key has no " + v.Type().String())
	}
}

// string appends a version, or a text that is none.
func (k *ledgerKey) string(s string) {
	if s == "" || s[0] >= '0' && s[0] <= '9' && s[len(s)-1] != 'u' {
		k.version(s)
	} else {
		k.text(s)
	}
}

func (k *ledgerKey) pointer(v reflect.Value) {
	if v.IsNil() {
		k.number(0)
		return
	}
	if i := slices.Index(k.pointers, v.Pointer()); i >= 0 {
		k.number(i + 1)
		return
	}
	k.pointers = append(k.pointers, v.Pointer())
	k.number(len(k.pointers))
	k.value(v.Elem())
}

func (k *ledgerKey) map_(v reflect.Value) {
	type pair struct {
		key   string
		value reflect.Value
	}
	var all []pair
	for it := v.MapRange(); it.Next(); {
		key := ""
		if name := it.Key(); name.Type() == typeOfID {
			key = name.Field(0).String() + "/" + name.Field(1).String() + "/" + name.Field(2).String()
		} else {
			key = name.String()
		}
		all = append(all, pair{key, it.Value()})
	}
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	k.number(len(all))
	for _, p := range all {
		k.text(p.key)
		k.value(p.value)
	}
}

type ledgerField struct {
	number int
	isTime bool
}

var ledgerTypes sync.Map // of []ledgerField, by reflect.Type

// ledgerFields returns the fields of a struct that are part of the key.
func ledgerFields(t reflect.Type) []ledgerField {
	if all, ok := ledgerTypes.Load(t); ok {
		return all.([]ledgerField)
	}
	var all []ledgerField
	for i := range t.NumField() {
		f := t.Field(i)
		if _, ignored := ledgerIgnores[t.Name()+"."+f.Name]; !ignored && f.Type != typeOfMutex {
			all = append(all, ledgerField{i, f.Type == typeOfTime})
		}
	}
	ledgerTypes.Store(t, all)
	return all
}
