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

// Options configure a server. The zero value suits most tests.
type Options struct {
	// Dir is the data folder. Empty means a temporary folder that Stop removes. Any other folder remains, and is
	// created with mode 0700 if absent: a server that is started again with the same Dir has the same objects, bearer
	// token, serving certificate and, unless Port is set, port. So older kubeconfigs and checkpoints stay valid.
	//
	// Writes are not synced to disk: data survives a crash of the process, but not of the machine.
	Dir string
	// Port is the port on 127.0.0.1. Zero means the port that the last server with the same Dir had, or else one that
	// the kernel chooses. Start fails if another process uses the port.
	Port int
	// DisableWatchCache serves lists and watches directly from etcd, like kube-apiserver --watch-cache=false. Only then
	// does [Server.Compact] expire older resource versions at once.
	DisableWatchCache bool
	// Allow reports whether the user of [Server.LimitedConfig] may make a request. It is called for each request, so a
	// test can grant and revoke permissions at any time; open watches stay open. Nil permits nothing. The
	// administrator, who is the user of [Server.Config], may always do everything.
	Allow func(authorizer.Attributes) bool
	// Etcd is the socket of an [Etcd], which may run in another process. The server then starts none of its own, and
	// Stop leaves that one running. Dir still has the token and the certificate; each server needs a Dir of its own.
	// Empty means an etcd in this process, with its data in Dir.
	Etcd string
	// LogTo receives the log lines of the API server, etcd and client-go in this process, including those of other
	// servers: the loggers are global, see the package comment. Nil discards them.
	LogTo io.Writer
}

// ErrInUse is wrapped by the error of [Start] if a running server, in this or another process, uses Options.Dir.
var ErrInUse = errors.New("the data folder is in use by a running server")

// Server is a running API server. Its methods are safe for concurrent use.
type Server struct {
	folder     *folder
	etcd       *Etcd // nil if Options.Etcd is set
	dialer     *etcdDialer
	serving    *httpServer
	api        *apiextensions.CustomResourceDefinitions
	port       int
	removeLogs func()
	clients    clients
	running    serverRun
	ending     ending
}

// clients is how clients reach a Server.
type clients struct {
	config     *rest.Config
	limited    *rest.Config
	kubeconfig string
}

// serverRun is the goroutine of a Server.
type serverRun struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed
}

// ending is the result of Server.Stop.
type ending struct {
	once sync.Once
	err  error
}

// Start starts a server and returns once it is ready: /readyz returns ok, discovery lists the API of CRDs, and a CRD
// can be created. Nil options mean the zero Options. ctx bounds only the start; a started server runs until
// [Server.Stop].
//
// If Start fails, it stops what it has started.
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
	// Open the port before etcd, which takes longer, so that a port in use fails quickly.
	s.clients.kubeconfig = filepath.Join(s.folder.path, "kubeconfig")
	listener, err := listen(o.Port, s.clients.kubeconfig)
	if err != nil {
		return err
	}
	s.serving = newHTTPServer(listener)
	s.port = listener.Addr().(*net.TCPAddr).Port

	id, err := loadIdentity(s.folder.path)
	if err != nil {
		return err
	}
	s.clients.config = id.clientConfig(s.URL())
	s.clients.limited = rest.CopyConfig(s.clients.config)
	s.clients.limited.BearerToken = rand.Text()
	if err := writeKubeconfig(s.clients.kubeconfig, s.clients.config); err != nil {
		return err
	}
	socket := o.Etcd
	if socket == "" {
		if s.etcd, err = StartEtcd(ctx, s.folder.path); err != nil {
			return err
		}
		socket = s.etcd.Socket()
	}
	s.dialer = &etcdDialer{socket: socket}
	s.api, err = newAPIServer(s.clients.config, access{
		users: map[string]user.Info{id.token: administrator, s.clients.limited.BearerToken: limited},
		allow: o.Allow,
	}, s.port, s.dialer, !o.DisableWatchCache)
	if err != nil {
		return err
	}
	s.run()
	s.serving.serve(s.api.GenericAPIServer.Handler, id.certificate)
	return s.waitReady(ctx)
}

// listen opens the port. Zero means the port in the kubeconfig, if there is one.
func listen(port int, kubeconfig string) (net.Listener, error) {
	kept := 0
	if port == 0 {
		kept = keptPort(kubeconfig)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+kept)))
	if err != nil && kept != 0 {
		return nil, fmt.Errorf("can't use port %d, which the server of %s had before: end the program that uses it, "+
			"or choose another port, with which older kubeconfigs and checkpoints are not valid: %w",
			kept, filepath.Dir(kubeconfig), err)
	}
	return listener, err
}

// run starts the API server's controllers. Requests come through s.serving.
func (s *Server) run() {
	ctx, cancel := context.WithCancel(context.Background())
	s.running.cancel, s.running.done = cancel, make(chan struct{})
	prepared := s.api.GenericAPIServer.PrepareRun()
	go func() {
		defer close(s.running.done)
		s.running.err = prepared.RunWithContext(ctx)
	}()
}

// Config returns a new client configuration for a cluster administrator, without a client-side rate limit.
func (s *Server) Config() *rest.Config { return rest.CopyConfig(s.clients.config) }

// LimitedConfig returns a new client configuration for a user with the permissions that Options.Allow grants, without a
// client-side rate limit. Each Start creates a new bearer token for it.
func (s *Server) LimitedConfig() *rest.Config { return rest.CopyConfig(s.clients.limited) }

// URL returns the server's address, https://127.0.0.1:PORT.
func (s *Server) URL() string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// Port returns the port that the server listens on.
func (s *Server) Port() int { return s.port }

// Kubeconfig returns the path of a kubeconfig file in the data folder. It contains the administrator's bearer token.
func (s *Server) Kubeconfig() string { return s.clients.kubeconfig }

// Compact makes etcd discard all revisions before the current one, as an API server does every five minutes. If etcd
// serves a list or watch from an older resource version, the client then gets 410 (Expired). The watch cache still
// serves the versions that it has: see Options.DisableWatchCache. With Options.Etcd, call [Etcd.Compact] instead.
func (s *Server) Compact(ctx context.Context) error {
	if s.etcd == nil {
		return errors.New("compact etcd: Options.Etcd is set: use Etcd.Compact")
	}
	return s.etcd.Compact(ctx)
}
