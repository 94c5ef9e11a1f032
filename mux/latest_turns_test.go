package mux

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/stream"
)

// What changes faster than the loop takes it moves to the end of the queue each
// time; it must have its turn all the same.
func TestLatestGivesEachObjectItsTurn(t *testing.T) {
	var coalesced, vanished uint64
	q := newLatestQueue(&coalesced, &vanished)
	const objects = 6
	version := 0
	change := func(name string) {
		version++
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"name": name, "uid": name, "resourceVersion": fmt.Sprint(version),
		}}}
		q.push(item{event: stream.Event{Type: stream.Modified, Object: o, ResourceVersion: fmt.Sprint(version)}, size: 1})
	}
	told, last, most := map[string]int{}, map[string]int{}, 0
	newest := 0
	for i := range 1000 {
		for n := range objects {
			change(fmt.Sprint(n))
			change("hot")
			change("hot")
		}
		ev := q.pop().event
		var rv int
		fmt.Sscan(ev.ResourceVersion, &rv)
		if rv <= newest {
			t.Fatalf("resourceVersion %d comes after %d", rv, newest)
		}
		newest = rv
		name := ev.Object.GetName()
		told[name]++
		if gap := i - last[name]; gap > 2*(objects+1) {
			t.Errorf("%s has waited for %d turns, want at most two rounds of %d", name, gap, objects+1)
		}
		last[name], most = i, max(most, q.n)
	}
	if told["hot"] < 100 {
		t.Errorf("told %v: the one that changes most is told too seldom", told)
	}
	if most > 2*(objects+1) {
		t.Errorf("%d events waited of %d objects, want at most two each", most, objects+1)
	}
}
