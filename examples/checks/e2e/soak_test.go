package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// endlessVariable makes the test binary run as an endless server. Its value is "1".
const endlessVariable = "GVRWATCH_E2E_ENDLESS"

const (
	endlessRate    = 1000 // events per second
	endlessObjects = 500
	endlessStart   = 10_000 // resourceVersion at the beginning
)

// endless is an API server of one resource whose history is computed, so that it needs no memory: event k is at
// resourceVersion k, and concerns object k modulo endlessObjects. Of ten events of an object one deletes it, the next
// one creates it again with another uid, and the others change it.
type endless struct{ began time.Time }

// serveEndless prints the address and serves until the process is killed.
func serveEndless() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, endless{time.Now()})
}

func (e endless) version() int { return endlessStart + int(time.Since(e.began).Seconds()*endlessRate) }

// event returns the type of event k and its object.
func (endless) event(k int) (kind, object string) {
	i, turn := k%endlessObjects, k/endlessObjects
	switch kind = "MODIFIED"; turn % 10 {
	case 8:
		kind = "DELETED"
	case 9:
		kind = "ADDED"
	}
	return kind, fmt.Sprintf(`{"apiVersion":"e2e.example.com/v1","kind":"Widget","metadata":{"name":"w-%d",`+
		`"namespace":"ns-%d","uid":"%d-%d","resourceVersion":"%d","labels":{"turn":"%d"}},"spec":{"text":"%s"}}`,
		i, i%5, i, (turn+1)/10, k, turn, strings.Repeat("x", 500))
}

func (e endless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	if q.Get("watch") == "" {
		e.list(w, q.Get("limit") == "1")
		return
	}
	next, err := strconv.Atoi(q.Get("resourceVersion"))
	if err != nil || q.Get("sendInitialEvents") != "" {
		http.Error(w, "use a list", http.StatusUnprocessableEntity)
		return
	}
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	flusher := w.(http.Flusher)
	flusher.Flush()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
		for now := e.version(); next < now; {
			next++
			kind, object := e.event(next)
			fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", kind, object)
		}
		flusher.Flush()
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
	}
}

func (e endless) list(w http.ResponseWriter, one bool) {
	version := e.version()
	var items []string
	for k := version - endlessObjects + 1; k <= version; k++ {
		if kind, object := e.event(k); kind != "DELETED" && (!one || len(items) == 0) {
			items = append(items, object)
		}
	}
	fmt.Fprintf(w, `{"kind":"WidgetList","apiVersion":"e2e.example.com/v1","metadata":{"resourceVersion":"%d"},`+
		`"items":[%s]}`, version, strings.Join(items, ","))
}

func startEndless(t *testing.T) *rest.Config {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), endlessVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var address string
	if _, err := fmt.Fscan(out, &address); err != nil {
		t.Fatal(err)
	}
	return &rest.Config{Host: "http://" + address}
}

// TestHeapStaysFlat watches 1,000 events per second, with a Stream whose checkpoint is a file, a Mux and a Mux with
// Latest. Nothing is lost, and neither the heap nor the number of goroutines grows.
//
//	go test ./examples/checks/e2e -run TestHeapStaysFlat -soak 180 -timeout 1h -v    half an hour
func TestHeapStaysFlat(t *testing.T) {
	length := 10 * time.Second * time.Duration(seedtest.Soak())
	cfg := startEndless(t)
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	r.Group, r.Version, r.Resource = "e2e.example.com", "v1", "widgets"
	store, err := file.Open(filepath.Join(t.TempDir(), "positions.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "endless"}})
	if err != nil {
		t.Fatal(err)
	}
	defer tracker.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var events atomic.Int64
	watch := func(m *mux.Mux, err error, complete bool) {
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			last := 0
			for ev, err := range m.Events(ctx) {
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				version, _ := strconv.Atoi(ev.ResourceVersion)
				switch {
				case ev.Type == stream.Gap:
					t.Errorf("GAP %s", ev.Gap.Reason)
				case ev.Type == stream.Synced:
					last = version
				case last > 0:
					if complete && version != last+1 {
						t.Errorf("version %d follows %d", version, last)
					}
					last = version
					events.Add(1)
				}
				ev.Ack()
			}
		})
	}
	lasting := func(lifetime time.Duration) *stream.Stream {
		return newStream(t, client, r, &stream.Options{Requests: stream.Requests{WatchLifetime: lifetime}})
	}
	m, err := mux.New(nil, lasting(7*time.Second).With(stream.Run{Checkpoint: tracker}))
	watch(m, err, true)
	m, err = mux.New(nil, lasting(5*time.Second))
	watch(m, err, true)
	m, err = mux.New(&mux.Options{Overflow: mux.Latest}, newStream(t, client, r, nil))
	watch(m, err, false)

	var heaps, goroutines []int
	samples := time.NewTicker(length / 20)
	defer samples.Stop()
	for range 20 {
		<-samples.C
		heaps, goroutines = append(heaps, int(heap()>>10)), append(goroutines, runtime.NumGoroutine())
	}
	t.Logf("%d events in %v; heap in KiB: %v; goroutines: %v", events.Load(), length, heaps, goroutines)
	if least := int64(length.Seconds()*endlessRate) * 2; events.Load() < least*8/10 {
		t.Errorf("%d events in %v, want %d", events.Load(), length, least)
	}
	half := len(heaps) / 2
	if early, late := slices.Max(heaps[2:half]), slices.Max(heaps[half:]); late > early*5/4+1024 {
		t.Errorf("the heap grew from %d to %d KiB", early, late)
	}
	if early, late := slices.Max(goroutines[2:half]), slices.Max(goroutines[half:]); late > early+5 {
		t.Errorf("the goroutines grew from %d to %d", early, late)
	}
}
