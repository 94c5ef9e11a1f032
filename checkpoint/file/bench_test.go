package file_test

import (
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

// objects returns n objects with the names and uids of a Deployment's Pods, at versions above a number.
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
	slices.SortFunc(all, compare)
	return all
}

// BenchmarkCommit changes random objects among 100,000. One iteration is one object.
func BenchmarkCommit(b *testing.B) {
	for _, together := range []int{1, 1000} {
		b.Run(fmt.Sprint(together, " at a time"), func(b *testing.B) {
			all := objects(many, 1_000_000)
			s := fill(b, filepath.Join(b.TempDir(), "positions.db"), all)
			defer s.Close()
			random := rand.New(rand.NewPCG(3, 4))
			version := 2_000_000
			b.ResetTimer()
			for n := b.N; n > 0; n -= together {
				d := checkpoint.Delta{Key: "pods", Identity: identity("pods")}
				for range min(n, together) {
					version++
					o := all[random.IntN(len(all))]
					o.ResourceVersion = fmt.Sprint(version)
					d.Put = append(d.Put, o)
				}
				d.ResourceVersions = map[string]string{"": fmt.Sprint(version)}
				commit(b, s, d)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkOpen opens a file of 100,000 objects, of which each was put twice, and loads them.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "positions.db")
	for range 2 {
		if err := fill(b, path, objects(many, 1_000_000)).Close(); err != nil {
			b.Fatal(err)
		}
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

// fill puts objects as a snapshot does: a thousand at a time, in the order of their names.
func fill(tb testing.TB, path string, all []checkpoint.Object) *file.Store {
	tb.Helper()
	s := open(tb, path)
	for page := range slices.Chunk(all, 1000) {
		commit(tb, s, checkpoint.Delta{Key: "pods", Identity: identity("pods"), Put: page})
	}
	return s
}
