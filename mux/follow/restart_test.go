package follow_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestRestartUnderManyTypes: while the server fails, all Streams of a Follow send at most 50 requests a second
// together, and its discovery at most 4. Afterwards the limit of Streams doubles each second, and nothing is missed.
// With -soak 3 there are 900 types.
func TestRestartUnderManyTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer()
		var types []gvr.Resource
		for i := range 300 * seedtest.Soak() {
			r := kindOf(fmt.Sprintf("robots%ds", i), "example.com", "v1", true)
			srv.Serve(r)
			srv.Put(r, "n", "a")
			types = append(types, r)
		}
		f := newFollower(t, srv, follow.Selection{Resources: []string{"*.example.com"}}, nil)
		f.start(t.Context())
		count := func(kind stream.Type) (n int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, ev := range f.events {
				if ev.Type == kind {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Minute)
		if n := count(stream.Synced); n != len(types) {
			t.Fatalf("%d of %d types are synced", n, len(types))
		}
		began := time.Now()
		if err := srv.Apply("any *: 503 plain\nat 1ms: close watches\nat 2m: heal"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, r := range types {
			srv.Put(r, "n", "a", "spec.x=changed")
		}
		time.Sleep(2 * time.Minute)
		if n := count(stream.Modified); n != len(types) {
			t.Errorf("%d MODIFIED, want %d", n, len(types))
		}
		perSecond, discovery := make([]int, 130), make([]int, 130)
		for _, r := range srv.Requests() {
			second := int(r.At.Sub(began) / time.Second)
			switch {
			case r.At.Before(began) || second >= len(perSecond):
			case r.Verb == "discovery":
				discovery[second]++
			default:
				perSecond[second]++
			}
		}
		// A poll of discovery is two requests. While the server fails, two polls may fall into one second. When it
		// answers again, its types cause three at once and three more in the rest of the second, as
		// discovery.Resolver.Refresh has it, but no more.
		if n, healed := slices.Max(discovery[:120]), slices.Max(discovery[120:]); n > 4 || healed > 12 {
			t.Errorf("%d and %d requests of discovery in one second, want at most 4 and 12: %v", n, healed, discovery)
		}
		most := 50
		for second, n := range perSecond {
			if second >= 120 {
				most *= 2
			}
			if n > most {
				t.Errorf("%d requests in second %d, want at most %d: %v", n, second, most, perSecond)
				break
			}
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}
