package apiserver_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
)

func TestDiscovery(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		bubble(t, func(t *testing.T, srv *apiserver.Server) {
			older := widgets
			older.Version = "v1beta1"
			other := widgets
			other.Group, other.Verbs, other.StorageVersionHash = "other.io", []string{"get", "list"}, "hash"
			srv.Serve(older, namespaces, other)
			client := discovery.NewDiscoveryClientForConfigOrDie(srv.Config())
			client.UseLegacyDiscovery = legacy
			served := func() []string {
				groups, lists, err := client.ServerGroupsAndResources()
				var got []string
				if err != nil {
					got = append(got, "failed")
				}
				for _, g := range groups {
					got = append(got, g.Name+" prefers "+g.PreferredVersion.Version)
				}
				for _, l := range lists {
					for _, r := range l.APIResources {
						if len(r.Verbs) == 0 || r.Kind == "" ||
							r.Name == "widgets" && !r.Namespaced || r.Name == "globes" && r.Namespaced {
							t.Errorf("legacy %t: %+v", legacy, r)
						}
						got = append(got, l.GroupVersion+" "+r.Name)
					}
				}
				slices.Sort(got) // client-go returns them in the order of a map
				return got
			}
			all := []string{
				" prefers v1", "example.com prefers v1", "other.io prefers v1", "v1 namespaces",
				"example.com/v1 widgets", "example.com/v1 globes", "example.com/v1beta1 widgets", "other.io/v1 widgets",
			}
			expect := func(why string, want ...string) {
				t.Helper()
				slices.Sort(want)
				if diff := cmp.Diff(want, served()); diff != "" {
					t.Errorf("legacy %t, %s (-want +got):\n%s", legacy, why, diff)
				}
			}
			expect("at first", slices.Clone(all)...)
			do(t, srv, "discovery down other.io")
			prefers := "other.io prefers v1"
			if !legacy { // client-go drops versions that are stale
				prefers = "other.io prefers "
			}
			expect("with a group down", "failed", all[0], all[1], prefers, all[3], all[4], all[5], all[6])
			do(t, srv, "discovery up other.io", "globes delete crd", "widgets.other.io delete crd")
			expect("without two CRDs", all[0], all[1], all[3], all[4], all[6])
			do(t, srv, "unauthorized")
			if _, err := client.ServerGroups(); errorText(err) != "401 Unauthorized" {
				t.Errorf("legacy %t, without authorization: %v", legacy, err)
			}
			do(t, srv, "authorized")
			if v, err := client.ServerVersion(); err != nil || v.GitVersion == "" {
				t.Errorf("version %v, %v", v, err)
			}
		})
	}
}

func TestUnchangedDiscoveryIsNotModified(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		get := func(path, etag string) *http.Response {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://streamtest"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Accept", discovery.AcceptV2)
			r.Header.Set("If-None-Match", etag)
			response, err := srv.Config().Transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = response.Body.Close() })
			return response
		}
		etag := get("/apis", "").Header.Get("ETag")
		if code := get("/apis", etag).StatusCode; code != http.StatusNotModified {
			t.Errorf("unchanged: got %d", code)
		}
		if code := get("/apis", "W/"+etag).StatusCode; code != http.StatusOK {
			t.Errorf("a weak ETag: got %d", code)
		}
		do(t, srv, "globes delete crd")
		if code := get("/apis", etag).StatusCode; code != http.StatusOK {
			t.Errorf("changed: got %d", code)
		}
		for _, path := range []string{"/", "/healthz", "/api/v7", "/apis/nothing.io", "/apis/nothing.io/v1",
			"/apis/example.com/v1/widgets/a/status"} {
			r := get(path, "")
			if r.StatusCode != http.StatusNotFound || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s is %d %s, want a Status 404", path, r.StatusCode, r.Header.Get("Content-Type"))
			}
		}
	})
}
