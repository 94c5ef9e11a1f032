package apiserver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
)

// Each case watches from version 1 a server on which a, b and c were created at 2, 3 and 4, and d at 5 after a second.
func TestWatchFaults(t *testing.T) {
	a, b, c, d := "ADDED a@2", "ADDED b@3", "ADDED c@4", "ADDED d@5"
	tests := []struct {
		script string
		why    string
		want   []string
	}{
		{"", "no fault", []string{a, b, c, d}},
		{"watch 1: 410", "an expired version, as an HTTP status", []string{"410 Expired"}},
		{"watch 1: 410 Gone", "the older reason", []string{"410 Gone"}},
		{"watch 1: 410 in stream", "an expired version, as an ERROR event", []string{"ERROR 410 Expired", "closed"}},
		{"watch 1 after 2 frames: 410 in stream", "later", []string{a, b, "ERROR 410 Expired", "closed"}},
		{"watch 1: 403", "any code, with its reason", []string{"403 Forbidden"}},
		{"watch 1: 503", "client-go does not retry without Retry-After", []string{"503 ServiceUnavailable"}},
		{"watch 1: 502 plain", "as a proxy would", []string{"502 InternalError"}},
		{"watch 1: 429 retry-after 3s", "client-go retries", []string{a, b, c, d}},
		{"watch 1: 429 in status 3s", "client-go ignores the status", []string{"429 TooManyRequests"}},
		{"watch 1: refuse", "an error of the transport",
			[]string{`Get "http://streamtest/apis/example.com/v1/widgets?resourceVersion=1&watch=true": ` +
				`dial tcp: connect: connection refused`}},
		{"watch 1: close", "200, and no frame", []string{"closed"}},
		{"watch 1 after 2 frames: close", "", []string{a, b, "closed"}},
		{"watch 1 after 500ms: close", "by time", []string{a, b, c, "closed"}},
		{"watch 1: half-open", "never a frame", nil},
		{"watch 1 after 1 frame: half-open", "silence after the first frame", []string{a}},
		{"watch 1 after 500ms: half-open", "silence after a while", []string{a, b, c}},
		{"watch 1 after 2 frames: reset", "client-go hides a reset between frames", []string{a, b, "closed"}},
		{"watch 1 after 2 frames: reset inside frame", "client-go hides that, too", []string{a, b, "closed"}},
		{"watch 1 after 1 frame: garbage", "", []string{a, "ERROR undecodable", "closed"}},
		{"watch 1 after 1 frame: unknown type", "", []string{a, "ERROR undecodable", "closed"}},
		{"watch 1 after 1 frame: no kind", "", []string{a, "ERROR undecodable", "closed"}},
		{"watch 1 after 1 frame: 1e400", "", []string{a, "ERROR undecodable", "closed"}},
		{"watch 1 after 1 frame: invalid utf-8", "", []string{a, "ERROR undecodable", "closed"}},
		{"watch 1 after 1 frame: huge object", "over client-go's limit", []string{a, "ERROR undecodable", "closed"}},
		{"watch 1 after 1 frame: no version", "", []string{a, "ADDED b@", c, d}},
		{"watch 1 after 1 frame: no name", "", []string{a, "ADDED @3", c, d}},
		{"watch 1 after 1 frame: error frame", "", []string{a, "ERROR 500 InternalError", "closed"}},
		{"watch 1 after 1 frame: error not status", "client-go makes an error of it",
			[]string{a, "ERROR unexpected object", "closed"}},
		{"watch 1 after 1 frame: frames after error", "client-go passes them on",
			[]string{a, "ERROR 500 InternalError", b, c, d}},
		{"watch 1 after 3 frames: replay 2", "the last frames again", []string{a, b, c, b, c, d}},
		{"watch 1: slow 400ms", "each frame is late", []string{a, b, c, d}},
		{"change 3: garbage", "the frame of that version", []string{a, "ERROR undecodable", "closed"}},
		{"change 4: reset inside frame", "", []string{a, b, "closed"}},
		{"change 3: 410 in stream", "", []string{a, "ERROR 410 Expired", "closed"}},
		{"watch 2: 410", "another watch", []string{a, b, c, d}},
		{"watch 2-3: 410\nwatch 1: 403", "each line counts separately", []string{"403 Forbidden"}},
		{"watch 1: 401\nwatch *: 403", "the first line counts", []string{"401 Unauthorized"}},
		{"widgets watch 1: 410", "its resource", []string{"410 Expired"}},
		{"widgets.v1.example.com watch *: 410", "its resource, in full", []string{"410 Expired"}},
		{"globes watch *: 410", "another resource", []string{a, b, c, d}},
		{"list *: 410\ninitial *: 410\nprobe *: 500", "other requests", []string{a, b, c, d}},
		{"any 1: 410", "every request", []string{"410 Expired"}},
		{"watch * in x: 410", "another namespace", []string{a, b, c, d}},
		{"at 500ms: close watches", "", []string{a, b, c, "closed"}},
		{"at 500ms: restart", "", []string{a, b, c, "closed"}},
		{"at 500ms: widgets expire", "a change of schema", []string{a, b, c, "closed"}},
		{"at 500ms: silence", "", []string{a, b, c}},
		{"at 500ms: compact", "an open watch continues", []string{a, b, c, d}},
		{"at 500ms: rewind 2", "silent until the store passes version 4 again; d is at 3", []string{a, b, c}},
		{"at 500ms: rewind 2 restart", "", []string{a, b, c, "closed"}},
		{"at 500ms: unauthorized\nat 500ms: forbid all", "an open watch continues", []string{a, b, c, d}},
	}
	for _, tc := range tests {
		t.Run(tc.script, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *apiserver.Server) {
				for _, name := range []string{"a", "b", "c"} {
					srv.Put(widgets, "x", name)
				}
				apply(t, srv, tc.script)
				later := time.AfterFunc(time.Second, func() { srv.Put(widgets, "x", "d") })
				defer later.Stop()
				if diff := cmp.Diff(tc.want, watchFor(t, srv, from("1"), 10*time.Second)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tc.why, diff)
				}
			})
		})
	}
}

func TestHangSendsNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		apply(t, srv, "any *: hang")
		ctx, cancel := timeout(t, time.Hour)
		defer cancel()
		began := time.Now()
		_, err := srv.Client().Resource(widgets.GroupVersionResource).Watch(ctx, metav1.ListOptions{})
		if waited := time.Since(began); err == nil || waited != time.Hour {
			t.Errorf("the watch returned %v after %s, want no answer", err, waited)
		}
	})
}

func TestEachLineCountsItsRequests(t *testing.T) {
	tests := []struct {
		script, why string
		want        []string // of list, probe, page, get, create and discovery, twice
	}{
		{"", "no faults", []string{"", "", "", "", "", "", "", "", "", "", "", ""}},
		{"list 2: 500", "lists only", []string{"", "", "", "", "", "", "500", "", "", "", "", ""}},
		{"probe *: 500", "both probes", []string{"", "500", "", "", "", "", "", "500", "", "", "", ""}},
		{"page 1: 500", "the first request with a continue token",
			[]string{"", "", "500", "", "", "", "", "", "", "", "", ""}},
		{"get 2: 500", "", []string{"", "", "", "", "", "", "", "", "", "500", "", ""}},
		{"write 1-2: 500", "", []string{"", "", "", "", "500", "", "", "", "", "", "500", ""}},
		{"discovery 2: 500", "", []string{"", "", "", "", "", "", "", "", "", "", "", "500"}},
		{"any 2-4: 500", "", []string{"", "500", "500", "500", "", "", "", "", "", "", "", ""}},
		{"any 9-*: 500", "", []string{"", "", "", "", "", "", "", "", "500", "500", "500", "500"}},
		{"widgets any 6: 500", "discovery has no resource",
			[]string{"", "", "", "", "", "", "500", "", "", "", "", ""}},
		{"any 1 in y: 500", "the get is in y", []string{"", "", "", "500", "", "", "", "", "", "", "", ""}},
		{"any 1: 501\nany 2: 502", "each line counts all requests",
			[]string{"501", "502", "", "", "", "", "", "", "", "", "", ""}},
		{"any 1: token circle\nany 1: 500", "the first line counts",
			[]string{"", "", "", "", "", "", "", "", "", "", "", ""}},
		{"any 1: 410 in stream", "a fault of watches only", []string{"", "", "", "", "", "", "", "", "", "", "", ""}},
		{"get 1: stale 4", "at version 2 there is no d", []string{"", "", "", "404", "", "", "", "", "", "", "", ""}},
	}
	for _, tc := range tests {
		t.Run(tc.script, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *apiserver.Server) {
				fourWidgets(srv)
				l, err := list(t, srv, "", metav1.ListOptions{Limit: 2})
				if err != nil {
					t.Fatal(err)
				}
				apply(t, srv, tc.script)
				client := srv.Client().Resource(widgets.GroupVersionResource)
				var got []string
				for range 2 {
					_, listed := client.List(t.Context(), metav1.ListOptions{})
					_, probed := client.List(t.Context(), metav1.ListOptions{Limit: 1})
					_, paged := client.List(t.Context(), metav1.ListOptions{Limit: 1, Continue: l.GetContinue()})
					_, gotten := client.Namespace("y").Get(t.Context(), "d", metav1.GetOptions{})
					_, created := client.Namespace("z").Create(t.Context(),
						&unstructured.Unstructured{Object: map[string]any{
							"apiVersion": "example.com/v1", "kind": "Widget",
							"metadata": map[string]any{"generateName": "w-"},
						}}, metav1.CreateOptions{})
					_, discovered := discovery.NewDiscoveryClientForConfigOrDie(srv.Config()).ServerVersion()
					for _, err := range []error{listed, probed, paged, gotten, created, discovered} {
						code := ""
						if err != nil {
							code, _, _ = strings.Cut(errorText(err), " ")
						}
						got = append(got, code)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tc.why, diff)
				}
			})
		})
	}
}
