package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/gvrwatch/gvrwatch"
)

// setLogging sets what klog writes: nothing, because the user sees errors and what the Logger prints, unless -v
// requests it. Klog's settings are global, and other goroutines read them, so it runs once, before anything else.
// (devserver.Start, in tests, redirects klog again.)
func setLogging(verbosity int, w io.Writer) {
	loggingOnce.Do(func() {
		flags := flag.NewFlagSet("klog", flag.ContinueOnError)
		klog.InitFlags(flags)
		flags.Set("stderrthreshold", "FATAL") // otherwise errors go to stderr as well
		flags.Set("v", strconv.Itoa(verbosity))
		klog.LogToStderr(false)
		if verbosity == 0 {
			w = io.Discard
		}
		klog.SetOutput(w)
	})
}

var loggingOnce sync.Once

// connection has kubectl's flags for the server, the credentials and the namespaces.
type connection struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
	namespaces []string
	verbosity  int
}

func (c *connection) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "Path to the kubeconfig file to use.")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{} // it would take only one
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	names.Timeout.Description = "How long a request may take that is not a watch, such as 1s, 2m, 3h. " +
		"Zero means no limit."
	clientcmd.BindOverrideFlags(&c.overrides, f, names)
	f.StringSliceVarP(&c.namespaces, "namespace", "n", nil,
		"Namespace to watch. May be repeated, or be several separated by commas.")
	f.IntVarP(&c.verbosity, "v", "v", 0,
		"Verbosity of the log on stderr: 4 adds each request of a watch, 6 each HTTP request, 8 their headers.")
}

// loader reads the kubeconfig and applies the flags.
func (c *connection) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &c.overrides)
}

// server is the cluster that the flags select. Its Connection has a waitPrinter, for the requests that are not part of
// a watch.
type server struct {
	conn      *gvrwatch.Connection
	config    *rest.Config // without the waitPrinter
	namespace string       // of the kubeconfig, else "default"
}

func (c *connection) connect(errOut io.Writer) (*server, error) {
	setLogging(c.verbosity, errOut)
	const unusable = "the kubeconfig can't be used: %w"
	loader := c.loader()
	cfg, err := loader.ClientConfig()
	if raw, rawErr := loader.RawConfig(); rawErr == nil && len(raw.Clusters) > 0 && raw.CurrentContext == "" &&
		c.overrides.CurrentContext == "" && c.overrides.ClusterInfo.Server == "" && c.overrides.Context.Cluster == "" {
		return nil, errors.New("the kubeconfig has no current-context: choose one of its contexts with --context")
	}
	if clientcmd.IsEmptyConfig(err) {
		return nil, errNoCluster()
	}
	if err != nil {
		return nil, fmt.Errorf(unusable, err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf(unusable, err)
	}
	cfg.WarningHandler = &warningPrinter{w: errOut}
	announced := rest.CopyConfig(cfg)
	announced.Wrap(func(next http.RoundTripper) http.RoundTripper { return &waitPrinter{next: next, w: errOut} })
	cluster, err := gvrwatch.Connect(announced)
	if err != nil {
		return nil, fmt.Errorf(unusable, err)
	}
	return &server{cluster, cfg, namespace}, nil
}

// errNoCluster says which kubeconfigs were looked for. As in kubectl, only some of those of KUBECONFIG need to exist.
func errNoCluster() error {
	named := slices.DeleteFunc(filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)),
		func(name string) bool { return name == "" })
	exists := func(name string) bool {
		_, err := os.Stat(name)
		return !errors.Is(err, fs.ErrNotExist)
	}
	const otherwise = "name a kubeconfig with --kubeconfig or KUBECONFIG, or a server with --server"
	switch {
	case len(named) == 0 && !exists(clientcmd.RecommendedHomeFile):
		return fmt.Errorf("no cluster configured: %s does not exist: %s", clientcmd.RecommendedHomeFile, otherwise)
	case len(named) > 0 && !slices.ContainsFunc(named, exists):
		return fmt.Errorf("no cluster configured: KUBECONFIG=%s: no such file", joinNames(named))
	}
	return errors.New("no cluster configured: the kubeconfig has none: " + otherwise)
}

// explain adds to an error of discovery what the user can do about it.
func (s *server) explain(err error) error {
	var broken *url.Error
	var answered *apierrors.StatusError
	switch {
	case errors.As(err, &broken) && !errors.As(err, &answered) && !errors.Is(err, errTimeout):
		return fmt.Errorf("the server %s can't be reached: is it running, and is the kubeconfig right? %w",
			s.config.Host, broken.Err)
	case apierrors.IsBadRequest(err) && strings.HasPrefix(s.config.Host, "http://"):
		return fmt.Errorf("the server %s does not accept plain http: should it be https? %w", s.config.Host, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the server %s does not accept the credentials of the kubeconfig: %w", s.config.Host, err)
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
