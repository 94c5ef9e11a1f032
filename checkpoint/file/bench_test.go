package file_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

const many = 100_000

// objects as Deployments make them, in a cluster whose version is above so many.
func objects(n int, version int) []checkpoint.Object {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]checkpoint.Object, 0, n)
	for i := range n {
		var id uuid.UUID
		for j := range id {
			id[j] = byte(random.Uint32())
		}
		all = append(all, checkpoint.Object{
			Namespace: fmt.Sprintf("team-%02d", i%50), Name: fmt.Sprintf("shop-%08x-%05x", random.Uint32(), i),
			UID: types.UID(id.String()), ResourceVersion: fmt.Sprint(version + i),
		})
	}
	slices.SortFunc(all, func(a, b checkpoint.Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// BenchmarkEvents acks and commits changes of random objects among 100,000, as a
// stream does. One iteration is one event.
func BenchmarkEvents(b *testing.B) {
	b.Run("as they come", func(b *testing.B) { benchmarkEvents(b, 0) })
	b.Run("waiting for a commit of each 1000", func(b *testing.B) { benchmarkEvents(b, 1000) })
}

func benchmarkEvents(b *testing.B, flushEvery int) {
	path := filepath.Join(b.TempDir(), "positions.db")
	all := objects(many, 1_000_000)
	s := fill(b, path, all)
	defer s.Close()
	tracker, session := begin(b, s)
	p := session.Progress("")
	random := rand.New(rand.NewPCG(3, 4))
	version := 2_000_000
	b.ResetTimer()
	for i := range b.N {
		version++
		o := all[random.IntN(len(all))]
		o.ResourceVersion = fmt.Sprint(version)
		p.Note(checkpoint.Change{Object: o})
		p.Mark(o.ResourceVersion, false).Ack()
		if flushEvery > 0 && i%flushEvery == flushEvery-1 {
			if err := tracker.Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := tracker.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkNew acks and commits new objects, written ahead as a stream does: those
// of a page of a snapshot together, one that a watch tells by itself.
func BenchmarkNew(b *testing.B) {
	for _, together := range []int{1, 500} {
		b.Run(fmt.Sprint(together, " at a time"), func(b *testing.B) {
			s, err := file.Open(filepath.Join(b.TempDir(), "positions.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			tracker, session := begin(b, s)
			p := session.Progress("")
			all := objects(b.N, 1_000_000)
			b.ResetTimer()
			for len(all) > 0 {
				page := all[:min(together, len(all))]
				all = all[len(page):]
				p.Ahead(context.Background(), page)
				for _, o := range page {
					p.Note(checkpoint.Change{Object: o})
					p.Mark("", false).Ack()
				}
			}
			if err := tracker.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func begin(b *testing.B, s *file.Store) (*checkpoint.Tracker, *checkpoint.Session) {
	tracker, err := checkpoint.NewTracker(s, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}})
	if err != nil {
		b.Fatal(err)
	}
	session, err := tracker.Begin(context.Background(), "pods", checkpoint.Identity{Resource: "pods", Objects: true})
	if err != nil {
		b.Fatal(err)
	}
	return tracker, session
}

// BenchmarkOpen opens a file of 100,000 objects and loads them.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "positions.db")
	if err := fill(b, path, objects(many, 1_000_000)).Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := file.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		c, err := s.Load(context.Background(), "pods")
		if err != nil || len(c.Position.Objects) != many {
			b.Fatal(len(c.Position.Objects), err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/many, "bytes/object")
}

// fill makes a file as a first snapshot does: a thousand objects at a time, in
// the order of their names.
func fill(tb testing.TB, path string, all []checkpoint.Object) *file.Store {
	tb.Helper()
	s, err := file.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	d := checkpoint.Delta{Key: "pods", Identity: checkpoint.Identity{
		Cluster: checkpoint.Cluster{UID: "test"}, Resource: "pods", Objects: true,
	}}
	for i := 0; i < len(all); i += 1000 {
		d.Put = all[i:min(i+1000, len(all))]
		if i+1000 >= len(all) {
			d.ResourceVersions = map[string]string{"": "2000000"}
		}
		if err := s.Commit(context.Background(), []checkpoint.Delta{d}); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}
