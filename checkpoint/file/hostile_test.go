package file_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

// A sparse file can be larger than memory and disk, and its checksums can be right.
func TestSparseFileTakesLittleMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("files with a hole of 1 TiB need Linux (.ci/run and .ci/soak run on it)")
	}
	const hole, tib = 64 << 20, 1 << 40
	length := func(n uint64) string { return string(binary.AppendUvarint(nil, n)) }
	path := inMemory(t)
	s := open(t, path)
	commit(t, s, at("k", "1"))
	closeStore(t, s)
	whole := string(read(t, path))
	for _, tt := range []struct {
		content string // before the hole
		hole    int
		valid   bool
		why     string
	}{
		{"", tib, false, "nothing else"},
		{whole, tib, false, "after a valid file"},
		{firstLine + string(header(tib-45, 0)), tib, false, "a record of 1 TiB"},
		{whole, hole, true, "after a valid file, like a record that has not reached the disk"},
		{whole + string(header(1<<30, 0)), hole, true, "the end of a record that is not complete"},
		{whole + string(header(1<<62, 0)), hole, false, "the end of a record of 4 EiB"},
		{whole + strings.Repeat("x", 32), hole, false, "after something else"},
		{sealed("", hole), hole, false, "sections without keys"},
		{sealed(length(hole), hole), hole, false, "a key"},
		{sealed(of("k")+length(hole), hole+1), hole + 1, false, "the JSON"},
		{sealed(of("k", "{}")+length(hole), hole), hole, false, "objects"},
		{sealed(of("k", "{}")+length(hole+4)+length(hole), hole), hole, false, "a namespace"},
	} {
		write(t, path, []byte(tt.content))
		size := int64(len(tt.content) + tt.hole)
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := attempt(path)
		runtime.ReadMemStats(&after)
		if (err == nil) != tt.valid || err != nil && !isRefused(err) {
			t.Errorf("%s: %v, %v", tt.why, got, err)
		}
		if mem := (after.TotalAlloc - before.TotalAlloc) >> 20; mem > 8 {
			t.Errorf("%s: it took %d MiB", tt.why, mem)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != size {
			t.Errorf("%s: the file was changed (%v)", tt.why, err)
		}
	}
}

// sealed returns the beginning of a file with one record, whose payload ends with zeros that are not in the result.
func sealed(payload string, zeros int) string {
	sum, block := crc32.Checksum([]byte(payload), castagnoli), make([]byte, 1<<20)
	for left := zeros; left > 0; left -= len(block) {
		sum = crc32.Update(sum, castagnoli, block[:min(left, len(block))])
	}
	return firstLine + string(header(uint64(len(payload)+zeros), sum)) + payload
}

// A valid checksum does not make contents valid.
func TestInvalidContentsAreRefused(t *testing.T) {
	defer file.ReplaceFsync(func(*os.File) error { return nil })()
	const uid = "\x010123456789abcdef"
	for _, tt := range []struct {
		payload string
		valid   bool
		why     string
	}{
		{"", true, "nothing"},
		{of("k", "{}", of("ns", "name", uid, "\x001")), true, "an object"},
		{of("k", "{}", of("ns", "name", "\x00", "\x00")), true, "an object without uid and version"},
		{of("k", "", ""), true, "a checkpoint that is deleted, and never was"},
		{of("k"), false, "a section without its other texts"},
		{of("k", "{}"), false, "a section without its last text"},
		{of("k", "{}") + "\x05a", false, "a text that is longer than the record"},
		{of("k", "{}") + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", false, "a text of 2^64-1 bytes"},
		{of("k", "{}") + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", false, "a length of more than 64 bits"},
		{of("k", "{}", "x"), false, "a byte that is no object"},
		{of("k", "{}", "", "k", "{}", "x", "k", "{}", ""), false, "the same between two valid sections"},
		{of("k", "{}", "") + "\x00", false, "a text without a section"},
		{of("k", "{", ""), false, "no JSON"},
		{of("k", "[]", ""), false, "JSON of something else"},
		{of("k", "{}", of("ns", "name", uid)), false, "an object without a version"},
		{of("k", "{}", of("ns", "name", "", "\x001")), false, "an object with no kind of uid"},
		{of("k", "{}", of("ns", "name", uid[:16], "\x001")), false, "a UUID of 15 bytes"},
		{of("k", "{}", of("ns", "name", "", "")), false, "the same, of an object that is gone"},
		{of("k", "{}", of("ns", "name", uid, "1")), false, "a version without its first byte"},
		{of("k", "{}", of("ns", "name", "\x007f6a2d6e-0f57-4b4c-9f0e-0d6a1c9c1a11", "\x001")), false,
			"a UUID as text: the object could have two entries"},
		{of("", "{}", ""), false, "no key"},
		{of(strings.Repeat("k", 1025), "{}", ""), false, "a key that no Stream has"},
		{of("k", "null", ""), true, "JSON of nothing"},
		{of("k", `{"resourceVersions":{"a":"1"}}`, ""), true, "JSON of a position"},
		{of("k", `{"resourceVersions":{"a":1}}`, ""), false, "JSON with a number for a text"},
		{of("k", `{"partial":1`+strings.Repeat("0", 1000)+`}`, ""), false, "a huge number"},
		{of("k", `{"flags":["unclean"]}`, ""), false, "a field of another format"},
		{of("k", `{"identity":{"objects":true}}`, ""), false, "likewise: the identity is not known whole"},
		{of("k", "{}{}", ""), false, "JSON twice"},
		{of("k", strings.Repeat("[", 100_000), ""), false, "JSON that is nested deeply"},
		{of("k", strings.Repeat(`{"identity":`, 100_000), ""), false, "likewise"},
		{of("k", "{}", of("ns", "name", uid, "\x001")+"\x05"), false, "more than an object"},
	} {
		path := inMemory(t)
		write(t, path, record(tt.payload, uint64(len(tt.payload))))
		if got, err := attempt(path); (err == nil) != tt.valid || err != nil && !isRefused(err) {
			t.Errorf("%s: %v, %v", tt.why, got, err)
		}
		survives(t, path, read(t, path))
		for _, length := range []uint64{1 << 30, 1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
			write(t, path, record(tt.payload, length)) // memory for it would be too much
			if got, err := attempt(path); !isRefused(err) {
				t.Errorf("%s, of %d bytes: %v, %v", tt.why, length, got, err)
			}
		}
	}
}

// Namespace, name and uid identify an object, however a file encodes them.
func TestObjectHasOneEntry(t *testing.T) {
	const uid = "\x010123456789abcdef"
	for _, objects := range []string{
		of("ns", "name", uid, "\x001") + of("ns", "name", uid, "\x002"),
		of("ns", "name", uid, "\x001") + "\x82\x00ns" + of("name", uid, "\x002"),
		of("ns", "name", uid, "\x001") + of("ns", "name", uid, "") + of("ns", "name", uid, "\x002"),
	} {
		path := inTemp(t)
		payload := of("k", "{}", objects)
		write(t, path, record(payload, uint64(len(payload))))
		got := load(t, open(t, path), "k").Position.Objects
		if len(got) != 1 || got[0].ResourceVersion != "2" {
			t.Errorf("%q: %v, want one object at 2", objects, got)
		}
	}
}

// What Open would refuse can't be committed.
func TestCommitRefusesWhatIsTooLarge(t *testing.T) {
	path, long := inMemory(t), strings.Repeat("x", 16<<20)
	s := open(t, path)
	before := read(t, path)
	for _, tt := range []struct {
		d   checkpoint.Delta
		why string
	}{
		{checkpoint.Delta{}, "no key"},
		{checkpoint.Delta{Key: strings.Repeat("k", 1025)}, "a long key"},
		{checkpoint.Delta{Key: "k", ResourceVersions: map[string]string{"": long}}, "a long version of the position"},
		{checkpoint.Delta{Key: "k", Put: []checkpoint.Object{{Name: long + "x"}}}, "a long name"},
		{checkpoint.Delta{Key: "k", Put: []checkpoint.Object{{ResourceVersion: long}}}, "a long version of an object"},
		{checkpoint.Delta{Key: "k", Removed: []checkpoint.Object{{Namespace: long + "x"}}}, "a long namespace"},
	} {
		if err := tryCommit(s, tt.d); err == nil || len(err.Error()) > 200 || isRefused(err) {
			t.Errorf("%s: %v, want an error about the length", tt.why, err)
		}
	}
	if !bytes.Equal(before, read(t, path)) {
		t.Error("the file was changed")
	}
}

// A full file can be read, and is written to again once a checkpoint was deleted.
func TestFileStaysBelowItsSizeLimit(t *testing.T) {
	defer file.ReplaceMaxFile(5 << 20)()
	path := inMemory(t)
	s := open(t, path)
	for range 4 { // what is outdated makes room
		commit(t, s, checkpoint.Delta{Key: "key-0", Reset: true, Put: []checkpoint.Object{longObject}})
	}
	if err := s.Delete(t.Context(), "key-0"); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range 20 {
		large := at(fmt.Sprint("key-", i%6), "1")
		large.Put = []checkpoint.Object{{Name: strings.Repeat("x", 1<<20)}}
		err := tryCommit(s, large)
		if err != nil && (isRefused(err) || !strings.Contains(err.Error(), "must have at most 5242880")) {
			t.Fatal(err)
		}
		if err != nil {
			refused++
		}
	}
	keys := s.Keys()
	closeStore(t, s)
	all, err := attempt(path)
	if err != nil || len(all) != len(keys) || len(keys) < 3 || refused == 0 {
		t.Errorf("%d commits were refused, %d of %d checkpoints could be read (%v)", refused, len(all), len(keys), err)
	}
	s = open(t, path)
	if err := s.Delete(t.Context(), keys[0]); err != nil {
		t.Fatal(err)
	}
	commit(t, s, at("other", "1"))
}

// survives opens a file of any contents and uses it. No checkpoint is lost but those that are deleted, and a damaged
// one prevents no commit to others.
func survives(t testing.TB, path string, content []byte) {
	t.Helper()
	write(t, path, content)
	s, err := file.Open(path)
	if isRefused(err) && bytes.Equal(content, read(t, path)) {
		return
	} else if err != nil {
		t.Fatalf("%v, or the file was changed", err)
	}
	defer s.Close()
	intact, damaged := state{}, []string{}
	for _, key := range s.Keys() {
		c, err := s.Load(t.Context(), key)
		if key == "new" {
			continue
		} else if err == nil {
			intact[key] = c
			continue
		}
		checkNames(t, err, key)
		damaged = append(damaged, key)
	}
	for range 2 { // the second commit writes a snapshot
		commit(t, s, checkpoint.Delta{Key: "new", Reset: true, Put: []checkpoint.Object{longObject}})
	}
	closeStore(t, s)
	s = open(t, path)
	for _, key := range damaged {
		_, err := s.Load(t.Context(), key)
		checkNames(t, err, key)
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, s, checkpoint.Delta{Key: "new"})
	closeStore(t, s)
	s = open(t, path)
	for key, want := range intact {
		c, err := s.Load(t.Context(), key)
		if err != nil {
			t.Fatalf("%q: %v", key, err)
		}
		if diff := diff(want, c); diff != "" {
			t.Fatalf("%q is another one (-want +got):\n%s", key, diff)
		}
	}
	if got := load(t, s, "new"); got == nil {
		t.Fatal("what was committed is missing")
	}
	closeStore(t, s)
}

var longObject = checkpoint.Object{Name: strings.Repeat("x", 2<<20)}

// withSums corrects the lengths and checksums of the records.
func withSums(content []byte) []byte {
	b, sum := bytes.Clone(content), uint32(0)
	for at := len(firstLine); at+headerSize <= len(b); {
		payload := b[at+headerSize:]
		payload = payload[:min(binary.LittleEndian.Uint64(b[at:]), uint64(len(payload)))]
		sum = crc32.Update(sum, castagnoli, payload)
		copy(b[at:], header(uint64(len(payload)), sum))
		at += headerSize + len(payload)
	}
	return b
}

func TestDamageWithValidChecksumsIsSurvived(t *testing.T) {
	defer file.ReplaceFsync(func(*os.File) error { return nil })()
	h := newHistory(t, 3, small)
	for seed := range seedtest.Default(60).All(t) {
		r, b := rand.New(rand.NewPCG(seed, 0)), bytes.Clone(h.whole)
		for range 1 + r.IntN(4) {
			from, to := len(firstLine)+r.IntN(len(b)-len(firstLine)), r.IntN(len(b)+1)
			n := r.IntN(30)
			switch r.IntN(5) {
			case 0:
				b[from] = byte(r.Uint32())
			case 1:
				b[from] ^= 1 << r.IntN(8)
			case 2:
				b = slices.Insert(b, from, binary.AppendUvarint(nil, r.Uint64()>>r.IntN(64))...)
			case 3:
				b = slices.Insert(b, from, bytes.Clone(b[to:min(len(b), to+n)])...)
			case 4:
				b = slices.Delete(b, from, min(len(b)-1, from+n))
			}
		}
		survives(t, h.path, withSums(b))
	}
}

// FuzzOpen uses files as they are, and with valid checksums.
func FuzzOpen(f *testing.F) {
	path := inTemp(f)
	frozen(f, path)
	f.Add(read(f, path))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := inMemory(t)
		survives(t, path, content)
		survives(t, path, withSums(content))
	})
}
