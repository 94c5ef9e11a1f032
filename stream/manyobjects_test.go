package stream_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
)

// manyWidgets is a server of so many small objects. It has none of them in memory.
type manyWidgets int

func (n manyWidgets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	const list, kind = `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":`,
		`"kind":"Widget","apiVersion":"example.com/v1",`
	object := func(i int) string {
		return fmt.Sprintf(`{%[1]s"metadata":{"name":"widget-%08[2]d","namespace":"team-%[3]d","uid":`+
			`"3a7c9d10-5b2e-4f61-8d43-%012[2]d","resourceVersion":"%[2]d"},"spec":{"size":1}}`, kind, i+1, i/100_000)
	}
	switch {
	case q.Get("watch") == "":
		begin, _ := strconv.Atoi(q.Get("continue"))
		limit, _ := strconv.Atoi(q.Get("limit"))
		end, more := min(begin+limit, int(n)), ""
		if end < int(n) {
			more = fmt.Sprintf(`,"continue":"%d"`, end)
		}
		fmt.Fprintf(w, `%s{"resourceVersion":"%d"%s},"items":[`, list, n, more)
		for i := begin; i < end; i++ {
			if i > begin {
				fmt.Fprint(w, ",")
			}
			fmt.Fprint(w, object(i))
		}
		fmt.Fprint(w, "]}")
		return
	case q.Get("sendInitialEvents") != "":
		for i := range int(n) {
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", object(i))
		}
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{%s"metadata":{"resourceVersion":"%d","annotations":`+
			`{"k8s.io/initial-events-end":"true"}}}}`+"\n", kind, n)
	}
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// TestSnapshotOfManyObjectsIsBounded: while it reads a snapshot, a Stream has the index, and a constant amount of
// memory. With -soak 50 the snapshot has 1,000,000 objects.
func TestSnapshotOfManyObjectsIsBounded(t *testing.T) {
	objects := 20_000 * seedtest.Soak()
	srv := httptest.NewServer(manyWidgets(objects))
	defer srv.Close()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for _, paged := range []bool{true, false} {
		c, err := stream.NewClient(&rest.Config{Host: srv.URL}, nil)
		noError(t, err)
		runtime.GC()
		metrics.Read(live)
		n, before, peak := 0, live[0].Value.Uint64(), uint64(0)
		for ev, err := range streamOf(t, c, widgets(),
			&setup{Options: stream.Options{Requests: stream.Requests{PagedLists: paged}}}).Events(t.Context()) {
			noError(t, err)
			if ev.Type == stream.Synced {
				break
			}
			if n++; n%100 == 0 {
				metrics.Read(live)
				peak = max(peak, live[0].Value.Uint64())
			}
		}
		took := int64(peak) - int64(before)
		t.Logf("paged %v: %d objects, live heap at most %.1f MiB, %d B per object", paged, n, float64(took)/(1<<20),
			took/int64(n))
		if most := int64(12<<20) + 100*int64(n); n != objects || took > most {
			t.Errorf("paged %v: %d of %d objects take %d bytes, want at most %d", paged, n, objects, took, most)
		}
	}
}
