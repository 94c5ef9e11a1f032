package acks_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// BenchmarkAck delivers and acks events, and commits them to a Memory: of 10,000 objects that change again and again,
// live and in snapshots of all of them.
func BenchmarkAck(b *testing.B) {
	for _, where := range []string{"live", "snapshot"} {
		for _, order := range []string{"in order", "random"} {
			b.Run(where+"/"+order, func(b *testing.B) { benchmarkAck(b, where == "live", order == "random") })
		}
	}
}

func benchmarkAck(b *testing.B, live, random bool) {
	const n, window = 10_000, 1000
	changes := make([]acks.Change, n)
	for i := range changes {
		name := fmt.Sprintf("widget-%05d", i)
		changes[i].ID = objects.ID{Namespace: "default", Name: name, UID: types.UID(name)}
	}
	versions := make([]string, 1<<16)
	for i := range versions {
		versions[i] = fmt.Sprint(1_000_000 + i)
	}
	orders := make([][]int, 16)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range orders {
		orders[i] = rnd.Perm(window)
	}
	store := newStore()
	tracker := newTracker(b, store, nil)
	session := begin(b, tracker, widgets())
	p := session.Progress("")
	p.Mark("1", false).Ack()
	delivered := 0
	deliver := func() *acks.Mark {
		delivered++
		c, version := changes[delivered%n], versions[delivered%len(versions)]
		c.ResourceVersion = version
		if !live && delivered%n == 0 {
			p.Mark(version, false).Ack() // SYNCED, and the next snapshot
		}
		p.Note(c)
		if live {
			return p.Mark(version, false)
		}
		return p.Mark("", false)
	}
	marks := make([]*acks.Mark, 0, window)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += window {
		if !random {
			for range window {
				deliver().Ack()
			}
			continue
		}
		marks = marks[:0]
		for range window {
			marks = append(marks, deliver())
		}
		for _, j := range orders[i/window%len(orders)] {
			marks[j].Ack()
		}
	}
	if err := tracker.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(delivered)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(delivered)/float64(store.count()), "events/commit")
	c, err := store.Load(context.Background(), key)
	if err != nil || len(c.Position.Objects) != min(delivered, n) {
		b.Errorf("%v, %+v: want all objects committed", err, c)
	}
}
