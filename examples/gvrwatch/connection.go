package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/stream"
)

// silenceClientGo discards klog's output and the server's warnings: the user sees errors and what the Logger prints. It
// sets globals that other goroutines read, so it runs once. devserver.Start redirects klog again.
var silenceClientGo = sync.OnceFunc(func() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	flags.Set("stderrthreshold", "FATAL") // otherwise errors go to stderr as well
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
})

// newConfigFlags returns kubectl's flags for the server and the credentials.
func newConfigFlags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	flags.CacheDir = nil // nothing is cached on disk
	flags.Timeout = nil  // kubectl's --request-timeout; it would end watches
	return flags
}

// server has what the commands need of the cluster that the flags select.
type server struct {
	url       string
	config    *rest.Config // with a waitPrinter
	client    dynamic.Interface
	resolver  *discovery.Resolver
	namespace string // from the flags, else the kubeconfig, else "default"
}

func connect(flags *genericclioptions.ConfigFlags, errOut io.Writer) (*server, error) {
	loader := flags.ToRawKubeConfigLoader()
	cfg, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig can't be used: %w", err)
	}
	if raw, err := loader.RawConfig(); err == nil && *flags.APIServer == "" && cfg.Host == "http://localhost:8080" {
		// client-go's default if it finds no configuration.
		if len(raw.Clusters) == 0 {
			return nil, errors.New("no cluster configured: " +
				"name a kubeconfig with --kubeconfig or KUBECONFIG, or a server with --server")
		}
		if raw.CurrentContext == "" && *flags.Context == "" && *flags.ClusterName == "" {
			return nil, errors.New("the kubeconfig has no current-context: choose one of its contexts with --context")
		}
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig can't be used: %w", err)
	}
	announced := rest.CopyConfig(cfg)
	announced.Wrap(func(next http.RoundTripper) http.RoundTripper { return &waitPrinter{next: next, w: errOut} })
	dc, err := discovery.NewClient(announced)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig can't be used: %w", err)
	}
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig can't be used: %w", err)
	}
	return &server{
		url: cfg.Host, config: announced, client: client, resolver: discovery.NewResolver(dc, nil),
		namespace: namespace,
	}, nil
}

// explain adds to an error of discovery what the user can do about it.
func (s *server) explain(err error) error {
	var broken *url.Error
	var answered *apierrors.StatusError
	switch {
	case errors.As(err, &broken) && !errors.As(err, &answered) && !errors.Is(err, errTimeout):
		return fmt.Errorf("the server %s can't be reached: is it running, and is the kubeconfig right? %w",
			s.url, broken.Err)
	case apierrors.IsBadRequest(err) && strings.HasPrefix(s.url, "http://"):
		return fmt.Errorf("the server %s does not accept plain http: should it be https? %w", s.url, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the server %s does not accept the credentials of the kubeconfig: %w", s.url, err)
	}
	return err
}

// waitPrinter writes a line when the server sends a Retry-After, which client-go obeys without a word. It writes one
// for each path until the server answers it well.
type waitPrinter struct {
	next  http.RoundTripper
	w     io.Writer
	waits sync.Map // paths
}

func (p *waitPrinter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := p.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < http.StatusInternalServerError {
		p.waits.Delete(r.URL.Path)
		return resp, nil
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds <= 0 {
		return resp, nil
	}
	if _, printed := p.waits.LoadOrStore(r.URL.Path, true); !printed {
		printMessage(p.w, "%s: the server asks for a wait of %d s (%s)", r.URL.Path, seconds,
			strings.TrimSpace(strconv.Itoa(resp.StatusCode)+" "+http.StatusText(resp.StatusCode)))
	}
	return resp, nil
}
