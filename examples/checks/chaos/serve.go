package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

// serveVariable makes this program run as an API server that can be killed. Its value is a serveOrder in JSON.
const serveVariable = "GVRWATCH_CHAOS_SERVE"

type serveOrder struct {
	Dir        string // of the token and the certificate
	Port       int
	Etcd       string // socket
	WatchCache bool
	Rights     rights
}

// served is the first line that the API server prints.
type served struct {
	Port           int
	Admin, Limited string // bearer tokens
}

// rights says what the limited user may do with custom resources. It may always read CRDs.
type rights struct {
	Cluster    bool
	Namespaces []string
	NoWatch    bool // may list, but not watch
}

func init() {
	if order := os.Getenv(serveVariable); order != "" {
		if err := serve(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// serve runs until it receives SIGTERM or its standard input ends, which happens when the harness is killed. Each line
// of the input has new rights in JSON, and is answered with "ok".
func serve(order string) error {
	var o serveOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGINT) // of the terminal, meant for the harness
	allowed := &allowance{rights: o.Rights}
	s, err := devserver.Start(ctx, &devserver.Options{
		Dir: o.Dir, Port: o.Port, Etcd: o.Etcd, DisableWatchCache: !o.WatchCache,
		Allow: allowed.allow, LogTo: os.Stderr,
	})
	if err != nil {
		return err
	}
	go func() {
		defer stop()
		orders := json.NewDecoder(os.Stdin)
		for {
			var r rights
			if err := orders.Decode(&r); err != nil {
				return
			}
			allowed.set(r)
			fmt.Println(`"ok"`)
		}
	}()
	first := served{Port: s.Port(), Admin: s.Config().BearerToken, Limited: s.LimitedConfig().BearerToken}
	if err := json.NewEncoder(os.Stdout).Encode(first); err != nil {
		return err
	}
	<-ctx.Done()
	return s.Stop()
}

// allowance decides what the limited user may do.
type allowance struct {
	mu     sync.Mutex
	rights rights
}

func (l *allowance) set(r rights) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rights = r
}

func (l *allowance) allow(a authorizer.Attributes) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !a.IsResourceRequest(), a.GetResource() == "customresourcedefinitions":
		return true
	case l.rights.NoWatch && a.GetVerb() == "watch":
		return false
	case a.GetNamespace() == "":
		return l.rights.Cluster
	}
	return l.rights.Cluster || slices.Contains(l.rights.Namespaces, a.GetNamespace())
}
