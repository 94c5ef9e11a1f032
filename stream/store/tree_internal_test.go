package store

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

const treeSeeds = seedtest.Default(10)

// version is a version of a tree, and what it must have.
type version struct {
	root *node
	want map[key]record
}

func (v version) contents() map[key]record {
	got := map[key]record{}
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
		now := version{want: map[key]record{}}
		versions := []version{{want: map[key]record{}}}
		several := 1 + r.IntN(1000)
		for i := range 400 {
			k := key{[]string{"", "v", "w"}[r.IntN(3)], fmt.Sprint(r.IntN(3)), fmt.Sprint(r.IntN(1 + several))}
			if r.IntN(3) == 0 {
				now.root = e.remove(now.root, k)
				delete(now.want, k)
			} else {
				id := named(k.namespace, k.name, "", fmt.Sprint(i%50))
				rec := pack(id, nil, plain, nil)
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
		var x, y record
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
		before = e.put(before, "", pack(named("", fmt.Sprint("name-", i), "", ""), nil, plain, nil))
	}
	e.freeze()
	after := e.put(before, "", pack(named("", "name-777", "", "2"), nil, plain, nil))
	after = e.remove(after, key{name: "name-12345"})
	after = e.put(after, "", pack(named("", "other", "", ""), nil, plain, nil))
	var got []string
	calls := 0
	if differences(nil, after, func(_, _ *node) bool { calls++; return calls < 3 }) || calls != 3 {
		t.Errorf("yield was called %d times, want 3", calls)
	}
	if fresh := e.put(before, "", pack(named("", "name-777", "", ""), nil, plain, nil)); !differences(before, fresh,
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
		byNamespace = e.put(byNamespace, "", pack(named(text, "default", "", ""), nil, plain, nil))
		byValue = e.put(byValue, text, pack(named("", "default", "", ""), nil, plain, nil))
	}
	for i := range 1 << 14 {
		name := strings.Repeat("a", i%7) + fmt.Sprintf("%08d", i)
		root = e.put(root, "", pack(named("", name, "", ""), nil, plain, nil))
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
	again := pack(named("", "00000007", "", ""), nil, plain, nil)
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

// TestRecord: a record returns what was packed.
func TestRecord(t *testing.T) {
	long := strings.Repeat("n", 300)
	for _, c := range []struct {
		why     string
		id      objects.Version
		entries []entry
		payload string
	}{
		{"nothing", objects.Version{}, nil, ""},
		{"a cluster-scoped object", named("", "node-1", "u", "5"), nil, "{}"},
		{"names from a hostile server", named(long, long+"\x00", "u\xff", long), nil, "{}"},
		{"values", named("a", "b", "c", "1"), []entry{{0, ""}, {0, long}, {200, "x"}}, `{"a":1}`},
	} {
		r := pack(c.id, c.entries, compressed, []byte(c.payload))
		id, _ := r.identity()
		entries, _ := r.entries()
		encoding, payload := r.payload()
		if id != c.id || !slices.Equal(entries, c.entries) || encoding != compressed || payload != c.payload {
			t.Errorf("%s: got %v %v %d %q", c.why, id, entries, encoding, payload)
		}
		if namespace, name := r.name(); namespace != c.id.Namespace || name != c.id.Name {
			t.Errorf("%s: got the name %q/%q", c.why, namespace, name)
		}
	}
	if id, _ := record("").identity(); id != (objects.Version{}) {
		t.Errorf("the empty record has the identity %v", id)
	}
}

// TestCodec: what was encoded is decoded, with and without dictionaries, also after others were made, and the number of
// dictionaries is bounded.
func TestCodec(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	c := newCodec(true)
	e := editor{seed: maphash.MakeSeed()}
	var root *node
	want := map[string]string{}
	for i := range 5000 {
		json := fmt.Sprintf(`{"kind":"Thing","metadata":{"name":"n%d"},"spec":{"size":%d,"text":%q}}`, i, r.IntN(99),
			strings.Repeat("look ", i/1000))
		switch r.IntN(50) {
		case 0:
			json = "{}"
		case 1:
			json = ""
		case 2:
			json = fmt.Sprintf("%q", strings.Repeat(json, 3000))
		}
		encoding, payload := c.encode([]byte(json))
		name := fmt.Sprint("n", i%300)
		root = e.put(root, "", pack(named("", name, "", ""), nil, encoding, payload))
		want[name] = json
		c.learn(root)
	}
	if n := len(*c.dictionaries.Load()); n != 3 {
		t.Errorf("after 5,000 objects there are %d dictionaries, want 3: after 16, 256 and 4,096", n)
	}
	compared := 0
	root.all(func(n *node) bool {
		got, err := c.decode(nil, n.record)
		if name := n.key().name; err != nil || string(got) != want[name] {
			t.Errorf("%s: got %.40q, %v, want %.40q", name, got, err, want[name])
		}
		compared++
		return true
	})
	if compared != 300 {
		t.Errorf("compared %d objects", compared)
	}
	c.encoded, c.due = 1<<40, 1
	for range 20 {
		c.learn(root)
	}
	if n := len(*c.dictionaries.Load()); n != maxDictionaries {
		t.Errorf("there are %d dictionaries, want at most %d", n, maxDictionaries)
	}
	incompressible := make([]byte, 1000)
	for i := range incompressible {
		incompressible[i] = byte(r.Uint32())
	}
	if encoding, payload := c.encode(incompressible); encoding != plain || !bytes.Equal(payload, incompressible) {
		t.Errorf("what does not compress is encoded as %d, with %d bytes", encoding, len(payload))
	}
	empty := newCodec(true)
	empty.encoded = 100
	if empty.learn(nil); len(*empty.dictionaries.Load()) != 0 {
		t.Error("a dictionary was made of nothing")
	}
}

// BenchmarkTree measures a put of a new name within one edit, as in a snapshot, one of a known name with an edit of its
// own, as for an event, and a get.
func BenchmarkTree(b *testing.B) {
	const n = 1_000_000
	records := make([]record, n)
	for i := range records {
		records[i] = pack(named("", fmt.Sprintf("name-%08d", i), "", ""), nil, plain, nil)
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
