package acks

import (
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Begin compares identities before it closes the session before. An ack between the two is not carried over to a
// session with another Identity.
func TestAckDuringBeginIsNotCarriedOver(t *testing.T) {
	o := &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}}
	tracker, err := checkpoint.NewTracker(&checkpoint.Memory{}, o)
	if err != nil {
		t.Fatal(err)
	}
	before, err := Begin(t.Context(), tracker, "key", checkpoint.Identity{Resource: "widgets"}, false)
	if err != nil {
		t.Fatal(err)
	}
	m := before.Progress("").Mark("9", false)
	before.End()
	other := checkpoint.Identity{Resource: "globes"}
	if ackedIdentity(before.ledger, nil) != nil {
		t.Fatal("nothing is acked yet")
	}
	m.Ack()
	next := newLedger("key", other, rules{}, nil)
	if p := succeed(next, before.ledger, nil); p != nil || next.hasUncommitted() {
		t.Errorf("globes resume from %+v of widgets", p)
	}
	_ = tracker.Close()
}
