package discovery_test

import (
	"errors"
	"testing"
	"testing/synctest"

	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A group whose API is down is unknown, not absent; and what is served a moment
// later is found a moment later.
func TestGroupDownAndServedLater(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			widgets := gvr.Resource{Kind: "Widget", Namespaced: true}
			widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
			gadgets := gvr.Resource{Kind: "Gadget"}
			gadgets.Group, gadgets.Version, gadgets.Resource = "other.example.com", "v1", "gadgets"
			srv := streamtest.NewServer(widgets)
			client := clientdiscovery.NewDiscoveryClientForConfigOrDie(rest.CopyConfig(srv.Config()))
			client.UseLegacyDiscovery = legacy
			r := discovery.NewResolver(client, nil)
			resolve := func(name string) error {
				ref, err := gvr.ParseRef(name)
				if err != nil {
					t.Fatal(err)
				}
				_, err = r.Resolve(t.Context(), ref)
				return err
			}
			do := func(what string) {
				if err := srv.Do(what); err != nil {
					t.Fatal(err)
				}
			}

			if err := resolve("widgets.example.com"); err != nil {
				t.Errorf("served: %v", err)
			}
			if err := resolve("gadgets.other.example.com"); !errors.As(err, new(*discovery.NotFoundError)) {
				t.Errorf("not served: got %v, want a *NotFoundError", err)
			}
			srv.Serve(gadgets)
			if err := resolve("gadgets.other.example.com"); err != nil {
				t.Errorf("served a moment later: %v", err)
			}
			do("discovery down example.com")
			r = discovery.NewResolver(client, nil) // one that has seen nothing yet
			if err := resolve("widgets.example.com"); !errors.As(err, new(*discovery.UnavailableError)) {
				t.Errorf("legacy %v: its API is down: got %v, want an *UnavailableError", legacy, err)
			}
			if err := resolve("gadgets.other.example.com"); err != nil {
				t.Errorf("another API is not down: %v", err)
			}
			do("discovery up example.com")
			if err := resolve("widgets.example.com"); err != nil {
				t.Errorf("up again: %v", err)
			}
		})
	}
}
