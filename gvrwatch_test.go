package gvrwatch_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func resource(group, plural, kind string, verbs ...string) gvr.Resource {
	r := gvr.Resource{Kind: kind, Namespaced: true, Verbs: verbs}
	r.Group, r.Version, r.Resource = group, "v1", plural
	return r
}

var (
	lamps   = resource("example.com", "lamps", "Lamp", "list", "watch")
	others  = resource("example.org", "lamps", "Lamp", "list", "watch")
	reports = resource("example.com", "reports", "Report", "get")
	chairs  = resource("example.com", "chairs", "Chair", "list", "watch")
)

// untilSynced leaves the loop after SYNCED.
func untilSynced(seq iter.Seq2[stream.Event, error]) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		for ev, err := range seq {
			if !yield(ev, err) || ev.Type == stream.Synced {
				return
			}
		}
	}
}

// texts ranges over the sequence up to SYNCED and returns its events, and the error that ended it.
func texts(ctx context.Context, cfg *rest.Config, name string, opts *stream.Options) ([]string, error) {
	rec := streamtest.Record(untilSynced(gvrwatch.Watch(ctx, cfg, name, opts)), nil)
	return rec.Texts(), rec.Err
}

// TestErrorsKeepTheirTypes: the error of each step is the only value, and errors.As finds its type.
func TestErrorsKeepTheirTypes(t *testing.T) {
	errStopped := errors.New("stopped")
	stopped, cancel := context.WithCancelCause(context.Background())
	cancel(errStopped)
	background := context.Background()
	tests := []struct {
		ctx    context.Context
		name   string
		opts   *stream.Options
		script string // for the server
		want   func(error) bool
		why    string
	}{
		{background, "", nil, "", is[*gvr.ParseError], "an empty name"},
		{background, "pods/web-0", nil, "", is[*gvr.ParseError], "an object instead of a type"},
		{background, "tables", nil, "", is[*discovery.NotFoundError], "a type that is not served"},
		{background, "lamps", nil, "", is[*discovery.AmbiguousError], "a name that two groups have"},
		{background, "chairs", nil, "discovery *: refuse", is[*discovery.UnavailableError], "a server that is down"},
		{background, "reports", nil, "", is[*stream.NotWatchableError], "a type that can't be watched"},
		{background, "chairs", &stream.Options{Requests: stream.Requests{PageSize: -1}}, "", is[*stream.OptionsError],
			"an invalid option"},
		{background, "chairs", nil, "list *: 403\ninitial *: 403", is[*stream.RequestError], "no right to watch"},
		{stopped, "chairs", nil, "", func(err error) bool { return err == errStopped }, "a cancelled ctx"},
		{nil, "chairs", nil, "", is[*stream.OptionsError], "a nil ctx"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			srv := streamtest.NewServer(lamps, others, reports, chairs)
			defer srv.Close()
			if err := srv.Apply(tt.script); err != nil {
				t.Fatal(err)
			}
			values := 0
			for ev, err := range gvrwatch.Watch(tt.ctx, srv.Config(), tt.name, tt.opts) {
				if values++; !tt.want(err) {
					t.Errorf("got %v, %T: %v", ev, err, err)
				}
			}
			if values != 1 {
				t.Errorf("the sequence has %d values, want 1", values)
			}
		})
	}
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// TestAServerThatFailsLater: once the name is resolved, a loop waits for the server, for an hour if need be.
func TestAServerThatFailsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(chairs)
		defer srv.Close()
		srv.Put(chairs, "hall", "stool")
		if err := srv.Apply("list *: 503\ninitial *: 503\nprobe *: 503\nat 1h: heal"); err != nil {
			t.Fatal(err)
		}
		got, err := texts(t.Context(), srv.Config(), "chair", nil)
		if diff := cmp.Diff([]string{"ADDED hall/stool@2", "SYNCED @2"}, got); diff != "" || err != nil {
			t.Errorf("error %v; (-want +got):\n%s", err, diff)
		}
	})
}

// TestEachLoopBeginsAgain: the name is resolved in each loop, and the second one may find another version.
func TestEachLoopBeginsAgain(t *testing.T) {
	srv := streamtest.NewServer(chairs)
	defer srv.Close()
	seq := gvrwatch.Watch(t.Context(), srv.Config(), "chairs", nil)
	if n := len(srv.Requests()); n != 0 {
		t.Errorf("%d requests before the first loop", n)
	}
	for _, name := range []string{"first", "second"} {
		srv.Put(chairs, "hall", name)
		rec := streamtest.Record(untilSynced(seq), nil)
		if err := streamtest.Check(srv.History(chairs, nil), rec.Events, nil); err != nil || rec.Err != nil {
			t.Errorf("%s loop: %v, %v", name, rec.Err, err)
		}
		if last := len(rec.Events) - 2; rec.Events[last].NamespacedName().Name != name {
			t.Errorf("%s loop: %q", name, rec.Texts())
		}
	}
	srv.Unserve(chairs)
	if rec := streamtest.Record(untilSynced(seq), nil); !is[*discovery.NotFoundError](rec.Err) {
		t.Errorf("a loop after the type was removed: %v", rec.Err)
	}
}

// TestLoopsMayRunAtOnce: a loop within a loop has a Stream of its own.
func TestLoopsMayRunAtOnce(t *testing.T) {
	srv := streamtest.NewServer(chairs)
	defer srv.Close()
	srv.Put(chairs, "hall", "stool")
	seq := gvrwatch.Watch(t.Context(), srv.Config(), "chairs", nil)
	for outer, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		for inner, err := range seq {
			if err != nil || inner.String() != outer.String() {
				t.Errorf("the inner loop got %v, %v, the outer one %v", inner, err, outer)
			}
			break
		}
		break
	}
}

// TestOptionsAreCopied: changes of the caller's options after the call have no effect.
func TestOptionsAreCopied(t *testing.T) {
	events := resource("events.k8s.io", "events", "Event", "list", "watch")
	srv := streamtest.NewServer(events)
	defer srv.Close()
	srv.Put(events, "hall", "fell", "regarding.name=stool")
	srv.Put(events, "hall", "broke", "regarding.name=bench")
	srv.Put(events, "shop", "fell", "regarding.name=stool")
	opts := &stream.Options{
		Namespaces: []string{"hall"}, FieldSelector: "regarding.name=stool",
	}
	seq := gvrwatch.Watch(t.Context(), srv.Config(), "events", opts)
	opts.Namespaces[0], opts.FieldSelector, opts.LabelSelector = "shop", "regarding.name=bench", "!"
	rec := streamtest.Record(untilSynced(seq), nil)
	if rec.Err != nil {
		t.Fatal(rec.Err)
	}
	if diff := cmp.Diff([]string{"ADDED hall/fell@2", "SYNCED @4 in hall"}, rec.Texts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, namespace: shop}}]
clusters: [{name: here, cluster: {server: %q}}]
`

// TestNilConfig: without a configuration, that of $KUBECONFIG is used, whatever namespace it has.
func TestNilConfig(t *testing.T) {
	srv := streamtest.NewServer(chairs)
	defer srv.Close()
	srv.Put(chairs, "hall", "stool")
	network := httptest.NewServer(srv)
	defer network.Close()
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a Pod
	write := func(text string) {
		file := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("KUBECONFIG", file)
	}

	write(fmt.Sprintf(kubeconfig, network.URL))
	got, err := texts(t.Context(), nil, "chairs", nil)
	if diff := cmp.Diff([]string{"ADDED hall/stool@2", "SYNCED @2"}, got); diff != "" || err != nil {
		t.Errorf("error %v; (-want +got):\n%s", err, diff)
	}
	write("") // no cluster
	if _, err := texts(t.Context(), nil, "chairs", nil); !errors.Is(err, clientcmd.ErrEmptyConfig) {
		t.Errorf("an empty kubeconfig: %v", err)
	}
	for why, text := range map[string]string{
		"no YAML":                       "{",
		"a context that does not exist": "apiVersion: v1\nkind: Config\ncurrent-context: there\n",
	} {
		write(text)
		if got, err := texts(t.Context(), nil, "chairs", nil); err == nil || len(got) > 0 {
			t.Errorf("%s: got %q, %v", why, got, err)
		} else {
			t.Logf("%s: %v", why, err)
		}
	}
}
