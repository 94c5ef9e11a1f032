package configmap

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// TestModel does at random what a Tracker does, on a connection that breaks off, and
// holds it against checkpoint.Memory: after an error the ConfigMap is as before or
// after, and nothing else.
func TestModel(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 4))
		srv, want := newServer(t), checkpoint.NewMemory()
		labels := 0
		client := clientOf(t, srv, func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if req.Method != http.MethodPut {
				return next.RoundTrip(req)
			}
			switch r.IntN(8) {
			case 0:
				return nil, errCut
			case 1, 2:
				return unanswered(req, next)
			case 3:
				labels++
				label(t, srv, "n", fmt.Sprint(labels))
			}
			return next.RoundTrip(req)
		})
		var s *Store
		reopen := func() {
			for {
				var err error
				if s, err = Open(t.Context(), client, "ns", "cp", nil); err == nil {
					return
				}
			}
		}
		reopen()
		keys := []string{"a", "b", "c"}
		for step := range 40 {
			// What may be in the ConfigMap: what was there, and after each attempt.
			possible := []*checkpoint.Memory{want}
			for deltas := randomDeltas(r, keys); ; deltas = append(deltas, randomDeltas(r, keys)...) { // the same and more
				possible = append(possible, with(t, want, keys, deltas))
				err := s.Commit(t.Context(), deltas)
				if err == nil {
					want = possible[len(possible)-1]
					possible = nil
					break
				}
				for _, key := range keys {
					sameAs(t, want, s, key)
				}
				if r.IntN(3) == 0 {
					break
				}
			}
			if possible != nil || r.IntN(10) == 0 {
				reopen()
				for _, p := range possible {
					if equal(t, p, s, keys) {
						want = p
					}
				}
			}
			if step%10 == 9 {
				key := keys[r.IntN(len(keys))]
				for s.Delete(t.Context(), key) != nil {
				}
				if err := want.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
			for _, key := range keys {
				sameAs(t, want, s, key)
			}
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

func randomDeltas(r *rand.Rand, keys []string) []checkpoint.Delta {
	var deltas []checkpoint.Delta
	for _, key := range keys {
		if r.IntN(2) == 0 {
			continue
		}
		d := delta(key, fmt.Sprint(r.IntN(1000)))
		d.Partial, d.Unclean, d.Reset = r.IntN(4) == 0, r.IntN(4) == 0, r.IntN(10) == 0
		for _, n := range r.Perm(12)[:r.IntN(5)] {
			name := types.NamespacedName{Namespace: fmt.Sprint("ns", n%3), Name: fmt.Sprint("n", n)}
			if r.IntN(3) == 0 {
				d.Gone = append(d.Gone, name)
			} else {
				d.Put = append(d.Put, checkpoint.Object{Namespace: name.Namespace, Name: name.Name, UID: randomUID(r), ResourceVersion: fmt.Sprint(r.Uint64())})
			}
		}
		for _, n := range r.Perm(12)[:r.IntN(5)] {
			o := checkpoint.Object{Namespace: fmt.Sprint("ns", n%3), Name: fmt.Sprint("n", n/2), UID: uid(fmt.Sprint(n)), Unacked: true}
			if r.IntN(3) == 0 {
				d.Settled = append(d.Settled, o.ID())
			} else {
				d.Told = append(d.Told, o)
			}
		}
		deltas = append(deltas, d)
	}
	return deltas
}

// with returns m after a commit.
func with(t *testing.T, m *checkpoint.Memory, keys []string, deltas []checkpoint.Delta) *checkpoint.Memory {
	t.Helper()
	after := checkpoint.NewMemory()
	for _, key := range keys {
		if c := load(t, m, key); c != nil {
			before := checkpoint.Delta{
				Key: key, Identity: c.Identity, ResourceVersions: c.Position.ResourceVersions,
				Partial: c.Position.Partial, Unclean: c.Position.Unclean,
			}
			for _, o := range c.Position.Objects {
				if o.Unacked {
					before.Told = append(before.Told, o)
				} else {
					before.Put = append(before.Put, o)
				}
			}
			deltas = append([]checkpoint.Delta{before}, deltas...)
		}
	}
	if err := after.Commit(t.Context(), deltas); err != nil {
		t.Fatal(err)
	}
	return after
}

func equal(t *testing.T, a, b checkpoint.Store, keys []string) bool {
	t.Helper()
	for _, key := range keys {
		x, y := load(t, a, key), load(t, b, key)
		for _, c := range []*checkpoint.Checkpoint{x, y} {
			if c != nil {
				c.Committed = time.Time{}
			}
		}
		if !cmp.Equal(x, y) {
			return false
		}
	}
	return true
}
