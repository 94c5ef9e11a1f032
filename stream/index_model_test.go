package stream

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// model is an index that is as plain as can be: what it means, without how it is
// held. An operation is a list of steps, each with what it yields.
type model struct {
	entries map[types.NamespacedName]modelEntry
}

type modelEntry struct {
	known
	seen bool
}

type modelStep struct {
	apply  func()
	yields *change
}

func (m *model) entering(k known, c *change) modelStep {
	return modelStep{func() { m.entries[k.NamespacedName] = modelEntry{k, true} }, c}
}

func (m *model) forgetting(k known, c *change) modelStep {
	if k.hidden {
		c = nil
	}
	return modelStep{func() { delete(m.entries, k.NamespacedName) }, c}
}

func (m *model) put(now known) []modelStep {
	was, ok := m.entries[now.NamespacedName]
	same := was.uid == now.uid || was.uid == "" || now.uid == ""
	if ok && same && now.uid == "" {
		now.uid = was.uid
	}
	var c *change
	switch {
	case ok && !same && now.hidden:
		return []modelStep{m.forgetting(was.known, &change{kind: Deleted, gone: &was.identity}), m.entering(now, nil)}
	case ok && !same:
		return []modelStep{m.forgetting(was.known, &change{kind: Deleted, gone: &was.identity}), m.entering(now, &change{kind: Added})}
	case (!ok || was.hidden) && !now.hidden:
		c = &change{kind: Added}
	case ok && !was.hidden && now.hidden:
		c = &change{kind: Deleted, left: &was.identity}
	case ok && !was.hidden && was.version != now.version:
		c = &change{kind: Modified}
	}
	return []modelStep{m.entering(now, c)}
}

func (m *model) putOld(now known) []modelStep {
	was, ok := m.entries[now.NamespacedName]
	if !ok || was.uid != now.uid || notAfter(now.version, was.version) {
		return nil
	}
	return m.put(now)
}

func (m *model) remove(end known) []modelStep {
	was, ok := m.entries[end.NamespacedName]
	switch {
	case !ok:
		return nil
	case was.uid == end.uid || was.uid == "" || end.uid == "":
		return []modelStep{m.forgetting(was.known, &change{kind: Deleted})}
	case notAfter(was.version, end.version):
		return []modelStep{m.forgetting(was.known, &change{kind: Deleted, gone: &was.identity})}
	}
	return nil
}

func (m *model) removeOld(end known) []modelStep {
	was, ok := m.entries[end.NamespacedName]
	if !ok || was.uid != end.uid || !notAfter(was.version, end.version) {
		return nil
	}
	return m.remove(end)
}

func (m *model) endList() []modelStep {
	var gone []modelEntry
	for _, e := range m.entries {
		if !e.seen {
			gone = append(gone, e)
		}
	}
	slices.SortFunc(gone, func(a, b modelEntry) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var steps []modelStep
	for _, e := range gone {
		steps = append(steps, m.forgetting(e.known, &change{kind: Deleted, gone: &e.identity}))
	}
	return steps
}

func (m *model) beginList() {
	for name, e := range m.entries {
		e.seen = false
		m.entries[name] = e
	}
}

// run takes steps until patience changes have been yielded.
func run(steps []modelStep, patience int) []change {
	var yielded []change
	for _, s := range steps {
		s.apply()
		if s.yields == nil {
			continue
		}
		if yielded = append(yielded, *s.yields); len(yielded) == patience {
			break
		}
	}
	return yielded
}

func take(changes iter.Seq[change], patience int) []change {
	var yielded []change
	for c := range changes {
		if yielded = append(yielded, c); len(yielded) == patience {
			break
		}
	}
	return yielded
}

// sameChange spares what cmp takes, a million times.
func sameChange(a, b change) bool {
	return a.kind == b.kind && (a.gone == b.gone || a.gone != nil && b.gone != nil && *a.gone == *b.gone)
}

// dice are a random generator, or the bytes of a fuzzer.
type dice interface{ IntN(n int) int }

type byteDice struct{ rest []byte }

func (d *byteDice) IntN(n int) int {
	if len(d.rest) == 0 {
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return int(b) % n
}

func pick[T any](d dice, from []T) T { return from[d.IntN(len(from))] }

var (
	someNamespaces = []string{"", "default", "kube-system", "a", "a/b", "\xff", strings.Repeat("n", 300)}
	someNames      = func() []string {
		names := []string{"", "b/c", "\x00", "ünïcode", strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("huge", 250)}
		for i := range 30 {
			names = append(names, fmt.Sprintf("robot-%d", i))
		}
		return names
	}()
	someUIDs = []types.UID{
		"", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b811-9dad-11d1-80b4-00c04fd430c8", "ffffffff-ffff-ffff-ffff-ffffffffffff",
		"00000000-0000-0000-0000-000000000000", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "6ba7b8109dad11d180b400c04fd430c8",
		"6ba7b810-9dad-11d1-80b4-00c04fd430cg", "6ba7b810-9dad-11d1-80b4000c04fd430c8", "u-1", "\xff\x00", types.UID(strings.Repeat("u", 1000)),
	}
	someVersions = []string{
		"1", "2", "3", "10", "5000", "0", "00", "07", "", "-1", "+1", "1_0", " 1", "1.0", "#abc", "opaque", "18446744073709551615",
		"18446744073709551616", "99999999999999999999999999", "\xff", strings.Repeat("9", 1000),
	}
)

// play compares an index to the model through random operations.
func play(t *testing.T, d dice, operations int) {
	t.Helper()
	x := newIndex()
	if d.IntN(4) > 0 { // one that is full or worth tidying soon
		x.table.packed = newPacked(limits{
			records: uint32(pick(d, []int{0, 1, 7, 30, 1 << 20})), chunks: uint32(d.IntN(3)), waste: d.IntN(12),
		})
	}
	m := &model{entries: map[types.NamespacedName]modelEntry{}}
	usual := d.IntN(3) // how many in 3 objects are usual
	for range operations {
		k := known{identity{namespacedName(pick(d, someNamespaces[:4]), pick(d, someNames[7:])), pick(d, someUIDs[1:4]), pick(d, someVersions[:5])}, d.IntN(4) == 0}
		if d.IntN(3) >= usual {
			k.identity = identity{namespacedName(pick(d, someNamespaces), pick(d, someNames)), pick(d, someUIDs), pick(d, someVersions)}
		}
		patience := pick(d, []int{-1, -1, -1, 1, 2})
		compare := func(op string, steps []modelStep, changes iter.Seq[change]) {
			t.Helper()
			want, got := run(steps, patience), take(changes, patience)
			if slices.EqualFunc(want, got, sameChange) {
				return
			}
			if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(change{}, identity{})); diff != "" {
				t.Fatalf("%s %.100q (-want +got):\n%s", op, fmt.Sprint(k), diff)
			}
		}
		switch d.IntN(12) {
		case 0:
			m.beginList()
			x.beginList()
		case 1:
			compare("endList", m.endList(), x.endList(nil))
		case 2, 3:
			compare("remove", m.remove(k), x.remove(objectOf(k)))
		case 4:
			compare("removeOld", m.removeOld(k), x.removeOld(objectOf(k)))
		case 5:
			compare("putOld", m.putOld(k), x.putOld(objectOf(k), !k.hidden))
		case 6:
			m.entries[k.NamespacedName] = modelEntry{k, true}
			x.enter(k)
		default:
			compare("put", m.put(k), x.put(objectOf(k), !k.hidden))
		}
		if _, want := m.entries[k.NamespacedName]; x.has(k.NamespacedName) != want || x.len() != len(m.entries) {
			t.Fatalf("%.100q: has is %v and len %d, want %v and %d", k.Name, !want, x.len(), want, len(m.entries))
		}
	}
	want, got := map[types.NamespacedName]known{}, map[types.NamespacedName]known{}
	for name, e := range m.entries {
		want[name] = e.known
	}
	for k := range x.all() {
		if _, twice := got[k.NamespacedName]; twice {
			t.Errorf("all yields %.100q twice", k.Name)
		}
		got[k.NamespacedName] = k
	}
	if !maps.Equal(want, got) {
		t.Fatalf("what is known at the end (-want +got):\n%s", gocmp.Diff(want, got, gocmp.AllowUnexported(known{}, identity{})))
	}
	checkPacked(t, &x.table)
}

func objectOf(k known) object {
	metadata := map[string]any{"namespace": k.Namespace, "name": k.Name, "uid": string(k.uid)}
	return object{Unstructured: &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}, identity: k.identity}
}

// checkPacked looks for what the model can't see: an object in two places, and
// slots or records that nobody uses or two do.
func checkPacked(t *testing.T, x *table) {
	t.Helper()
	p := &x.packed
	slots := 0
	for _, s := range p.slots {
		if s != 0 {
			slots++
		}
	}
	var inUse, freeList int
	for r := range p.all() {
		inUse++
		if slot, ok := p.find(p.name(r)); !ok || p.at(slot) != r {
			t.Errorf("the record of %.100q is not found", p.name(r))
		}
		if _, twice := x.odd[p.name(r)]; twice {
			t.Errorf("%.100q is packed, and among the odd ones", p.name(r))
		}
	}
	for n := p.free; n != 0; n = p.records.at(n - 1).name {
		freeList++
	}
	if slots != p.live || inUse != p.live || freeList != int(p.records.len)-p.live {
		t.Errorf("%d records live: %d slots, %d in use, %d of %d free", p.live, slots, inUse, freeList, p.records.len)
	}
	if p.records.len > p.limits.records || p.names.count() > p.limits.chunks {
		t.Errorf("%d records and %d chunks, the limits are %+v", p.records.len, p.names.count(), p.limits)
	}
	if len(p.slots) > 0 && p.live*4 > len(p.slots)*3 {
		t.Errorf("%d of %d slots are taken, at most three quarters may be", p.live, len(p.slots))
	}
}

func TestIndexModel(t *testing.T) {
	seeds := uint64(5_000)
	if testing.Short() {
		seeds = 500
	}
	for seed := range seeds {
		play(t, rand.New(rand.NewPCG(seed, 0)), 200)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1, 2, 3, 5, 7, 11, 13}, 40))
	r := rand.NewChaCha8([32]byte{})
	for _, n := range []int{100, 400, 1600} {
		b := make([]byte, n)
		r.Read(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		play(t, &byteDice{b}, min(len(b)/4, 2_000))
	})
}
