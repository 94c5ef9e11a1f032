package mux

import (
	"testing"

	"github.com/gvrwatch/gvrwatch/stream"
)

// A queue has much room after a snapshot. It keeps none of it once it is empty.
func TestQueueKeepsNoRoomOfASnapshot(t *testing.T) {
	for _, after := range []int{0, 1, 10} {
		q := &blockQueue{}
		push := func(kind stream.Type, n int) {
			for range n {
				q.push(item{event: stream.Event{Type: kind}})
			}
		}
		push(stream.Added, 100)
		push(stream.Synced, 1)
		push(stream.Modified, after) // before SYNCED is taken
		var it item
		for q.load().items > 0 {
			q.pop(&it)
		}
		if len(q.ring.items) > 0 {
			t.Errorf("%d events after SYNCED: an empty queue has room for %d", after, len(q.ring.items))
		}
	}
}
