package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// client watches the world and records what it reports.
type client interface {
	// subject says how to judge it. Its Scope has no Resources.
	subject() subject
	// run records until ctx ends.
	run(ctx context.Context, w *world, rec *recording) error
}

// requests are those of our Streams. Half-open connections last a few seconds here.
var requests = stream.Requests{IdleTimeout: 5 * time.Second}

// selector is that of the clients that select objects.
const selector = "chaos=in"

var chaosIn = k8slabels.SelectorFromSet(k8slabels.Set{"chaos": "in"})

func selects(of map[string]string) bool { return chaosIn.Matches(k8slabels.Set(of)) }

// allClients returns the clients in the order of the report.
func allClients() []client {
	return []client{
		streamClient{name: "stream", http2: true},
		streamClient{name: "stream-http1"},
		streamClient{name: "stream-stock", http2: true, stock: true},
		streamClient{
			name: "stream-paged", options: stream.Options{Requests: stream.Requests{PagedLists: true, PageSize: 5}},
		},
		streamClient{name: "stream-namespaces", http2: true, options: stream.Options{Namespaces: namespaces[:2]}},
		streamClient{name: "stream-selector", options: stream.Options{LabelSelector: selector}},
		chainClient{},
		muxClient{name: "mux-block", http2: true},
		muxClient{name: "mux-latest", latest: true},
		followClient{name: "follow", http2: true},
		followClient{name: "follow-limited", limited: true},
		killedClient{name: "killed-in-order", order: childOrder{Kind: childInOrder}},
		killedClient{name: "killed-any-order", order: childOrder{Kind: childAnyOrder}},
		killedClient{name: "killed-follow", order: childOrder{Kind: childFollow}},
		storeClient{},
		storeClient{compress: true},
		toolClient{},
		recorderClient{},
		cacheClient{},
		cacheClient{compact: true},
	}
}

// resourceOf returns the resource in its first version, as discovery does.
func resourceOf(c crdInfo) gvr.Resource {
	return gvr.Resource{
		GroupVersionResource: c.GVR, Kind: c.Kind, Namespaced: c.Namespaced, Verbs: []string{"list", "watch"},
	}
}

// each calls f for each of the resources at the same time.
func each(crds []crdInfo, f func(crdInfo) error) error {
	errs := make([]error, len(crds))
	var all sync.WaitGroup
	for i, c := range crds {
		all.Go(func() { errs[i] = f(c) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// newReport returns the report of an event.
func newReport(run int, ev stream.Event) report {
	r := report{
		At: time.Now(), Run: run, Kind: Kind(ev.Type), Resource: ev.Resource.Resource + "." + ev.Resource.Group,
		Namespace: ev.Namespace, Worker: ev.Namespace, ResourceVersion: ev.ResourceVersion, Inferred: ev.Inferred,
	}
	if o := ev.Object; o != nil {
		r.Namespace, r.Name, r.UID = o.GetNamespace(), o.GetName(), o.GetUID()
	}
	if ev.Gap != nil {
		r.Reason, r.From, r.HistoryLost = string(ev.Gap.Reason), ev.Gap.From, ev.Gap.HistoryLost
	}
	return r
}

// reportsOf returns the report of an event that a Stream has just delivered. The SYNCED of several namespaces becomes
// one for each, with its version.
func reportsOf(run int, ev stream.Event, s *stream.Stream) []report {
	r := newReport(run, ev)
	r.Acked = true
	if ev.Type != stream.Synced || ev.ResourceVersion != "" {
		return []report{r}
	}
	var all []report
	for _, n := range s.Status().Namespaces {
		one := r
		one.Namespace, one.Worker, one.ResourceVersion = n.Namespace, n.Namespace, n.ResourceVersion
		all = append(all, one)
	}
	return all
}

// withFreshToken returns a configuration that reads the token for each request. Client-go reads it once a minute, which
// is fine where an old token is valid for some time.
func withFreshToken(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	path := cfg.BearerTokenFile
	cfg.BearerTokenFile = ""
	cfg.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return freshToken{rt, path} }
	return cfg
}

type freshToken struct {
	http.RoundTripper
	path string
}

func (t freshToken) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := os.ReadFile(t.path)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return t.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper is for client-go, which closes idle connections.
func (t freshToken) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// newDynamicClient returns a client of NewClient, or that of client-go.
func newDynamicClient(cfg *rest.Config, stock bool) (dynamic.Interface, error) {
	cfg = withFreshToken(cfg)
	if stock {
		return dynamic.NewForConfig(cfg)
	}
	return stream.NewClient(cfg, nil)
}

// selectClients returns the clients with these names, those at these paths and, unless folder is empty, those in a
// folder. Without any of these it returns all that are built in.
func selectClients(names []string, folder string) (chosen []client, err error) {
	all := allClients()
	if folder != "" {
		if chosen, err = programsIn(folder); err != nil {
			return nil, err
		}
	} else if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(c client) bool { return c.subject().Name == name })
		switch {
		case strings.ContainsRune(name, filepath.Separator):
			p, err := newProgram(name)
			if err != nil {
				return nil, err
			}
			chosen = append(chosen, p)
		case i >= 0:
			chosen = append(chosen, all[i])
		case name == "all":
			chosen = append(chosen, all...)
		default:
			return nil, fmt.Errorf("invalid client %q: must be the path of a program, all, or one of %s",
				name, clientNames())
		}
	}
	seen := map[string]bool{}
	for _, c := range chosen {
		if name := c.subject().Name; seen[name] {
			return nil, fmt.Errorf("invalid clients: %s is there twice", name)
		} else {
			seen[name] = true
		}
	}
	return chosen, nil
}

func clientNames() (names []string) {
	for _, c := range allClients() {
		names = append(names, c.subject().Name)
	}
	return names
}
