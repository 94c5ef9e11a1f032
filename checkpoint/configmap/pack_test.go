package configmap

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

const plenty = 1 << 30

func packed(t testing.TB, objects []checkpoint.Object) []byte {
	t.Helper()
	index, n := new(compressor).pack(objects, plenty)
	if index == nil || n != len(objects) {
		t.Fatalf("%d objects: %d were packed", len(objects), n)
	}
	return index
}

func TestPackUnpack(t *testing.T) {
	const uuid = "0a1b2c3d-4e5f-4a6b-8c7d-0e1f2a3b4c5d"
	tests := []struct {
		object checkpoint.Object
		why    string
	}{
		{checkpoint.Object{Namespace: "ns", Name: "a", UID: uuid, ResourceVersion: "12345"}, "the usual"},
		{checkpoint.Object{Namespace: "ns", Name: "a", UID: uuid, ResourceVersion: "12345", Hidden: true}, "hidden"},
		{checkpoint.Object{Namespace: "ns", Name: "a", UID: uuid, ResourceVersion: "12345", Unacked: true}, "not known to be handled"},
		{checkpoint.Object{Name: "a", UID: uuid, ResourceVersion: "1"}, "no namespace"},
		{checkpoint.Object{}, "nothing at all"},
		{checkpoint.Object{Namespace: "ns", Name: "ns/a\x00\xff\n", UID: uuid, ResourceVersion: "1"}, "names may have any bytes"},
		{checkpoint.Object{Namespace: strings.Repeat("n", 300), Name: strings.Repeat("é", 300)}, "lengths of two bytes"},
		{checkpoint.Object{Name: "a", UID: types.UID(strings.ToUpper(uuid))}, "an upper-case UUID is not canonical"},
		{checkpoint.Object{Name: "a", UID: types.UID(strings.ReplaceAll(uuid, "-", ""))}, "nor is one without hyphens"},
		{checkpoint.Object{Name: "a", UID: types.UID(strings.ReplaceAll(uuid, "-", "_"))}, "nor with something else"},
		{checkpoint.Object{Name: "a", UID: types.UID(strings.Replace(uuid, "0a", "0g", 1))}, "nor with a g"},
		{checkpoint.Object{Name: "a", UID: types.UID("{" + uuid + "}")}, "nor in braces"},
		{checkpoint.Object{Name: "a", UID: "00000000-0000-0000-0000-000000000000"}, "the nil UUID is not none"},
		{checkpoint.Object{Name: "a", UID: "1"}, "uids need not be UUIDs"},
		{checkpoint.Object{Name: "a", ResourceVersion: "0"}, "zero"},
		{checkpoint.Object{Name: "a", ResourceVersion: "007"}, "leading zeros"},
		{checkpoint.Object{Name: "a", ResourceVersion: "+7"}, "a sign, which ParseUint refuses"},
		{checkpoint.Object{Name: "a", ResourceVersion: "-7"}, "a sign"},
		{checkpoint.Object{Name: "a", ResourceVersion: "18446744073709551615"}, "the greatest"},
		{checkpoint.Object{Name: "a", ResourceVersion: "18446744073709551616"}, "and one more"},
		{checkpoint.Object{Name: "a", ResourceVersion: "abc:12,34"}, "versions may be opaque"},
		{checkpoint.Object{Name: "a", ResourceVersion: "\xff"}, "even so"},
	}
	var all []checkpoint.Object
	for i, tt := range tests {
		got, err := unpack(packed(t, []checkpoint.Object{tt.object}), 1)
		if d := cmp.Diff([]checkpoint.Object{tt.object}, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", tt.why, err, d)
		}
		o := tt.object
		o.Name += fmt.Sprint("-", i)
		all = append(all, o)
	}
	slices.SortFunc(all, compare)
	got, err := unpack(packed(t, all), len(all))
	if d := cmp.Diff(all, got); d != "" || err != nil {
		t.Errorf("all of them: %v %s", err, d)
	}
}

func TestPackBlocks(t *testing.T) {
	for _, n := range []int{1, blockSize - 1, blockSize, blockSize + 1, 2*blockSize + 17} {
		want := usual(n)
		got, err := unpack(packed(t, want), n)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%d objects: %v %s", n, err, d)
		}
	}
}

func TestPackRoom(t *testing.T) {
	objects := usual(3 * blockSize)
	whole := len(packed(t, objects))
	if index, _ := new(compressor).pack(objects, whole); len(index) != whole {
		t.Errorf("%d bytes in a room of %d", len(index), whole)
	}
	if index, _ := new(compressor).pack(objects, whole-1); index != nil {
		t.Errorf("%d bytes in a room of %d", len(index), whole-1)
	}
	if index, n := new(compressor).pack(objects, whole/10); index != nil || n != blockSize {
		t.Errorf("%d bytes and %d objects in a room of %d: the first block should have been the end", len(index), n, whole/10)
	}
}

// TestUnpackDamaged: the checksum finds all of this before, but what comes behind
// it must not depend on that.
func TestUnpackDamaged(t *testing.T) {
	objects := usual(20)
	whole := packed(t, objects)
	for n := range whole {
		if got, err := unpack(whole[:n], len(objects)); err == nil {
			t.Errorf("the first %d of %d bytes are %d objects", n, len(whole), len(got))
		}
	}
	for i := range whole {
		for bit := range 8 {
			damaged := slices.Clone(whole)
			damaged[i] ^= 1 << bit
			if got, err := unpack(damaged, len(objects)); err == nil && len(got) != len(objects) {
				t.Errorf("with bit %d of byte %d flipped it is %d objects", bit, i, len(got))
			}
		}
	}
	for _, count := range []int{-1, 0, 1, 19, 21, 1 << 40} {
		if _, err := unpack(whole, count); err == nil {
			t.Errorf("%d objects have been read as %d", len(objects), count)
		}
	}
}

// TestUnpackWrong: what no packer writes.
func TestUnpackWrong(t *testing.T) {
	a, b := checkpoint.Object{Name: "a", ResourceVersion: "1"}, checkpoint.Object{Name: "b", ResourceVersion: "1"}
	u := checkpoint.Object{Name: "a", ResourceVersion: "1", Unacked: true}
	raw := func(objects ...checkpoint.Object) []byte {
		p := &packer{}
		for _, o := range objects {
			p.add(o)
		}
		return p.block()
	}
	flag := raw(a, b)
	flag[1] |= allFlags + 1
	shared := raw(a, b)
	shared[slices.Index(shared, 'a')-4] = 9 // of the second: before it are a length of a uid, and of the texts
	tests := []struct {
		raw   []byte
		count int
		why   string
	}{
		{raw(b, a), 2, "not in order"},
		{raw(a, a), 2, "twice"},
		{raw(u, u), 2, "twice, and Unacked"},
		{raw(u, a), 2, "Unacked before those that are not"},
		{flag, 2, "a flag that is none"},
		{shared, 2, "a name with more of the one before than there was"},
		{append(raw(a, b), 0), 2, "bytes behind it"},
		{append(raw(a, b), raw(b)...), 2, "a block too many"},
		{raw(a, b), 1, "more objects in the block"},
		{raw(a, b), 3, "fewer objects in the block"},
		{raw(a, b)[:3], 2, "cut off"},
		{nil, 1, "nothing"},
	}
	for _, tt := range tests {
		if got, err := unpackBlocks(tt.raw, tt.count); err == nil {
			t.Errorf("%s: %v", tt.why, got)
		}
	}
	if got, err := unpackBlocks(raw(a, b), 2); err != nil || len(got) != 2 {
		t.Errorf("right: %v, %v", got, err)
	}
}

// FuzzUnpack is of what comes out of the decompression.
func FuzzUnpack(f *testing.F) {
	p := &packer{}
	for _, o := range append(usual(5), checkpoint.Object{Namespace: "z", Name: "odd", UID: "1", ResourceVersion: "a"}) {
		p.add(o)
	}
	f.Add(p.block(), 6)
	f.Add([]byte{0, 0, 0, 0, 0}, 0)
	f.Fuzz(func(t *testing.T, raw []byte, count int) {
		objects, err := unpackBlocks(raw, count)
		if err != nil {
			return
		}
		if len(objects) != count {
			t.Fatalf("%d objects, not %d", len(objects), count)
		}
		if count == 0 {
			return
		}
		again, err := unpack(packed(t, objects), count)
		if d := cmp.Diff(objects, again); d != "" || err != nil {
			t.Errorf("packed again: %v %s", err, d)
		}
	})
}

// usual returns objects as there are in a cluster, sorted: Pods of Deployments in 50
// namespaces.
func usual(n int) []checkpoint.Object {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	const letters = "bcdfghjklmnpqrstvwxz2456789" // of k8s.io/apimachinery/pkg/util/rand
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	words := []string{"shop", "cart", "payments", "frontend", "api-gateway", "search", "worker", "metrics-agent"}
	var sets []string
	for range max(n/5, 1) {
		sets = append(sets, words[r.IntN(len(words))]+"-"+text(10))
	}
	version := uint64(500_000_000)
	byName := map[string]checkpoint.Object{}
	for len(byName) < n {
		version += r.Uint64N(200)
		set := r.IntN(len(sets))
		o := checkpoint.Object{
			Namespace: fmt.Sprintf("team-%02d", set%50), Name: sets[set] + "-" + text(5),
			ResourceVersion: fmt.Sprint(version), UID: randomUID(r),
		}
		byName[o.NamespacedName().String()] = o
	}
	var objects []checkpoint.Object
	for _, o := range byName {
		objects = append(objects, o)
	}
	slices.SortFunc(objects, compare)
	return objects
}

func randomUID(r *rand.Rand) types.UID {
	var b [uidLength]byte
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return types.UID(unpackUID(b[:]))
}
