package apiserver_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

// logOf returns the log of the widgets.
func logOf(t *testing.T, srv *apiserver.Server, of store.Selection) apiserver.Log {
	t.Helper()
	l, err := srv.Log(widgets, of)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The log equals what a watch sends, for random changes and random selectors.
func TestLogIsWhatAWatchSends(t *testing.T) {
	for seed := range seedtest.Default(50).All(t) {
		bubble(t, func(t *testing.T, srv *apiserver.Server) {
			random := rand.New(rand.NewPCG(seed, 0))
			pick := func(of ...string) string { return of[random.IntN(len(of))] }
			label, field := pick("", "app=web", "app!=web", "app"), pick("", "spec.n=1", "metadata.namespace=x")
			o := metav1.ListOptions{ResourceVersion: "1", LabelSelector: label, FieldSelector: field}
			w, err := srv.Client().Resource(widgets.GroupVersionResource).Watch(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			for range 30 {
				namespace, name, n := pick("x", "y"), pick("a", "b", "c"), "spec.n="+pick("0", "1", "2")
				switch random.IntN(6) {
				case 0:
					_, _ = srv.Delete(widgets, namespace, name)
				case 1:
					srv.Put(globes, "", name, n)
				case 2:
					synctest.Wait()
				default:
					srv.Put(widgets, namespace, name, "labels.app="+pick("web", "db"), n)
				}
			}
			var want []string
			for _, c := range logOf(t, srv, store.Selection{Labels: label, Fields: field}).Changes {
				want = append(want, eventText(watch.Event{Type: c.Type, Object: c.Object}))
			}
			if diff := cmp.Diff(want, collect(w, time.Second)); diff != "" {
				t.Errorf("seed %d (-log +watch):\n%s", seed, diff)
			}
		})
	}
}
