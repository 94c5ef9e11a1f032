package file_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

const headerSize = 16

// firstLine is what stands before the records, if nothing is known to be on disk.
var firstLine = front(0)

// front is the first line and the head of a file of which a number of bytes are known to be on disk.
func front(synced int) string {
	return "gvrwatch checkpoint format 3\n" + string(header(uint64(synced), 0))
}

// history is a file, and what it held after its snapshot and after each commit. Nothing of it is known to be on disk,
// so that each cut gives the state of a record.
type history struct {
	path   string
	whole  []byte
	killed []byte // the file as a process leaves it that is killed
	closed []byte // and one that closes it
	ends   []int  // of the records
	states []string
}

// newHistory makes a file with a number of commits after a snapshot.
func newHistory(t testing.TB, commits int, random func(r *rand.Rand, i int) []checkpoint.Delta) history {
	t.Helper()
	t.Cleanup(file.ReplaceFsync(func(*os.File) error { return nil }))
	r, h := rand.New(rand.NewPCG(7, 7)), history{path: inMemory(t)}
	s := open(t, h.path)
	commit(t, s, random(r, 0)...)
	rewritten(t, s)
	state := func() string {
		all, err := contents(s)
		if err != nil {
			t.Fatal(err)
		}
		return text(all)
	}
	h.whole = read(t, h.path)
	length := int(binary.LittleEndian.Uint64(h.whole[len(firstLine):]))
	h.ends = []int{len(firstLine) + headerSize + length, len(h.whole)}
	h.states = []string{"", state()}
	for i := range commits {
		commit(t, s, random(r, i+1)...)
		h.whole = read(t, h.path)
		h.ends, h.states = append(h.ends, len(h.whole)), append(h.states, state())
	}
	closeStore(t, s)
	h.closed = read(t, h.path)
	h.killed = bytes.Clone(h.whole)
	copy(h.whole, firstLine)
	write(t, h.path, h.whole[:h.ends[0]])
	snapshot, err := attempt(h.path)
	if err != nil || len(h.whole) > 100_000 {
		t.Fatalf("%v, or it is no small snapshot: records end at %d", err, h.ends)
	}
	h.states[0] = text(snapshot)
	return h
}

// text encodes a state: equal states give equal texts.
func text(s state) string {
	for _, c := range s {
		slices.SortFunc(c.Position.Objects, compare)
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func small(r *rand.Rand, i int) []checkpoint.Delta {
	d := checkpoint.Delta{Key: "k", ResourceVersions: map[string]string{"": fmt.Sprint(i)}}
	d.Put = []checkpoint.Object{odd[0], odd[1], odd[2]}[:r.IntN(3)]
	return []checkpoint.Delta{d, {Key: fmt.Sprint("k-", i%2), Reset: i%3 == 0, Removed: []checkpoint.Object{odd[1]}}}
}

func large(r *rand.Rand, i int) []checkpoint.Delta {
	return []checkpoint.Delta{randomDelta(r, fmt.Sprint("key-", r.IntN(2)), i, 20), randomDelta(r, "k", i, 600)}
}

// open opens a damaged file and returns the number of its last valid record, or -1 if Open refuses the file. It fails
// the test if the file has a state that was never committed, if Load is the first to see the damage, or if the file was
// changed.
func (h history) open(t testing.TB, damaged []byte) int {
	t.Helper()
	write(t, h.path, damaged)
	s, err := file.Open(h.path)
	var got state
	if err == nil {
		got, err = contents(s)
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatalf("Open has accepted the file, but Load says: %v", err)
		}
	}
	if after := read(t, h.path); !bytes.Equal(damaged, after) {
		t.Fatal("the file was changed")
	}
	if isRefused(err) {
		return -1
	} else if err != nil {
		t.Fatalf("the error is no *CorruptError: %v", err)
	}
	state := text(got)
	for i := len(h.states) - 1; i >= 0; i-- {
		if h.states[i] == state {
			return i
		}
	}
	t.Fatalf("it holds what was never committed:\n%s", state)
	return -1
}

// record returns the last record that ends at an offset or before, or -1.
func (h history) record(at int) int {
	i, whole := slices.BinarySearch(h.ends, at)
	if !whole {
		i--
	}
	return i
}

// Two bits of each byte, with -soak 4 all. In the last record it may look like an incomplete write, if it makes a
// sector's part of the record zeros.
func TestFlippedBitIsDetected(t *testing.T) {
	h := newHistory(t, 3, small)
	last, harmless := len(h.ends)-1, 0
	for n := range h.whole {
		for i := range min(8, 2*seedtest.Soak()) {
			bit := (n + 3*i) % 8
			damaged := bytes.Clone(h.whole)
			damaged[n] ^= 1 << bit
			got := h.open(t, damaged)
			if got >= 0 && (got != last-1 || n < h.ends[last-1]) {
				t.Fatalf("bit %d of byte %d, records end at %d: it is at record %d", bit, n, h.ends, got)
			} else if got >= 0 {
				harmless++
			}
		}
	}
	if limit := len(h.whole) / 100; harmless > limit {
		t.Errorf("%d bits were taken for a record that was not written whole, want %d at most", harmless, limit)
	}
}

// The file can be committed to. One that is truncated within its snapshot is refused.
func TestTruncatedFileKeepsCompleteCommits(t *testing.T) {
	h := newHistory(t, 3, small)
	for n := range h.whole {
		want := h.record(n)
		if got := h.open(t, h.whole[:n]); got != want {
			t.Fatalf("cut off at %d, records end at %d: it is at record %d, want %d", n, h.ends, got, want)
		}
		if want < 0 || n%5 > 0 {
			continue
		}
		s := open(t, h.path)
		commit(t, s, checkpoint.Delta{Key: "next"}) // shorter than the record that it overwrites
		closeStore(t, s)
		all, err := attempt(h.path)
		if err != nil || all["next"] == nil {
			t.Fatalf("cut off at %d: %v, %v", n, all["next"], err)
		}
		if delete(all, "next"); text(all) != h.states[want] {
			t.Fatalf("cut off at %d: it goes on from %s", n, text(all))
		}
	}
}

// What was known to be on disk when the last commit began, and after Close everything, is not cut off by a crash.
func TestFileThatIsCutOffIsRefused(t *testing.T) {
	h := newHistory(t, 5, small)
	last := len(h.ends) - 1
	for _, tt := range []struct {
		file     []byte
		accepted int // so many cuts
		why      string
	}{
		{h.killed, h.ends[last] - h.ends[last-1], "a killed process: the last commit may not have reached the disk"},
		{h.closed, 0, "a closed file: all of it has"},
	} {
		accepted := 0
		for n := range h.killed {
			zeros := append(bytes.Clone(tt.file[:n]), make([]byte, len(tt.file)-n)...)
			for how, damaged := range [][]byte{tt.file[:n], zeros} {
				got, want, same := h.open(t, damaged), -1, n
				for same < len(damaged) && damaged[same] == tt.file[same] {
					same++
				}
				if same == len(tt.file) {
					want = last
				} else if tt.accepted > 0 && same >= h.ends[last-1] {
					want = last - 1
				}
				if got != want && (how == 0 || got >= 0) { // a part of a sector may be no incomplete write
					t.Fatalf("%s: from byte %d of %d on (%d), records end at %d: it is at record %d, want %d",
						tt.why, n, len(tt.file), how, h.ends, got, want)
				}
				if how == 0 && got >= 0 {
					accepted++
				}
			}
		}
		if accepted != tt.accepted {
			t.Errorf("%s: %d of %d cuts are accepted, want %d", tt.why, accepted, len(h.killed), tt.accepted)
		}
		t.Logf("%s: %d of %d cuts are accepted", tt.why, accepted, len(h.killed))
	}
}

// Only some sectors of the last record, or its beginning, have reached the disk.
func TestPowerFailureKeepsEarlierCommits(t *testing.T) {
	h := newHistory(t, 2, large)
	last, seen := len(h.ends)-1, map[int]int{}
	for seed := range seedtest.Default(400).All(t) {
		r := rand.New(rand.NewPCG(seed, 4))
		torn, missing := bytes.Clone(h.whole), r.IntN(8)
		for at := h.ends[last-1]; at < len(torn); {
			next := min(len(torn), at-at%512+512)
			if r.IntN(8) < missing {
				clear(torn[at:next])
			}
			at = next
		}
		if r.IntN(4) == 0 {
			torn = torn[:h.ends[last-1]+r.IntN(len(torn)-h.ends[last-1])]
		}
		want := last - 1
		if bytes.Equal(torn, h.whole) {
			want = last
		}
		got := h.open(t, torn)
		if seen[got]++; got != want {
			t.Fatalf("it is at record %d, want %d", got, want)
		}
	}
	t.Log(seen)
}

// The record of zeros was once complete, since another one follows.
func TestZerosBeforeAnotherRecordAreRefused(t *testing.T) {
	h := newHistory(t, 5, small)
	last := len(h.ends) - 1
	for i := range last {
		for _, to := range []int{h.ends[i] + headerSize, h.ends[i+1], len(h.whole)} {
			damaged, want := bytes.Clone(h.whole), i
			clear(damaged[h.ends[i]:to])
			if i+1 < last && to < len(h.whole) {
				want = -1
			}
			if got := h.open(t, damaged); got != want {
				t.Errorf("record %d is zeros up to %d (%d): it is at record %d, want %d", i+1, to, h.ends, got, want)
			}
		}
	}
}

// TestMutations: a changed file is refused, or has the commits before the change.
func TestMutations(t *testing.T) {
	h := newHistory(t, 20, large)
	accepted := 0
	for seed := range seedtest.Default(1000).All(t) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := bytes.Clone(h.whole)
		// block returns a part of the file: of any length, of sectors, or of records.
		block := func() (from, to int) {
			from = r.IntN(len(b))
			to = from + 1 + r.IntN(min(3000, len(b)-from))
			switch r.IntN(3) {
			case 0:
				from, to = from&^511, min(len(b), (to+511)&^511)
			case 1:
				i := r.IntN(len(h.ends) - 1)
				from, to = h.ends[i], h.ends[min(i+1+r.IntN(3), len(h.ends)-1)]
			}
			return from, to
		}
		from, to := block()
		other, _ := block()
		what := r.IntN(9)
		switch what {
		case 0:
			b[from] = byte(r.Uint32())
		case 1:
			clear(b[from:to])
		case 2:
			for i := from; i < to; i++ {
				b[i] = byte(r.Uint32())
			}
		case 3: // a block that was also written to the wrong place
			copy(b[from:to], h.whole[other:])
		case 4: // two that were swapped
			n := copy(b[from:to], h.whole[other:])
			copy(b[other:other+n], h.whole[from:to])
		case 5:
			b = slices.Insert(b, from, h.whole[other:min(len(h.whole), other+to-from)]...)
		case 6:
			b = slices.Delete(b, from, to)
		case 7:
			b = slices.Insert(b, from, make([]byte, to-from)...)
		case 8:
			b = append(b[:from], h.whole[other:]...)
		}
		same := 0
		for same < min(len(b), len(h.whole)) && b[same] == h.whole[same] {
			same++
		}
		got := h.open(t, b)
		if got >= 0 {
			accepted++
		}
		if got >= 0 && got != h.record(same) {
			t.Fatalf("way %d, bytes %d to %d and %d: it is at record %d, want %d",
				what, from, to, other, got, h.record(same))
		}
	}
	t.Logf("%d were accepted", accepted)
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	format1 := read(t, filepath.Join("..", "..", "testdata", "checkpoint-format-1.db"))
	format2 := read(t, filepath.Join("..", "..", "testdata", "checkpoint-format-2.db"))
	for _, tt := range []struct {
		content string
		format  int // of another version; 0 if it is none
		why     string
	}{
		{"", 0, "an empty file is what a crash may leave of one: it is not taken for a new one"},
		{"hello", 0, "a text"},
		{firstLine, 0, "nothing but the first line"},
		{"gvrwatch checkpoint format " + strings.Repeat("9", 100), 0, "a version of a hundred digits"},
		{firstLine[:len(firstLine)-1], 0, "a head that is cut off"},
		{"gvrwatch checkpoint format 9", 9, "a newer version, cut off"},
		{firstLine + string(header(1<<62, 0)), 0, "a record of 4 EiB"},
		{strings.Repeat("\x00", 1<<16), 0, "nothing but zeros"},
		{strings.Repeat("\xff", 1<<16), 0, "nothing but ones"},
		{string(format1), 1, "a file of an older version"},
		{string(format2), 2, "a file of the last one"},
		{"gvrwatch checkpoint format 1", 1, "an older version, cut off"},
		{"gvrwatch checkpoint format 4\nsomething new", 4, "a newer version"},
		{"gvrwatch checkpoint format 1234\n", 1234, "a much newer version"},
		{"gvrwatch checkpoint format 0\n", 0, "there was no such version"},
		{"gvrwatch checkpoint format -2\n", 0, "nor such a one"},
	} {
		path := inTemp(t)
		write(t, path, []byte(tt.content))
		got, err := attempt(path)
		if !isRefused(err) || string(read(t, path)) != tt.content {
			t.Errorf("%s: %v, %v", tt.why, got, err)
		}
		older, newer := tt.format == 1 || tt.format == 2, tt.format > 3
		advice := "restore a copy of the file, or move it away"
		if older {
			advice = fmt.Sprintf("%s: invalid format %d: must be 3: delete the file", path, tt.format)
		} else if newer {
			advice = fmt.Sprintf("%s: invalid format %d: must be 3: use the version", path, tt.format)
		}
		var corrupt *checkpoint.CorruptError
		if errors.As(err, &corrupt) && (corrupt.Older != older || corrupt.Newer != newer) {
			t.Errorf("%s: Older is %v and Newer %v, want %v and %v", tt.why, corrupt.Older, corrupt.Newer, older, newer)
		}
		if err != nil && !strings.Contains(err.Error(), advice) {
			t.Errorf("%s: %v, want an error with %q", tt.why, err, advice)
		}
	}
}
