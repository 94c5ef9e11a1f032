package mux_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// No more sources read their snapshots at once than Options.ConcurrentSnapshots says.
func TestConcurrentSnapshotsAreLimited(t *testing.T) {
	for _, most := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets())
			if err := srv.Apply("list *: slow 1s"); err != nil {
				t.Fatal(err)
			}
			m := newMux(t, &mux.Options{ConcurrentSnapshots: most})
			for i := range 5 {
				s := newStream(t, srv, widgets(), &stream.Options{Requests: stream.Requests{PagedLists: true}})
				add(t, m, s, &mux.SourceOptions{Key: fmt.Sprint(i)})
			}
			for _, err := range m.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if m.Status().AllSynced {
					break
				}
			}
			atOnce := map[string]int{}
			for _, r := range srv.Requests() {
				if r.Verb == "list" && !r.IsProbe() {
					atOnce[r.At.String()]++
				}
			}
			for at, n := range atOnce {
				if n > most {
					t.Errorf("%d lists began at %s, want at most %d", n, at, most)
				}
			}
			if len(atOnce) < 5/most {
				t.Errorf("all lists began at %d moments, want at least %d", len(atOnce), 5/most)
			}
		})
	}
}
