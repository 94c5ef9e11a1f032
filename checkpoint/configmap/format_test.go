package configmap

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// TestFormat1 reads what was written in November 2026. The file must never change:
// every later version has to read it.
func TestFormat1(t *testing.T) {
	text, err := os.ReadFile("testdata/format-1.json")
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	srv := newServer(t)
	if _, err := srv.Create(configMapResource, o); err != nil {
		t.Fatal(err)
	}
	s := open(t, srv.Client(), "now")
	for key, want := range format1 {
		if d := cmp.Diff(want, load(t, s, key)); d != "" {
			t.Errorf("%s: %s", key, d)
		}
	}
}

// format1 is what is in the file.
var format1 = map[string]*checkpoint.Checkpoint{
	"pods": {
		Identity:  identity,
		Committed: time.Date(2026, 11, 21, 17, 30, 0, 123456789, time.UTC),
		Position: checkpoint.Position{
			ResourceVersions: map[string]string{"a": "500000123", "b": "500000456"},
			Objects: []checkpoint.Object{
				{Name: "cluster-scoped", UID: "0a1b2c3d-4e5f-4a6b-8c7d-0e1f2a3b4c5d", ResourceVersion: "1"},
				{Namespace: "a", Name: "shop-7d9c5b8f6d-x2k4j", UID: "1a1b2c3d-4e5f-4a6b-8c7d-0e1f2a3b4c5d", ResourceVersion: "500000100"},
				{Namespace: "a", Name: "shop-7d9c5b8f6d-z5p9q", UID: "2a1b2c3d-4e5f-4a6b-8c7d-0e1f2a3b4c5d", ResourceVersion: "499999999", Hidden: true},
				{Namespace: "b", Name: "odd", UID: "not a UUID", ResourceVersion: "opaque:1"},
				{Namespace: "b", Name: "odd-\xff", UID: "", ResourceVersion: "18446744073709551615"},
				{Namespace: "a", Name: "cart", UID: "3a1b2c3d-4e5f-4a6b-8c7d-0e1f2a3b4c5d", ResourceVersion: "500000120", Unacked: true},
				{Namespace: "a", Name: "cart", UID: "4a1b2c3d-4e5f-4a6b-8c7d-0e1f2a3b4c5d", ResourceVersion: "500000121", Unacked: true},
			},
		},
	},
	"empty": {
		Identity:  checkpoint.Identity{Cluster: checkpoint.Cluster{Address: "https://10.0.0.1 abc"}, Resource: "nodes"},
		Committed: time.Date(2026, 11, 21, 17, 30, 0, 0, time.UTC),
		Position:  checkpoint.Position{ResourceVersions: map[string]string{}, Partial: true, Unclean: true},
	},
	"left.out": {
		Identity:  checkpoint.Identity{Cluster: checkpoint.Cluster{UID: "c1"}, Resource: "events", Objects: true},
		Committed: time.Date(2026, 11, 21, 17, 30, 0, 0, time.UTC),
		Position:  checkpoint.Position{ResourceVersions: map[string]string{"": "7"}, Partial: true},
	},
}

// TestFake: programs are tested on client-go's fake, which knows no versions.
func TestFake(t *testing.T) {
	client := fake.NewSimpleDynamicClient(runtime.NewScheme())
	want := checkpoint.NewMemory()
	for _, version := range []string{"5", "6"} {
		s := open(t, client, "a")
		for _, d := range []checkpoint.Delta{delta("k", version, version, "x"), delta("l", version, version)} {
			commit(t, s, d)
			if err := want.Commit(t.Context(), []checkpoint.Delta{d}); err != nil {
				t.Fatal(err)
			}
		}
		sameAs(t, want, s, "k")
		sameAs(t, want, open(t, client, "b"), "k")
		sameAs(t, want, open(t, client, "b"), "l")
	}
	s := open(t, client, "a")
	if err := client.Resource(configMaps).Namespace("ns").Delete(t.Context(), "cp", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	fencedBy(t, s.Commit(t.Context(), []checkpoint.Delta{delta("k", "7")}), "")
}
