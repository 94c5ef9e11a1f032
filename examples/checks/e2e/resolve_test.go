package e2e

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
)

func eachDiscovery(t *testing.T, f func(t *testing.T, r *discovery.Resolver)) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy=%v", legacy), func(t *testing.T) { f(t, newResolver(shared.Config(), legacy)) })
	}
}

func TestEverySpellingResolves(t *testing.T) {
	eachDiscovery(t, func(t *testing.T, r *discovery.Resolver) {
		for in, want := range map[string]string{
			"widgets":                          "widgets.v1.e2e.example.com",
			"widget":                           "widgets.v1.e2e.example.com",
			"wd":                               "widgets.v1.e2e.example.com",
			"Widget":                           "widgets.v1.e2e.example.com",
			"WidgetList":                       "widgets.v1.e2e.example.com",
			"WIDGETS":                          "widgets.v1.e2e.example.com",
			"widgets.e2e.example.com":          "widgets.v1.e2e.example.com",
			"e2e.example.com/widgets":          "widgets.v1.e2e.example.com",
			"widgets.v1beta1.e2e.example.com":  "widgets.v1beta1.e2e.example.com",
			"wd.v1beta1.e2e.example.com":       "widgets.v1beta1.e2e.example.com",
			"e2e.example.com/v1/Widget":        "widgets.v1.e2e.example.com",
			"e2e.example.com/trial/WidgetList": "e2e.example.com/trial/widgets",
			"globes.e2e.example.com":           "globes.v1.e2e.example.com",
			"globe.other.example.com":          "globes.v1.other.example.com",
			"crd":                              "customresourcedefinitions.v1.apiextensions.k8s.io",
			"customresourcedefinition":         "customresourcedefinitions.v1.apiextensions.k8s.io",
		} {
			if got := resolve(t, r, in); got.String() != want {
				t.Errorf("%s is %s, want %s", in, got, want)
			}
		}
	})
}

func TestResolveErrors(t *testing.T) {
	eachDiscovery(t, func(t *testing.T, r *discovery.Resolver) {
		var ambiguous *discovery.AmbiguousError
		_, err := r.Resolve(t.Context(), gvr.Ref{Name: "globes"})
		if !errors.As(err, &ambiguous) || len(ambiguous.Candidates) != 2 {
			t.Errorf("globes: got %v, want both candidates", err)
		}
		var notFound *discovery.NotFoundError
		_, err = r.Resolve(t.Context(), gvr.Ref{Name: "wigets"})
		if !errors.As(err, &notFound) || len(notFound.Similar) == 0 || notFound.Similar[0].Resource != "widgets" {
			t.Errorf("wigets: got %v, want widgets as similar", err)
		}
	})
}

func TestWatchables(t *testing.T) {
	eachDiscovery(t, func(t *testing.T, r *discovery.Resolver) {
		resources, err := r.Watchables(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, res := range resources {
			got[res.String()] = fmt.Sprintf("cluster %v, namespaced %v", res.ClusterWatch(), res.NamespacedWatch())
		}
		want := map[string]string{
			"customresourcedefinitions.v1.apiextensions.k8s.io": "cluster true, namespaced false",
			"widgets.v1.e2e.example.com":                        "cluster true, namespaced true",
			"globes.v1.e2e.example.com":                         "cluster true, namespaced false",
			"globes.v1.other.example.com":                       "cluster true, namespaced true",
		}
		for name := range got {
			if want[name] == "" {
				delete(got, name) // resources of other tests
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
