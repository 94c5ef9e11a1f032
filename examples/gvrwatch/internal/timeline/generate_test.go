package timeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
)

var three = time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)

// many returns an hour with a number of objects and events, always the same: as of a cluster in which something goes
// on. Every eighth object existed before, every fifth is deleted and created again.
func many(objects, events int) Page {
	random := rand.New(rand.NewPCG(47, 47))
	p := Page{Title: "night.rec", Cluster: "https://127.0.0.1:6443", Selection: "pods, robots.demo.example.com",
		From: three, To: three.Add(time.Hour)}
	for i := range objects {
		o := Object{Type: "robots.demo.example.com", Namespace: fmt.Sprintf("team-%d", i%7),
			Name: fmt.Sprintf("robot-%05d", i)}
		if i%3 == 0 {
			o.Type = "pods"
		}
		n := events / objects
		times := make([]time.Duration, n)
		for j := range times {
			times[j] = time.Duration(random.Int64N(int64(time.Hour)))
		}
		slices.Sort(times)
		for j := range n {
			m := Mark{Time: three.Add(times[j]), Kind: Changed, By: []string{"kubelet"}, Fields: []changes.Field{
				{Path: "spec.battery", Old: fmt.Sprint(100 - j), New: fmt.Sprint(99 - j)},
				{Path: "status.lastSeen", Old: fmt.Sprint("2026-11-27T03:00:", random.IntN(60)),
					New: fmt.Sprint("2026-11-27T03:01:", random.IntN(60), ".", random.IntN(1_000_000))},
			}}
			switch {
			case j == 0 && i%8 == 0:
				m.Kind, m.Time, m.Fields = Existed, three, nil
			case j == 0, i%5 == 0 && j == n/2+1:
				m.Kind, m.Fields = Created, nil
			case i%5 == 0 && j == n/2:
				m.Kind, m.Fields = Deleted, nil
			}
			o.Marks = append(o.Marks, m)
		}
		p.Objects = append(p.Objects, o)
	}
	p.Gaps = []Gap{
		{From: three.Add(20 * time.Minute), To: three.Add(24 * time.Minute), Reason: "nobody recorded"},
		{From: three.Add(41 * time.Minute), To: three.Add(42 * time.Minute), Type: "pods",
			Reason: "the server no longer had the events (expired)"},
	}
	return p
}
