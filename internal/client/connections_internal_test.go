package client

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

type roundTripper struct{ closedIdle int }

func (r *roundTripper) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, http.ErrServerClosed
}

func (r *roundTripper) CloseIdleConnections() { r.closedIdle++ }

// Watches that fall silent at different times but share a connection cause one new connection, not one each.
func TestOnlyTheCurrentConnectionsAreLeft(t *testing.T) {
	base := &roundTripper{}
	cfg := &rest.Config{Host: "http://server.test", Transport: base}
	cs, err := newConnections(cfg)
	if err != nil {
		t.Fatal(err)
	}
	first := cs.current.Load()
	cs.leave(nil)
	if cs.current.Load() != first || base.closedIdle != 0 {
		t.Error("a request that was never sent left the connections")
	}
	cs.leave(first)
	second := cs.current.Load()
	if second == first || base.closedIdle != 1 {
		t.Errorf("not left; idle connections were closed %d times", base.closedIdle)
	}
	cs.leave(first)
	if cs.current.Load() != second || base.closedIdle != 2 {
		t.Error("another watch of the old connections left the new ones, or did not close the old ones")
	}
	cs.config.BearerToken, cs.config.Username = "contradict", "each other"
	cs.leave(second)
	if cs.current.Load() != second || base.closedIdle != 3 {
		t.Error("connections that can't be replaced must be kept")
	}
	if cfg.Proxy != nil {
		t.Error("the caller's config was changed")
	}
}

// usedConnections are never idle.
type usedConnections struct{ http.RoundTripper }

// Without a Dial, client-go caches the transport of a config: leave must not get the same one again.
func TestLeftConnectionsAreReplaced(t *testing.T) {
	const address = "Test-Address"
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(address, r.RemoteAddr)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	cfg := &rest.Config{Host: srv.URL}
	cfg.Insecure = true
	cs, err := newConnections(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: cs}
	get := func() string {
		t.Helper()
		resp, err := client.Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.Header.Get(address)
	}
	first := cs.current.Load()
	first.RoundTripper = usedConnections{first.RoundTripper}
	before, again := get(), get()
	cs.leave(first)
	if after := get(); before != again || after == before {
		t.Errorf("got %s, %s and, after leave, %s: want another connection only then", before, again, after)
	}
}
