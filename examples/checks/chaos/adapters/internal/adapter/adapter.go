// Package adapter is what the adapters in Go share: what the judge gives a program, and the lines that it reads.
// docs/judge.md describes both. It imports what each client of client-go has anyway, because memory is compared.
package adapter

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Client is what an adapter says of itself.
type Client struct {
	Name   string
	Module string // path of the Go module whose version is that of the client
	Strict bool   // the claim
}

// Judge is what the judge gives a program: a server, what to watch there, and who reads the lines.
type Judge struct {
	// Config has no client-side rate limit, and reads the token for each request.
	Config    *rest.Config
	Resources []schema.GroupVersionResource
	*Lines    // its methods write what the judge reads
}

// Main calls run with the Judge of the environment and a context that SIGTERM and Ctrl-C end. An error that run returns
// before that is printed, and makes the process exit with status 1.
func Main(c Client, run func(context.Context, *Judge) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	j, err := newJudge(os.Getenv, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "adapter:", err)
		os.Exit(2)
	}
	info, _ := debug.ReadBuildInfo()
	j.client(c, versionOf(info, c.Module))
	if err := run(ctx, j); err != nil && ctx.Err() == nil {
		j.Error(err)
		os.Exit(1)
	}
}

// Each calls f for each resource at the same time, until all have returned. The first error ends ctx, and is returned.
func (j *Judge) Each(ctx context.Context, f func(context.Context, schema.GroupVersionResource) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, r := range j.Resources {
		all.Go(func() error { return f(ctx, r) })
	}
	return all.Wait()
}

// newJudge returns the Judge of an environment, whose lines are written to w.
func newJudge(getenv func(string) string, w io.Writer) (*Judge, error) {
	for _, name := range []string{"JUDGE_SERVER", "JUDGE_CA", "JUDGE_TOKEN", "JUDGE_RESOURCES"} {
		if getenv(name) == "" {
			return nil, fmt.Errorf("invalid environment: must have %s, as docs/judge.md says", name)
		}
	}
	resources, err := parseResources(getenv("JUDGE_RESOURCES"))
	if err != nil {
		return nil, fmt.Errorf("JUDGE_RESOURCES: %w", err)
	}
	token := getenv("JUDGE_TOKEN")
	cfg := &rest.Config{
		Host: getenv("JUDGE_SERVER"), TLSClientConfig: rest.TLSClientConfig{CAFile: getenv("JUDGE_CA")}, QPS: -1,
		WrapTransport: func(rt http.RoundTripper) http.RoundTripper { return freshToken{rt, token} },
	}
	return &Judge{cfg, resources, NewLines(w)}, nil
}

// parseResources parses paths such as api/v1/pods and apis/apps/v1/deployments, separated by spaces.
func parseResources(paths string) (all []schema.GroupVersionResource, err error) {
	for _, p := range strings.Fields(paths) {
		parts := strings.Split(p, "/")
		switch {
		case slices.Contains(parts, ""):
			parts = nil
		case len(parts) == 3 && parts[0] == "api":
			parts[0] = ""
		case len(parts) == 4 && parts[0] == "apis":
			parts = parts[1:]
		default:
			parts = nil
		}
		if parts == nil {
			return nil, fmt.Errorf("invalid path %q: must be api/VERSION/RESOURCE or apis/GROUP/VERSION/RESOURCE", p)
		}
		all = append(all, schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
	}
	return all, nil
}

// freshToken reads the token for each request. Client-go reads it once a minute, which is fine where an old token is
// valid for some time.
type freshToken struct {
	http.RoundTripper
	file string
}

func (t freshToken) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := os.ReadFile(t.file)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return t.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper is for client-go, which closes idle connections.
func (t freshToken) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// versionOf returns the name and version of a module that the program was built from: "client-go v0.37.2". A module
// that is a folder has the version "(devel)". info may be nil.
func versionOf(info *debug.BuildInfo, module string) string {
	version := "(unknown)"
	if info != nil {
		for _, m := range info.Deps {
			if m.Path != module {
				continue
			}
			if m.Replace != nil {
				m = m.Replace
			}
			version = cmp.Or(m.Version, "(devel)")
		}
	}
	return path.Base(module) + " " + version
}
