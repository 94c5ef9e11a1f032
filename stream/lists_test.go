package stream_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// At most two Streams read their snapshots at a time, and a request without an answer delays no other Stream.
func TestListsLimitsConcurrentSnapshots(t *testing.T) {
	tests := []struct {
		name   string
		paged  bool
		script string
		most   time.Duration // until 16 Streams are synced
		why    string
	}{
		{"pages", true, "page *: slow 1s\nlist *: slow 1s\n", 30 * time.Second,
			"two Streams at a time each read three pages of one second"},
		{"streamed", false, "initial *: slow 100ms\n", 10 * time.Second,
			"each Stream reads ten frames of a tenth of a second"},
		{"four lists hang", true, "list 1-4: hang\n", 10 * time.Second,
			"the other Streams do not wait for four lists that hang"},
		{"four streamed lists hang", false, "initial 1-4: half-open\nlist 1-4: hang\n", 10 * time.Second,
			"the other Streams do not wait for four streamed lists that hang"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				for i := range 10 {
					srv.Put(widgets(), "one", fmt.Sprint(i))
				}
				noError(t, srv.Apply(tt.script))
				t.Cleanup(func() { noError(t, srv.CheckScript()) })
				lists := host.NewLists(2)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var mu sync.Mutex
				began, synced := time.Now(), []time.Duration{}
				open, most := 0, 0
				var all sync.WaitGroup
				for range 20 {
					s := streamOf(t, srv.Client(), widgets(),
						&setup{Options: stream.Options{Requests: stream.Requests{PagedLists: tt.paged, PageSize: 4}}})
					all.Go(func() {
						delivered := 0
						for ev, err := range s.Host(ctx, host.Run{Lists: lists}) {
							if err != nil {
								return
							}
							mu.Lock()
							if delivered++; delivered == 1 {
								open++
							}
							most = max(most, open)
							if delivered == 10 {
								open--
							}
							if ev.Type == stream.Synced {
								synced = append(synced, time.Since(began))
							}
							mu.Unlock()
						}
					})
				}
				time.Sleep(30 * time.Minute)
				mu.Lock()
				if len(synced) != 20 {
					t.Errorf("%d of 20 Streams are synced", len(synced))
				}
				if n := len(synced) - 5; n > 0 && synced[n] > tt.most {
					t.Errorf("%s: 16 of 20 Streams are synced after %v, want %v", tt.why, synced[n], tt.most)
				}
				if most > 2 {
					t.Errorf("%d Streams delivered their snapshots at the same time, want 2", most)
				}
				mu.Unlock()
				cancel()
				all.Wait()
			})
		})
	}
}
