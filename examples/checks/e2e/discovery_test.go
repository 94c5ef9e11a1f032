package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

// changeRecorder keeps the changes of one API group that Changes delivers.
type changeRecorder struct {
	t       *testing.T
	changes chan discovery.Change
	crds    dynamic.ResourceInterface

	mu    sync.Mutex
	codes map[string]int // number of answers, by path and status
}

// recordChanges starts a server without other CRDs and records its changes. It calls Refresh at each event of a CRD if
// refresh is set; Changes polls in any case.
func recordChanges(t *testing.T, group string, refresh bool, poll time.Duration) *changeRecorder {
	// With the watch cache a CRD that is deleted right after a change may never be removed: the server failed to list
	// its objects because "storage is (re)initializing".
	srv := startServer(t, &devserver.Options{DisableWatchCache: true})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	f := &changeRecorder{t: t, changes: make(chan discovery.Change, 100), codes: map[string]int{}}
	cfg := srv.Config()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return counter{next, f} })
	client, err := discovery.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := discovery.NewResolver(client, 0)
	f.crds = dynamic.NewForConfigOrDie(srv.Config()).Resource(crdResource)
	if refresh {
		w, err := f.crds.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer w.Stop()
			for range w.ResultChan() {
				r.Refresh()
			}
		})
	}
	synced := make(chan bool)
	wg.Go(func() {
		for c, err := range r.Changes(ctx, func() time.Duration { return poll }) {
			switch {
			case err != nil:
			case c.Type == discovery.Synced:
				close(synced)
			case c.Resource.Group == group:
				f.changes <- c
			}
		}
	})
	select {
	case <-synced:
	case <-time.After(timeout):
		t.Fatal("waiting for SYNCED: timeout")
	}
	return f
}

type counter struct {
	next http.RoundTripper
	f    *changeRecorder
}

func (c counter) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if err == nil {
		c.f.mu.Lock()
		c.f.codes[fmt.Sprint(r.URL.Path, " ", response.StatusCode)]++
		c.f.mu.Unlock()
	}
	return response, err
}

// expect waits for a change, and returns the time since a moment.
func (f *changeRecorder) expect(since time.Time, want string) time.Duration {
	f.t.Helper()
	for deadline := time.After(timeout); ; {
		select {
		case c := <-f.changes:
			if strings.HasPrefix(want, "Removed") && c.Type == discovery.Changed {
				continue // it loses its writing verbs while the server deletes its objects
			}
			if c.String() != want {
				f.t.Errorf("change %v, want %s", c, want)
			}
			return time.Since(since)
		case <-deadline:
			f.t.Fatalf("waiting for %s: timeout", want)
		}
	}
}

// update changes the CRD, and retries on conflicts.
func (f *changeRecorder) update(name string, change func(spec map[string]any)) {
	f.t.Helper()
	for {
		o, err := f.crds.Get(f.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			f.t.Fatal(err)
		}
		change(o.Object["spec"].(map[string]any))
		if _, err = f.crds.Update(f.t.Context(), o, metav1.UpdateOptions{}); err == nil {
			return
		} else if f.t.Context().Err() != nil {
			f.t.Fatal(err)
		}
	}
}

// established waits until the CRD has the condition Established.
func (f *changeRecorder) established(name string) time.Time {
	f.t.Helper()
	if !poll(f.t.Context(), timeout, func() bool {
		o, err := f.crds.Get(f.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			f.t.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			m := c.(map[string]any)
			return m["type"] == "Established" && m["status"] == "True"
		})
	}) {
		f.t.Fatalf("%s is never established", name)
	}
	return time.Now()
}

// waitForNotModified waits until the server has answered a discovery request with 304.
func (f *changeRecorder) waitForNotModified() {
	f.t.Helper()
	if !poll(f.t.Context(), timeout, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.codes["/apis 304"] > 0
	}) {
		f.t.Error("no discovery request was answered with 304")
	}
}

func TestChangesOfCRDs(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name    string
		refresh bool
		poll    time.Duration
	}{
		{"refreshed", true, time.Hour},
		{"polling", false, 1500 * time.Millisecond},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			group := unique("changes") + ".example.com"
			f := recordChanges(t, group, mode.refresh, mode.poll)
			var added, changed, removed []time.Duration
			for range 2 {
				crd := devserver.CRD{Group: group, Kind: "Thing", Namespaced: true, Versions: []string{"v1"}}
				name := "things." + group
				began := time.Now()
				if _, err := f.crds.Create(t.Context(), crd.Object(), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				established := f.established(name).Sub(began)
				added = append(added, f.expect(began, "Added things.v1."+group)-established)

				began = time.Now()
				f.update(name, func(spec map[string]any) {
					versions := spec["versions"].([]any)
					v2 := runtime.DeepCopyJSON(versions[0].(map[string]any))
					v2["name"], v2["storage"] = "v2", false
					spec["versions"] = append(versions, v2)
				})
				changed = append(changed, f.expect(began, "Changed things.v1."+group+" to things.v2."+group))

				began = time.Now()
				f.update(name, func(spec map[string]any) {
					spec["versions"].([]any)[1].(map[string]any)["served"] = false
				})
				changed = append(changed, f.expect(began, "Changed things.v2."+group+" to things.v1."+group))

				began = time.Now()
				f.update(name, func(spec map[string]any) {
					spec["names"].(map[string]any)["categories"] = []any{"all"}
				})
				changed = append(changed, f.expect(began, "Changed things.v1."+group))

				began = time.Now()
				if err := f.crds.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				removed = append(removed, f.expect(began, "Removed things.v1."+group))
			}
			if len(f.changes) > 0 {
				t.Errorf("unexpected change %v", <-f.changes)
			}
			f.waitForNotModified()
			f.mu.Lock()
			defer f.mu.Unlock()
			t.Logf("delays after Established: %v; after a change: %v; after DELETE: %v", added, changed, removed)
			t.Logf("answers: %v", f.codes)
		})
	}
}
