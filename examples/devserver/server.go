package devserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"sync"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
)

// Options say where a server keeps its data and how it serves. The zero value is
// a good server for a test.
type Options struct {
	// Dir is the data folder. Empty means a temporary folder that Stop removes.
	// Any other Dir is kept (and created with mode 0700 if absent): a server
	// started again with the same Dir has the same objects, bearer token and
	// serving certificate, so with the same Port older kubeconfigs stay valid.
	//
	// Writes are not synced to disk: data survives the end of the process, but
	// not the end of the machine.
	Dir string
	// Port is the port on 127.0.0.1. Zero means one chosen by the kernel.
	Port int
	// DisableWatchCache serves lists and watches from etcd directly, like
	// kube-apiserver --watch-cache=false. Only then does [Server.Compact] expire
	// older resource versions at once.
	DisableWatchCache bool
	// Allow says whether the user of [Server.LimitedConfig] may do something. It is
	// asked for each request, so a test can grant and revoke at any time; a watch that
	// is open goes on. Nil means that the user may do nothing. The administrator, of
	// [Server.Config], may do everything in any case.
	Allow func(authorizer.Attributes) bool
	// LogTo receives the log lines of the API server and etcd, and those of
	// client-go in this process, including those of other servers: the loggers are
	// global, see the package comment. Nil means silence.
	LogTo io.Writer
}

// ErrInUse is wrapped by the error of a Start whose Dir belongs to a server that
// still runs, in this or another process.
var ErrInUse = errors.New("the data folder is in use by a running server")

// Server is a running API server. All its methods can be called from several
// goroutines.
type Server struct {
	folder     *folder
	etcd       *etcdServer
	serving    *httpServer
	api        *apiextensions.CustomResourceDefinitions
	cancelRun  context.CancelFunc
	runDone    chan struct{}
	runErr     error // set before runDone is closed
	config     *rest.Config
	limited    *rest.Config
	port       int
	kubeconfig string
	removeLogs func()

	stopOnce sync.Once
	stopErr  error
}

// Start starts a server and returns once it is ready: /readyz answers ok,
// discovery lists the API of CRDs, and a CRD can be created. Nil options mean the
// zero Options. The context bounds the start alone; a server that started runs
// until [Server.Stop].
//
// If Start fails, whatever it had started is stopped again.
func Start(ctx context.Context, opts *Options) (*Server, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	s := &Server{removeLogs: logTo(o.LogTo)}
	if err := s.start(ctx, o); err != nil {
		err = fmt.Errorf("start the API server: %w", err)
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var err error
	if s.folder, err = openFolder(o.Dir); err != nil {
		return err
	}
	// The port comes first among what can be taken: etcd takes longer.
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return err
	}
	s.serving = newHTTPServer(listener)
	s.port = listener.Addr().(*net.TCPAddr).Port

	id, err := loadIdentity(s.folder.path)
	if err != nil {
		return err
	}
	s.config = id.clientConfig(s.URL())
	s.limited = rest.CopyConfig(s.config)
	s.limited.BearerToken = rand.Text()
	s.kubeconfig = filepath.Join(s.folder.path, "kubeconfig")
	if err := writeKubeconfig(s.kubeconfig, s.config); err != nil {
		return err
	}
	if s.etcd, err = startEtcd(ctx, s.folder.path); err != nil {
		return err
	}
	s.api, err = newAPIServer(s.config, access{
		users: map[string]user.Info{id.token: administrator, s.limited.BearerToken: limited},
		allow: o.Allow,
	}, s.port, s.etcd, !o.DisableWatchCache)
	if err != nil {
		return err
	}
	s.run()
	s.serving.serve(s.api.GenericAPIServer.Handler, id.certificate)
	return s.waitReady(ctx)
}

// run starts the API server's controllers. The requests come through s.serving.
func (s *Server) run() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancelRun, s.runDone = cancel, make(chan struct{})
	prepared := s.api.GenericAPIServer.PrepareRun()
	go func() {
		defer close(s.runDone)
		s.runErr = prepared.RunWithContext(ctx)
	}()
}

// Config returns a fresh client configuration for a cluster administrator,
// without a limit on requests.
func (s *Server) Config() *rest.Config { return rest.CopyConfig(s.config) }

// LimitedConfig returns a fresh client configuration for a user whose rights
// Options.Allow decides about, without a limit on requests. Its bearer token is
// another one after each Start.
func (s *Server) LimitedConfig() *rest.Config { return rest.CopyConfig(s.limited) }

// URL returns the server's address, https://127.0.0.1:PORT.
func (s *Server) URL() string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// Port returns the port the server listens on.
func (s *Server) Port() int { return s.port }

// Kubeconfig returns the path of a kubeconfig file for kubectl, which lies in the
// data folder and holds the bearer token.
func (s *Server) Kubeconfig() string { return s.kubeconfig }

// Compact makes etcd forget every revision older than the current one, as a
// server does by itself every five minutes. A list or watch from an older
// resource version that is served by etcd then gets 410 (Expired). The watch
// cache still serves what it holds: see Options.DisableWatchCache.
func (s *Server) Compact(ctx context.Context) error { return s.etcd.compact(ctx) }
