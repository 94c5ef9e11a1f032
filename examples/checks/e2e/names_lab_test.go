//go:build lab

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/gvr"
)

// TestLabNamesBesideKubectl: every name of testdata/names.json is what kubectl get takes it for, and the library what
// the table says.
func TestLabNamesBesideKubectl(t *testing.T) {
	var table struct {
		Types []struct{ Group, Plural, Singular, Kind, Short string }
		Names []struct{ Name, Kubectl, Gvrwatch, Why string }
	}
	b, err := os.ReadFile("../../../testdata/names.json")
	if err == nil {
		err = json.Unmarshal(b, &table)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg := labConfig(t, "GVRWATCH_LAB_ADMIN")
	crds := dynamic.NewForConfigOrDie(cfg).Resource(crdResource)
	resolvers := []*discovery.Resolver{newResolver(cfg, false), newResolver(cfg, true)}
	for _, typ := range table.Types {
		crd := devserver.CRD{Group: typ.Group, Plural: typ.Plural, Kind: typ.Kind, Namespaced: true}
		if typ.Short != "" {
			crd.ShortNames = []string{typ.Short}
		}
		o := crd.Object()
		err := unstructured.SetNestedField(o.Object, typ.Singular, "spec", "names", "singular")
		if err == nil {
			_, err = crds.Create(t.Context(), o, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = crds.Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}) })
	}
	for _, typ := range table.Types {
		for _, r := range resolvers {
			resolve(t, r, typ.Plural+"."+typ.Group)
		}
	}
	cache := t.TempDir() // kubectl reads discovery once
	for _, tt := range table.Names {
		if diff := cmp.Diff(tt.Kubectl, takenByKubectl(t, cache, tt.Name)); diff != "" {
			t.Errorf("kubectl get %s: %s (-want +got):\n%s", tt.Name, tt.Why, diff)
		}
		want := tt.Gvrwatch
		if want == "" {
			want = tt.Kubectl
		}
		for i, r := range resolvers {
			if diff := cmp.Diff(want, takenBy(t, r, tt.Name)); diff != "" {
				t.Errorf("%s, legacy=%v: %s (-want +got):\n%s", tt.Name, i == 1, tt.Why, diff)
			}
		}
	}
}

// requested matches the last list that kubectl requests, in the lines of -v=6.
var requested = regexp.MustCompile(`GET https://[^/]+/(?:api|apis/([^/]+))/([^/?]+)/([^/?]+)\?limit=500`)

// takenByKubectl returns the resource whose objects kubectl get lists for a name, or "none".
func takenByKubectl(t *testing.T, cache, name string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "kubectl", "--kubeconfig", os.Getenv("GVRWATCH_LAB_ADMIN"),
		"--cache-dir", cache, "get", name, "-A", "-v=6")
	out, err := c.CombinedOutput()
	if got := requested.FindStringSubmatch(strings.ReplaceAll(string(out), `"`, "")); got != nil {
		return strings.TrimSuffix(got[3]+"."+got[2]+"."+got[1], ".")
	}
	if !strings.Contains(string(out), "the server doesn't have a resource type") {
		t.Errorf("kubectl get %s: %v: %s", name, err, out)
	}
	return "none"
}

// takenBy returns what a name means, in the words of the table.
func takenBy(t *testing.T, r *discovery.Resolver, name string) string {
	ref, err := gvr.ParseRef(name)
	if err != nil {
		return "invalid"
	}
	got, err := r.Resolve(t.Context(), ref)
	var notFound *discovery.NotFoundError
	var ambiguous *discovery.AmbiguousError
	switch {
	case errors.As(err, &notFound):
		return "none"
	case errors.As(err, &ambiguous):
		return "ambiguous"
	case err != nil:
		return err.Error()
	}
	return got.String()
}
