package discovery_test

import (
	"strings"
	"testing"

	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
)

func TestNilAndZeroValues(t *testing.T) {
	_, err := discovery.NewClient(nil)
	if err == nil || !strings.Contains(err.Error(), "invalid cfg: must not be nil") {
		t.Errorf("NewClient(nil): %v", err)
	}
	for why, r := range map[string]*discovery.Resolver{
		"a zero Resolver":  {},
		"a nil Resolver":   nil,
		"NewResolver(nil)": discovery.NewResolver(nil, 0),
		"a nil pointer":    discovery.NewResolver((*clientdiscovery.DiscoveryClient)(nil), 0),
	} {
		r.Refresh()
		_, resolving := r.Resolve(t.Context(), gvr.Ref{Name: "pods"})
		_, listing := r.Watchables(t.Context())
		errs := []error{resolving, listing}
		for c, err := range r.Changes(t.Context(), nil) {
			if errs = append(errs, err); c.Type != "" {
				t.Errorf("%s: Changes yielded %v", why, c)
			}
		}
		for _, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "invalid Resolver: must be made") || len(errs) != 3 {
				t.Errorf("%s: %v, want three errors that name the client", why, errs)
			}
		}
	}
	_, _ = discovery.Change{}.String(), (&discovery.NotFoundError{}).Error()
	_, _ = (&discovery.AmbiguousError{}).Error(), (&discovery.UnavailableError{}).Error()
}
