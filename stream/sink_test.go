package stream_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// sink has each event once, by the rules in docs/migrating.md, "Exactly once into a sink".
type sink struct {
	of    map[types.UID]had
	acked []types.UID    // whose newest event is a DELETED that is acked, and all before it
	wrote map[string]int // how often, by what must be there once
	log   []string       // what was written and, in brackets, what was skipped
}

// had is what a sink has of a uid.
type had struct {
	version string // the highest; empty if versions before say nothing
	deleted bool
}

func (s *sink) receive(ev stream.Event) {
	switch {
	case ev.HasObject():
		s.write(ev)
		return
	case ev.Type == stream.Gap && ev.Gap.Reason == stream.GapRewound:
		for uid, h := range s.of {
			s.of[uid] = had{"", h.deleted}
		}
		clear(s.wrote)
	}
	s.log = append(s.log, ev.String())
}

func (s *sink) write(ev stream.Event) {
	uid, deleted := ev.Meta().GetUID(), ev.Type == stream.Deleted
	before, known := s.of[uid]
	order := compareVersions(ev.ResourceVersion, before.version)
	skip := order <= 0 // rule 1
	switch {
	case deleted && ev.Inferred: // rule 3
		skip = !known || before.deleted
	case deleted: // rule 2
		skip = before.deleted || order < 0
	case !known || before.deleted:
		ev.Type = stream.Added
	default:
		ev.Type = stream.Modified
	}
	if skip {
		s.log = append(s.log, "["+ev.String()+"]")
		return
	}
	s.acked = slices.DeleteFunc(s.acked, func(u types.UID) bool { return u == uid }) // the newest is another one now
	now := had{before.version, deleted}
	if !deleted || !ev.Inferred {
		now.version = ev.ResourceVersion
		s.wrote[fmt.Sprint(uid, " @", ev.ResourceVersion, deleted)]++
	}
	if deleted && before.deleted {
		s.wrote[fmt.Sprint("the end of ", uid)] = 2
	}
	s.of[uid] = now
	s.log = append(s.log, ev.String())
}

// forget is called when all acks are committed.
func (s *sink) forget() {
	for _, uid := range s.acked {
		if s.of[uid].deleted {
			delete(s.of, uid)
		}
	}
	s.acked = nil
}

// compareVersions compares numbers of any length.
func compareVersions(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// state returns the versions of the objects that exist according to the sink.
func (s *sink) state() map[types.UID]string {
	state := map[types.UID]string{}
	for uid, h := range s.of {
		if !h.deleted {
			state[uid] = h.version
		}
	}
	return state
}

// keptOpen is a Store that outlives its Trackers, as a file outlives a process.
type keptOpen struct{ *checkpoint.Memory }

func (keptOpen) Close() error { return nil }

// TestSinkIsRightAfterKills: runs are killed anywhere, with any events acked and after any gap, and in the end the sink
// has what exists, and nothing twice.
func TestSinkIsRightAfterKills(t *testing.T) {
	for seed := range seedtest.Default(300).All(t) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 44))
			srv := streamtest.NewServer(widgets())
			defer srv.Close()
			o := &stream.Options{Select: func(o stream.Meta) bool { return o.GetLabels()["off"] == "" }}
			change := func() {
				name := []string{"a", "b"}[random.IntN(2)]
				switch random.IntN(5) {
				case 0:
					_, _ = srv.Delete(widgets(), "ns", name) // it may not exist
				case 1:
					srv.Put(widgets(), "ns", name, `metadata.labels={"off":"x"}`)
				default:
					srv.Put(widgets(), "ns", name, `metadata.labels={}`)
				}
			}
			store, to := keptOpen{&checkpoint.Memory{}}, &sink{of: map[types.UID]had{}, wrote: map[string]int{}}
			run := func(last bool) {
				tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "1"}})
				noError(t, err)
				s, err := stream.New(srv.Client(), widgets(), o)
				noError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				left, acks, all := random.IntN(8), random.IntN(3), true
				for ev, err := range s.With(stream.Run{Checkpoint: tracker}).Events(ctx) {
					if err != nil {
						break
					}
					to.receive(ev)
					if last || acks == 1 || acks == 2 && random.IntN(2) == 0 {
						ev.Ack()
						uid := ev.Meta().GetUID()
						newest := ev.Inferred || ev.ResourceVersion == to.of[uid].version
						if all && newest && ev.Type == stream.Deleted {
							to.acked = append(to.acked, uid)
						}
					} else {
						all = false
					}
					if left--; left < 0 && !last {
						break
					}
					if !last && random.IntN(3) == 0 {
						change()
					}
				}
				noError(t, tracker.Close())
				to.forget()
				to.log = append(to.log, "-- killed")
			}
			for n := range 12 {
				if random.IntN(4) == 0 { // of one server of several: the next one still has the version
					noError(t, srv.Apply(fmt.Sprintf("watch %d: 410", n+1)))
				}
			}
			change()
			for range 1 + random.IntN(5) {
				if random.IntN(4) == 0 {
					noError(t, srv.Do("compact"))
				}
				run(false)
				for range random.IntN(5) {
					change()
				}
			}
			run(true)
			if random.IntN(2) == 0 { // what was delivered is acked: otherwise no run may see that it is lost
				noError(t, srv.Do("rewind 1"))
				run(false)
				run(true)
			}
			h, want := srv.History(widgets(), o), map[types.UID]string{}
			for _, o := range h.At(len(h.Rewinds), "1000000000") {
				if o.GetLabels()["off"] == "" {
					want[o.GetUID()] = o.GetResourceVersion()
				}
			}
			if diff := gocmp.Diff(want, to.state()); diff != "" {
				t.Errorf("seed %d (-want +got):\n%s\n%s", seed, diff, strings.Join(to.log, "\n"))
			}
			for what, times := range to.wrote {
				if times > 1 {
					t.Errorf("seed %d: %s is in the sink %d times:\n%s", seed, what, times, strings.Join(to.log, "\n"))
				}
			}
		})
	}
}
