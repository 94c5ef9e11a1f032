package stream_test

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestHostileAnswersAreBounded: whatever a server sends, a Stream on a client of NewClient takes a bounded amount of
// memory, goes on if it can, and otherwise ends with an error that names the limit.
func TestHostileAnswersAreBounded(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // the heap is bounded as it is in a program
	plain := []string{"ADDED ns/a@2", "ADDED ns/b@3", "SYNCED @3", "MODIFIED ns/a@4", "DELETED ns/b@5"}
	paged, fours := setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}},
		setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true, PageSize: 4}}}
	tests := []struct {
		script  string
		options setup
		want    []string
		err     string // part of the error that ends the run
		why     string
	}{
		{"list 1: endless list", paged, plain, "", "a smaller page is requested"},
		{"list *: endless list\nprobe *: endless list", fours, nil, "64 MiB", "the server ignores the limit"},
		{"list 1: huge object", paged, plain, "", "another list may lack the object"},
		{"list *: huge object\nprobe *: huge object", fours, nil, "more than 16 MiB", "a page of one has it, too"},
		{"list 1: dense object", paged, plain, "", "a page of one object may be smaller"},
		{"list *: dense object\nprobe *: dense object", fours, nil, "256 MiB of memory", "as large in a page of one"},
		{"list 1-3: 403 endless", paged, plain, "", "a gateway's text: an API server's Status is short"},
		{"at 5s: close watches\nwatch 1: 410 endless", setup{}, plain, "", "the same: the version has not expired"},
		{"list *: no kind", paged, plain, "", "items without a kind have that of the list"},
		{"list 1: no name", paged, nil, "lacks its name", "nobody could delete it"},
		{"list 1: 1e400", paged, plain, "", "another list may lack it"},
		{"list 1-3: 500 endless", paged, plain, "", "a failure of the server is temporary, however long its text is"},
		{"list *: switch protocols", paged, nil, "101 Switching Protocols", "no API server does that"},
		{"list *: redirect", paged, nil, "other.invalid", "credentials stay at the server"},
		{"initial *: endless", setup{}, plain, "", "a paged list follows"},
		{"at 5s: close watches\nwatch 1 after 1 frames: endless", setup{}, plain, "", "the watch is repeated"},
		{"any *: no content type\nchange 4: dense object", setup{}, slices.Concat(plain[:3], []string{
			"GAP poison 3..4", "MODIFIED ns/a@4 inferred", "SYNCED @4"}, plain[4:]), "", "the event is skipped"},
	}
	for i := range 2 * len(tests) {
		tt, metadata := tests[i/2], i%2 == 1 // as protobuf
		if metadata {
			tt.script = strings.TrimPrefix(tt.script, "any *: no content type\n") // then it would be JSON
		}
		t.Run(fmt.Sprint(tt.script, " metadata:", metadata), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if metadata {
					tt.options.Objects = stream.Metadata
				}
				srv := streamtest.NewServer(widgets()).AllFaults(friend.Access{})
				srv.Put(widgets(), "ns", "a")
				srv.Put(widgets(), "ns", "b")
				noError(t, srv.Apply(tt.script))
				rec := watchOn(t, srv, clientOf(t, srv, "NewClient"), tt.options, func() {
					time.Sleep(10 * time.Second)
					srv.Put(widgets(), "ns", "a", "spec.changed=true")
					time.Sleep(10 * time.Second)
					_, _ = srv.Delete(widgets(), "ns", "b")
					time.Sleep(5 * time.Minute)
				})
				if diff := cmp.Diff(tt.want, rec.Texts()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
				if tt.err == "" && !errors.Is(rec.Err, errTimeUp) ||
					tt.err != "" && !strings.Contains(fmt.Sprint(rec.Err), tt.err) {
					t.Errorf("%s: the run ended with %v, want %q", tt.why, rec.Err, tt.err)
				}
			})
		})
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapSys > 2<<30 {
		t.Errorf("the heap had up to %d MiB", m.HeapSys>>20)
	}
}

// A page that is too large is requested again with a quarter of the objects. Later pages grow again, but not to a size
// that was refused in the same snapshot.
func TestLargePagesAreReadInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets()).AllFaults(friend.Access{})
		const objects = 200
		for i := range objects {
			srv.Put(widgets(), "ns", fmt.Sprintf("w%03d", i))
		}
		noError(t, srv.Apply("list 1-2: endless list\npage 2: endless list"))
		rec := watchOn(t, srv, clientOf(t, srv, "NewClient"),
			setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}}, func() {
				time.Sleep(time.Minute)
			})
		var limits []int64
		for _, r := range srv.Requests() {
			if r.Verb == "list" {
				limits = append(limits, r.Limit)
			}
		}
		if diff := cmp.Diff([]int64{500, 125, 31, 62, 124, 31, 62, 62}, limits); diff != "" {
			t.Errorf("pages of (-want +got):\n%s", diff)
		}
		if len(rec.Events) != objects+1 {
			t.Errorf("%d events, want %d", len(rec.Events), objects+1)
		}
		noError(t, srv.CheckScript())
	})
}

// With a checkpoint, objects are read ahead, so that one commit writes many of them. Their size is bounded, too.
func TestObjectsReadAheadAreBoundedBySize(t *testing.T) {
	const objects, each = 60, 1 << 20 // bytes of memory, from 20 KB of JSON
	dense := func(i int) *unstructured.Unstructured {
		list := make([]any, each/400)
		for i := range list {
			list[i] = map[string]any{"": map[string]any{}}
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "spec": list,
			"metadata": map[string]any{"namespace": "ns", "name": fmt.Sprint("w", i)},
		}}
	}
	for _, kind := range []string{"client-go", "NewClient"} {
		for _, initial := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				put := func() {
					for i := range objects {
						_, err := srv.Create(widgets(), dense(i))
						noError(t, err)
					}
				}
				if initial {
					put()
				}
				before := live()
				o := &setup{Run: stream.Run{Checkpoint: newTracker(t, &checkpoint.Memory{}, checkpoint.Options{})}}
				for ev, err := range streamOf(t, clientOf(t, srv, kind), widgets(), o).Events(t.Context()) {
					noError(t, err)
					if ev.Type == stream.Synced {
						put()
						before = live()
					} else {
						synctest.Wait()
						if now := live(); now > before+45*each {
							t.Errorf("%s, initial=%t: %d MiB are read ahead", kind, initial, (now-before)>>20)
						}
						break
					}
				}
			})
		}
	}
}

func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
