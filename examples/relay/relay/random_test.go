package relay_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

const randomSeeds = seedtest.Default(60)

// TestRandom runs replicas through random faults of the API server, of the engine, and of themselves. The log must keep
// its promises, and in the end its last messages must be the objects of the API server.
func TestRandom(t *testing.T) {
	for seed := range randomSeeds.All(t) {
		synctest.Test(t, func(t *testing.T) { randomRun(t, rand.New(rand.NewPCG(seed, 21))) })
	}
}

func randomRun(t *testing.T, r *rand.Rand) {
	w := newWorld(t, widgets, gadgets, planets, namespaces)
	defer w.srv.Close()
	w.config.Selection.Resources = []string{"*.example.com"}
	w.served = w.served[:3]
	for i := range 2 {
		w.srv.Put(namespaces, "", fmt.Sprintf("ns%d", i))
	}
	toggles := r.IntN(2) == 0
	if r.IntN(2) == 0 {
		w.config.Queue.Overflow = relay.OverflowLatest
	}
	w.config.Queue.Bytes = 1 << (10 + r.IntN(8))
	w.log.Max.Messages, w.log.Max.Bytes = 3+r.IntN(20), 2000+r.IntN(20_000)
	started, loses := 0, r.IntN(3) == 0
	start := func() {
		started++
		if loses {
			w.loses = 2 + r.IntN(5)
		}
		if toggles {
			w.config.Rules = []relay.Rule{{Resource: "widgets", Split: r.IntN(2) == 0}}
		}
		w.start(fmt.Sprintf("r%d", started))
	}
	start()
	paused := map[string]bool{}
	one := func() string {
		ids := slices.Sorted(maps.Keys(w.replicas))
		return ids[r.IntN(len(ids))]
	}
	for range 15 + r.IntN(25) {
		for range r.IntN(12) {
			change(w, r)
		}
		switch id := one(); r.IntN(16) {
		case 0, 1:
			if len(w.replicas) < 4 {
				start()
			}
		case 2:
			if !paused[id] {
				w.kill(id)
				start()
			}
		case 3:
			if !paused[id] {
				w.stop(id)
				start()
			}
		case 4, 5:
			if paused[id] {
				w.replicas[id].link.resume()
			} else {
				w.replicas[id].link.pause()
			}
			paused[id] = !paused[id]
		case 6:
			w.replicas[id].link.cut(r.IntN(2) == 0)
		case 7:
			do(t, w, "restart")
		case 8:
			do(t, w, "compact")
		case 9:
			do(t, w, "widgets close watches")
		case 10:
			do(t, w, "planets expire")
		case 11:
			do(t, w, "bookmarks every 10s")
		}
		time.Sleep(time.Duration(r.IntN(20)) * time.Second)
	}
	for id, replica := range w.replicas {
		replica.link.cut(false)
		if paused[id] {
			replica.link.resume()
		}
	}
	w.converged()
	w.stopAll()
	w.converged()
	w.judge()
}

func do(t *testing.T, w *world, what string) {
	t.Helper()
	if err := w.srv.Do(what); err != nil {
		t.Fatal(err)
	}
}

// change creates, updates or deletes an object, or replaces it by another one of its name.
func change(w *world, r *rand.Rand) {
	resource := w.served[r.IntN(len(w.served))]
	name, namespace := fmt.Sprintf("o%d", r.IntN(6)), ""
	if resource.Namespaced {
		namespace = fmt.Sprintf("ns%d", r.IntN(2))
	}
	switch r.IntN(6) {
	case 0, 1:
		_, _ = w.srv.Delete(resource, namespace, name) // which may not exist
	case 2:
		_, _ = w.srv.Delete(resource, namespace, name)
		w.srv.Put(resource, namespace, name, "spec.again=1")
	default:
		w.srv.Put(resource, namespace, name, fmt.Sprintf("spec.x=%d", r.IntN(1000)))
	}
}
