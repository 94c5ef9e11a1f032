package store

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/compact"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

const treeSeeds = seedtest.Default(10)

// version is a version of a tree, and what it must have.
type version struct {
	root *node
	want map[key]compact.Record
}

func (v version) contents() map[key]compact.Record {
	got := map[key]compact.Record{}
	v.root.all(func(n *node) bool {
		got[n.key()] = n.record
		return true
	})
	return got
}

// TestTreeIsLikeAMap makes random changes, and keeps versions. Each has what a map had at that time, also after later
// changes, and the differences between any two are those of the maps.
func TestTreeIsLikeAMap(t *testing.T) {
	for seed := range treeSeeds.All(t) {
		r := rand.New(rand.NewPCG(seed, 1))
		e := editor{seed: maphash.MakeSeed()}
		now := version{want: map[key]compact.Record{}}
		versions := []version{{want: map[key]compact.Record{}}}
		several := 1 + r.IntN(1000)
		for i := range 400 {
			k := key{[]string{"", "v", "w"}[r.IntN(3)], fmt.Sprint(r.IntN(3)), fmt.Sprint(r.IntN(1 + several))}
			if r.IntN(3) == 0 {
				now.root = e.remove(now.root, k)
				delete(now.want, k)
			} else {
				id := named(k.namespace, k.name, "", fmt.Sprint(i%50))
				rec := compact.Pack(id, nil, 0, nil)
				now.root = e.put(now.root, k.value, rec)
				now.want[k] = rec
			}
			if r.IntN(10) == 0 {
				versions = append(versions, version{now.root, maps.Clone(now.want)})
				e.freeze()
			}
		}
		for i, v := range versions {
			if diff := cmp.Diff(v.want, v.contents(), cmp.AllowUnexported(key{})); diff != "" {
				t.Fatalf("seed %d: version %d (-want +got):\n%s", seed, i, diff)
			}
			checkShape(t, v.root)
			checkFrom(t, r, v)
			for range 3 {
				checkDifferences(t, v, versions[r.IntN(len(versions))])
			}
		}
	}
}

// checkShape checks the order of the keys and of the priorities.
func checkShape(t *testing.T, n *node) {
	t.Helper()
	if n == nil {
		return
	}
	for _, below := range []*node{n.left, n.right} {
		if below != nil && below.priority > n.priority {
			t.Fatalf("%v has a lower priority than %v below it", n.key(), below.key())
		}
		checkShape(t, below)
	}
	if n.left != nil && n.left.key().compare(n.key()) >= 0 || n.right != nil && n.right.key().compare(n.key()) <= 0 {
		t.Fatalf("the children of %v are on the wrong sides", n.key())
	}
}

// checkFrom checks get, and the nodes from a random key on.
func checkFrom(t *testing.T, r *rand.Rand, v version) {
	t.Helper()
	all := slices.SortedFunc(maps.Keys(v.want), key.compare)
	least := key{"v", "1", fmt.Sprint(r.IntN(100))}
	most := r.IntN(20)
	var want, got []key
	for _, k := range all {
		if n := v.root.get(k); n == nil || n.record != v.want[k] {
			t.Fatalf("get(%v) returns %v", k, n)
		}
		if k.compare(least) >= 0 && len(want) <= most {
			want = append(want, k)
		}
	}
	if n := v.root.get(key{"v", "none", ""}); n != nil {
		t.Fatalf("get returns %v for a key that is not there", n)
	}
	v.root.from(least, func(n *node) bool {
		got = append(got, n.key())
		return len(got) <= most
	})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(key{})); diff != "" {
		t.Fatalf("from %v (-want +got):\n%s", least, diff)
	}
}

func checkDifferences(t *testing.T, a, b version) {
	t.Helper()
	var want, got []string
	keys := maps.Clone(a.want)
	maps.Copy(keys, b.want)
	for _, k := range slices.SortedFunc(maps.Keys(keys), key.compare) {
		if old, new := a.want[k], b.want[k]; old != new {
			want = append(want, fmt.Sprint(k, []byte(old), []byte(new)))
		}
	}
	differences(a.root, b.root, func(old, new *node) bool {
		var k key
		var x, y compact.Record
		if old != nil {
			k, x = old.key(), old.record
		}
		if new != nil {
			k, y = new.key(), new.record
		}
		got = append(got, fmt.Sprint(k, []byte(x), []byte(y)))
		return true
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("differences (-want +got):\n%s", diff)
	}
}

// TestDifferencesSkipWhatIsShared: the differences between two versions of a large tree are found without visiting it,
// and yield can end the search.
func TestDifferencesSkipWhatIsShared(t *testing.T) {
	e := editor{seed: maphash.MakeSeed()}
	var before *node
	for i := range 20_000 {
		before = e.put(before, "", compact.Pack(named("", fmt.Sprint("name-", i), "", ""), nil, 0, nil))
	}
	e.freeze()
	after := e.put(before, "", compact.Pack(named("", "name-777", "", "2"), nil, 0, nil))
	after = e.remove(after, key{name: "name-12345"})
	after = e.put(after, "", compact.Pack(named("", "other", "", ""), nil, 0, nil))
	var got []string
	calls := 0
	if differences(nil, after, func(_, _ *node) bool { calls++; return calls < 3 }) || calls != 3 {
		t.Errorf("yield was called %d times, want 3", calls)
	}
	if fresh := e.put(before, "", compact.Pack(named("", "name-777", "", ""), nil, 0, nil)); !differences(before, fresh,
		func(_, _ *node) bool { return false }) {
		t.Error("an equal record in another node is a difference")
	}

	differences(before, after, func(old, new *node) bool {
		got = append(got, fmt.Sprint(old != nil, new != nil))
		return true
	})
	if diff := cmp.Diff([]string{"true false", "true true", "false true"}, got); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	shared := map[*node]bool{}
	before.all(func(n *node) bool { shared[n] = true; return true })
	tried, read := 0, 0
	after.all(func(n *node) bool {
		if shared[n] && n.priority%200 == 0 {
			tried++
			if readsRecord(before, after, n) {
				read++
			}
		}
		return tried < 100
	})
	if tried < 20 || read > tried/2 {
		t.Errorf("of %d nodes that are shared, %d are read", tried, read)
	}
}

// readsRecord reports whether the differences between two trees read the record of a node.
func readsRecord(a, b, n *node) (reads bool) {
	record := n.record
	n.record = "\x05" // reading it panics
	defer func() {
		n.record = record
		reads = recover() != nil
	}()
	return !differences(a, b, func(_, _ *node) bool { return true })
}

// TestTreeIsShallow: neither sorted nor hostile names make the tree deep, nor one name in many namespaces or under many
// values, and the tree is changed in place until it is frozen.
func TestTreeIsShallow(t *testing.T) {
	e := editor{seed: maphash.MakeSeed()}
	var root, byNamespace, byValue *node
	for i := range 1 << 14 {
		text := fmt.Sprintf("%08d", i)
		byNamespace = e.put(byNamespace, "", compact.Pack(named(text, "default", "", ""), nil, 0, nil))
		byValue = e.put(byValue, text, compact.Pack(named("", "default", "", ""), nil, 0, nil))
	}
	for i := range 1 << 14 {
		name := strings.Repeat("a", i%7) + fmt.Sprintf("%08d", i)
		root = e.put(root, "", compact.Pack(named("", name, "", ""), nil, 0, nil))
	}
	var depth func(n *node) int
	depth = func(n *node) int {
		if n == nil {
			return 0
		}
		return 1 + max(depth(n.left), depth(n.right))
	}
	for what, tree := range map[string]*node{"names": root, "namespaces": byNamespace, "values": byValue} {
		if d := depth(tree); d > 80 {
			t.Errorf("the tree of 16,384 %s has depth %d", what, d)
		}
	}
	again := compact.Pack(named("", "00000007", "", ""), nil, 0, nil)
	put := func() { root = e.put(root, "", again) }
	if n := testing.AllocsPerRun(10, put); n > 1 {
		t.Errorf("within an edit, a put allocates %v times, want once", n)
	}
	e.freeze()
	before := root
	if put(); root == before || before.get(key{name: "00000007"}) == root.get(key{name: "00000007"}) {
		t.Error("after an edit, a put changed a node that readers have")
	}
	if n := testing.AllocsPerRun(10, put); n > 1 {
		t.Errorf("a second put of an edit allocates %v times, want once: its path was copied by the first", n)
	}
}

// BenchmarkTree measures a put of a new name within one edit, as in a snapshot, one of a known name with an edit of its
// own, as for an event, and a get.
func BenchmarkTree(b *testing.B) {
	const n = 1_000_000
	records := make([]compact.Record, n)
	for i := range records {
		records[i] = compact.Pack(named("", fmt.Sprintf("name-%08d", i), "", ""), nil, 0, nil)
	}
	e := editor{seed: maphash.MakeSeed()}
	var root *node
	b.Run("snapshot", func(b *testing.B) {
		for range b.N {
			root = nil
			for _, r := range records {
				root = e.put(root, "", r)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/object")
	})
	at := rand.New(rand.NewPCG(1, 1))
	b.Run("event", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			e.freeze()
			root = e.put(root, "", records[at.IntN(n)])
		}
	})
	b.Run("get", func(b *testing.B) {
		for range b.N {
			root.get(key{name: fmt.Sprintf("name-%08d", at.IntN(n))})
		}
	})
}

// named returns a version of an object.
func named(namespace, name, uid, version string) objects.Version {
	id := objects.ID{Namespace: namespace, Name: name, UID: types.UID(uid)}
	return objects.Version{ID: id, ResourceVersion: version}
}
