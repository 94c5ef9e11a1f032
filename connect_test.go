package gvrwatch_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func connect(t *testing.T, srv *streamtest.Server) *gvrwatch.Connection {
	t.Helper()
	c, err := gvrwatch.Connect(srv.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConnection: all that comes from a Connection sees the same cluster, and Connect itself makes no request.
func TestConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(lamps, chairs)
		defer srv.Close()
		srv.Put(chairs, "hall", "stool")
		c := connect(t, srv)
		m, err := c.Follow(follow.Selection{Resources: []string{"*.example.com"}}, &follow.Options{UntilSynced: true})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(srv.Requests()); n != 0 {
			t.Errorf("%d requests by Connect and Follow", n)
		}
		var followed []string
		for ev, err := range m.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.HasObject() {
				followed = append(followed, mux.SourceOf(ev)+" "+ev.String())
			}
		}
		if diff := cmp.Diff([]string{"chairs.example.com ADDED hall/stool@2"}, followed); diff != "" {
			t.Errorf("followed (-want +got):\n%s", diff)
		}

		store := &checkpoint.Memory{}
		for _, want := range [][]string{
			{"ADDED hall/stool@2", "SYNCED @2"}, {"ADDED hall/bench@3 inferred", "SYNCED @3"},
		} {
			tracker, err := c.Tracker(t.Context(), store, nil)
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.Stream(t.Context(), "chair", nil)
			if err != nil {
				t.Fatal(err)
			}
			run := stream.Run{Checkpoint: tracker, Until: stream.UntilSynced}
			rec := streamtest.Record(stream.Acked(s.With(run).Events(t.Context())), nil)
			if diff := cmp.Diff(want, rec.Texts()); diff != "" || rec.Err != nil {
				t.Errorf("with a checkpoint: %v (-want +got):\n%s", rec.Err, diff)
			}
			if st := s.Status(); !st.Synced || st.State != stream.Stopped {
				t.Errorf("the status is %+v", st)
			}
			if err := tracker.Close(); err != nil {
				t.Error(err)
			}
			srv.Put(chairs, "hall", "bench")
		}
	})
}

// TestConnectionErrors: errors keep their types, and nil and zero values lead to one that names them.
func TestConnectionErrors(t *testing.T) {
	srv := streamtest.NewServer(chairs)
	defer srv.Close()
	c, background := connect(t, srv), context.Background()
	var none context.Context
	ended, cancel := context.WithCancel(background)
	cancel()
	streamError := func(c *gvrwatch.Connection, ctx context.Context, name string) error {
		_, err := c.Stream(ctx, name, nil)
		return err
	}
	trackerError := func(c *gvrwatch.Connection, ctx context.Context, s checkpoint.Store) error {
		_, err := c.Tracker(ctx, s, nil)
		return err
	}
	followError := func(c *gvrwatch.Connection, sel follow.Selection) error {
		_, err := c.Follow(sel, nil)
		return err
	}
	clusterError := func(c *gvrwatch.Connection, ctx context.Context) error { _, err := c.Cluster(ctx); return err }
	watchError := func(c *gvrwatch.Connection) (err error) {
		for _, err = range c.Watch(background, "chairs", nil) {
			break
		}
		return err
	}
	var zero gvrwatch.Connection
	var absent *gvrwatch.Connection
	tests := []struct {
		got  error
		want func(error) bool
		why  string
	}{
		{streamError(c, background, "tables"), is[*discovery.NotFoundError], "a type that is not served"},
		{streamError(c, ended, "chairs"), func(err error) bool { return err == context.Canceled },
			"a ctx that has ended"},
		{streamError(c, none, "chairs"), is[*stream.OptionsError], "no ctx"},
		{followError(c, follow.Selection{}), is[*stream.OptionsError], "a selection of nothing"},
		{trackerError(c, background, nil), func(err error) bool { return err != nil }, "no store"},
		{streamError(&zero, background, "chairs"), is[*stream.OptionsError], "a zero Connection: Stream"},
		{streamError(absent, background, "chairs"), is[*stream.OptionsError], "a nil Connection: Stream"},
		{trackerError(&zero, background, &checkpoint.Memory{}), is[*stream.OptionsError], "a zero Connection: Tracker"},
		{clusterError(absent, background), is[*stream.OptionsError], "a nil Connection: Cluster"},
		{followError(absent, follow.Selection{Resources: []string{"*"}}), is[*stream.OptionsError],
			"a nil Connection: Follow"},
		{watchError(absent), is[*stream.OptionsError], "a nil Connection: Watch"},
	}
	for _, tt := range tests {
		if !tt.want(tt.got) {
			t.Errorf("%s: got %T, %v", tt.why, tt.got, tt.got)
		}
	}
	for _, c := range []*gvrwatch.Connection{absent, &zero} {
		if c.Config() != nil || c.Client() != nil || c.Resolver() != nil {
			t.Error("a nil or zero Connection has parts")
		}
	}
	if _, err := gvrwatch.Connect(&rest.Config{Host: "://"}); err == nil {
		t.Error("a host that is no URL is accepted")
	}
}

// TestTrackerOfAGivenCluster: who knows the cluster need not have the right to ask for it.
func TestTrackerOfAGivenCluster(t *testing.T) {
	srv := streamtest.NewServer(chairs)
	defer srv.Close()
	c := connect(t, srv)
	cluster := checkpoint.Cluster{UID: "mine"}
	tracker, err := c.Tracker(t.Context(), &checkpoint.Memory{}, &checkpoint.Options{Cluster: cluster})
	if err != nil || len(srv.Requests()) > 0 {
		t.Fatalf("%v, after %d requests", err, len(srv.Requests()))
	}
	defer tracker.Close()
}

// TestConnectionCopiesTheConfig: changes of the caller's configuration have no effect, and Config returns a copy.
func TestConnectionCopiesTheConfig(t *testing.T) {
	srv := streamtest.NewServer(chairs)
	defer srv.Close()
	cfg := srv.Config()
	c, err := gvrwatch.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Host = "http://changed.invalid"
	c.Config().Host = "http://changed.invalid"
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := c.Stream(ctx, "chairs", nil); errors.Is(err, context.DeadlineExceeded) || err != nil {
		t.Errorf("got %v", err)
	}
}

// TestServerBelowAPath: a gateway or a proxy may serve API servers below paths (gimlet-io/capacitor#189,
// Shopify/krane#892). A slash at the end of the URL makes no difference, also not to the identity of the cluster, which
// a checkpoint keeps.
func TestServerBelowAPath(t *testing.T) {
	srv := streamtest.NewServer(lamps, chairs)
	defer srv.Close()
	srv.Put(chairs, "hall", "stool")
	proxy := httptest.NewServer(http.StripPrefix("/k8s/clusters/c-1", srv))
	defer proxy.Close()
	for _, tt := range []struct{ host, address, why string }{
		{proxy.URL + "/k8s/clusters/c-1", proxy.URL + "/k8s/clusters/c-1", "below a path"},
		{proxy.URL + "/k8s/clusters/c-1/", proxy.URL + "/k8s/clusters/c-1", "with a slash"},
	} {
		c, err := gvrwatch.Connect(&rest.Config{Host: tt.host})
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Follow(follow.Selection{Resources: []string{"chairs.example.com"}},
			&follow.Options{UntilSynced: true})
		if err != nil {
			t.Fatal(err)
		}
		for from, events := range map[string]iter.Seq2[stream.Event, error]{
			"Watch": c.Watch(t.Context(), "chairs", nil), "Follow": m.Events(t.Context()),
		} {
			var got []string
			for ev, err := range events {
				if err != nil {
					t.Errorf("%s, %s: %v", tt.why, from, err)
					break
				}
				if got = append(got, ev.String()); ev.Type == stream.Synced {
					break
				}
			}
			if diff := cmp.Diff([]string{"ADDED hall/stool@2", "SYNCED @2"}, got); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", tt.why, from, diff)
			}
		}
		of, err := c.Cluster(t.Context())
		if diff := cmp.Diff(checkpoint.Cluster{Address: tt.address}, of); diff != "" || err != nil {
			t.Errorf("%s: the cluster (-want +got), %v:\n%s", tt.why, err, diff)
		}
	}
}

func TestConnectTo(t *testing.T) {
	const kubeconfig = `{"apiVersion": "v1", "kind": "Config", "current-context": "here", "contexts": [
			{"name": "here", "context": {"cluster": "here"}}, 
			{"name": "there", "context": {"cluster": "there", "user": "there"}},
			{"name": "nowhere", "context": {"cluster": "none"}}],
		"clusters": [{"name": "here", "cluster": {"server": "https://here:1"}},
			{"name": "there", "cluster": {"server": "https://there:2"}}],
		"users": [{"name": "there", "user": {"tokenFile": "token"}}]}`
	dir := t.TempDir()
	full, empty := filepath.Join(dir, "config"), filepath.Join(dir, "empty")
	for name, text := range map[string]string{full: kubeconfig, empty: "", filepath.Join(dir, "token"): "secret"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		file, name string
		host       string // or how the error begins
		token      string
		why        string
	}{
		{full, "here", "https://here:1", "", "the current context by name"},
		{full, "there", "https://there:2", filepath.Join(dir, "token"), "another one, and a path relative to the file"},
		{full, "", "https://here:1", "", "no name: the current context"},
		{full, "x", `gvrwatch: invalid kubeContext "x": must be one of the kubeconfig, which has ` +
			`["here" "nowhere" "there"]`, "", "a context that the file lacks"},
		{full, "nowhere", `gvrwatch: the kubeconfig can't be used: it has no server for the cluster "none" of the ` +
			`context "nowhere"`, "", "a context without a cluster"},
		{empty, "here", `gvrwatch: invalid kubeContext "here": must be one of the kubeconfig, which has []`, "",
			"no contexts, perhaps in a Pod"},
	}
	for _, tt := range tests {
		t.Setenv("KUBECONFIG", tt.file)
		c, err := gvrwatch.ConnectTo(tt.name)
		if err != nil {
			if !strings.HasPrefix(err.Error(), tt.host) {
				t.Errorf("%s: the error is %v, want %s", tt.why, err, tt.host)
			}
			continue
		}
		if cfg := c.Config(); cfg.Host != tt.host || cfg.BearerTokenFile != tt.token {
			t.Errorf("%s: the server is %q with the token in %q, want %q with %q", tt.why, cfg.Host,
				cfg.BearerTokenFile, tt.host, tt.token)
		}
	}
}
