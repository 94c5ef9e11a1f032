package file_test

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

var everyByte = flag.Bool("every-byte", false, "damage every byte of a file, instead of some")

// stride is how far the bytes that are damaged are apart.
func stride() int {
	if *everyByte {
		return 1
	}
	return 61
}

func TestTruncated(t *testing.T) {
	path := inTemp(t)
	want := sample(t, path)
	whole := read(t, path)
	for n := range whole {
		if n > 4096 && n%4096 > 64 && n%stride() > 0 {
			continue
		}
		checkDamaged(t, path, whole[:n], want)
		if t.Failed() {
			t.Fatalf("cut off at %d of %d", n, len(whole))
		}
	}
}

func TestFlippedBits(t *testing.T) {
	path := inTemp(t)
	older, want := history(t, path)
	whole := read(t, path)
	harmless := 0
	for n := 0; n < len(whole); n += stride() {
		damaged := bytes.Clone(whole)
		damaged[n] ^= 1 << (n % 8)
		checkDamaged(t, path, damaged, want, older)
		if t.Failed() {
			t.Fatalf("a flipped bit in byte %d of %d", n, len(whole))
		}
		if _, err := attempt(t, path); err == nil {
			harmless++
		}
	}
	t.Logf("%d of %d were harmless", harmless, len(whole)/stride())
}

// history makes a file with a commit before the last one, which is still in it.
func history(t testing.TB, path string) (older, newer map[string]*checkpoint.Checkpoint) {
	t.Helper()
	sample(t, path)
	s := open(t, path)
	older = contents(t, s)
	commit(t, s, checkpoint.Delta{Key: "pods", Identity: identity("pods"), ResourceVersions: map[string]string{"one": "200"}})
	newer = contents(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return older, newer
}

func TestZeroedAndRandom(t *testing.T) {
	path := inTemp(t)
	older, want := history(t, path)
	whole := read(t, path)
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 1500 {
		damaged := bytes.Clone(whole)
		from := r.IntN(len(damaged))
		to := from + 1 + r.IntN(min(5000, len(damaged)-from))
		what := r.IntN(4)
		for i := from; i < to; i++ {
			switch what {
			case 0:
				damaged[i] = 0
			case 1:
				damaged[i] = 0xff
			case 2:
				damaged[i] = byte(r.Uint32())
			default:
				damaged[i] = whole[(i+4096)%len(whole)] // a page that was written to the wrong place
			}
		}
		checkDamaged(t, path, damaged, want, older)
		if t.Failed() {
			t.Fatalf("round %d: bytes %d to %d, in way %d", round, from, to, what)
		}
	}
}

// TestTornCommit puts a file together from pages of two commits, as after a
// power failure.
func TestTornCommit(t *testing.T) {
	path := inTemp(t)
	sample(t, path)
	before := read(t, path)
	s := open(t, path)
	older := contents(t, s)
	commit(t, s, checkpoint.Delta{Key: "pods", Identity: identity("pods"), Put: objects(200, 5000), ResourceVersions: map[string]string{"one": "300"}})
	newer := contents(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	after := read(t, path)
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		torn := bytes.Clone(after)
		for p := 0; p+4096 <= len(before); p += 4096 {
			if r.IntN(2) == 0 {
				copy(torn[p:], before[p:p+4096])
			}
		}
		checkDamaged(t, path, torn, older, newer)
		if t.Failed() {
			t.FailNow()
		}
	}
}

func TestOtherFiles(t *testing.T) {
	tests := []struct {
		content []byte
		why     string
	}{
		{nil, "an empty file is what a crash may leave of one: it is not taken for a new one"},
		{[]byte("hello"), "a text"},
		{make([]byte, 1<<16), "nothing but zeros"},
		{bytes.Repeat([]byte{0xff}, 1<<16), "nothing but ones"},
		{foreign(t), "a bbolt file of another program"},
	}
	for _, tt := range tests {
		path := inTemp(t)
		if err := os.WriteFile(path, tt.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := attempt(t, path); err == nil {
			t.Errorf("%s: it holds %v", tt.why, got)
		}
		checkDamaged(t, path, tt.content)
	}
}

// TestFrozen reads a file as format 1 was when it was made. It must be read for
// ever.
func TestFrozen(t *testing.T) {
	frozen := read(t, filepath.Join("..", "..", "testdata", "checkpoint-format-1.db"))
	path := inTemp(t)
	if err := os.WriteFile(path, frozen, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := attempt(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(t, inTemp(t)), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzOpen(f *testing.F) {
	path := inTemp(f)
	sample(f, path)
	whole := read(f, path)
	f.Add(whole)
	f.Add(whole[:8192])
	f.Fuzz(func(t *testing.T, content []byte) {
		path := inTemp(t)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = attempt(t, path) // it must come to an end without a panic
	})
}
