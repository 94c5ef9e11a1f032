package streamtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var (
	widgets = gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Namespaced: true,
	}
	globes = gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "globes"},
		Kind:                 "Globe",
	}
	namespaces = gvr.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
		Kind: "Namespace"}
)

// bubble runs f in a synctest bubble, with a server of widgets and globes.
func bubble(t *testing.T, f func(t *testing.T, srv *streamtest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, streamtest.NewServer(widgets, globes)) })
}

func apply(t *testing.T, srv *streamtest.Server, script string) {
	t.Helper()
	if err := srv.Apply(script); err != nil {
		t.Fatal(err)
	}
}

// fourWidgets makes a@2 web, b@3 and c@5 (c@4 before) web in x, and d@6 in y.
func fourWidgets(srv *streamtest.Server) {
	srv.Put(widgets, "x", "a", "labels.app=web")
	srv.Put(widgets, "x", "b")
	srv.Put(widgets, "x", "c")
	srv.Put(widgets, "x", "c", "labels.app=web")
	srv.Put(widgets, "y", "d")
}

func initial() metav1.ListOptions {
	yes := true
	return metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks: true}
}

// watchFor watches the widgets for d, or until the watch ends.
func watchFor(t *testing.T, srv *streamtest.Server, o metav1.ListOptions, d time.Duration) {
	t.Helper()
	w, err := srv.Client().Resource(widgets.GroupVersionResource).Watch(t.Context(), o)
	if err != nil {
		return
	}
	defer w.Stop()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case _, ok := <-w.ResultChan():
			if !ok {
				return
			}
		case <-timer.C:
			return
		}
	}
}
