package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// server is an API server in a process of its own. It keeps its port, certificate and administrator's token.
// Its methods are called by one goroutine at a time, but for config.
type server struct {
	order   serveOrder
	process *os.Process // nil while it does not run
	exited  chan struct{}
	input   io.WriteCloser
	output  *json.Decoder

	mu     sync.Mutex
	tokens served
}

// start returns once the server is ready.
func (s *server) start(ctx context.Context) error {
	order, err := json.Marshal(s.order)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), serveVariable+"="+string(order))
	log, err := os.OpenFile(s.logFile(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	if s.input, err = cmd.StdinPipe(); err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.process, s.exited = cmd.Process, make(chan struct{})
	s.output = json.NewDecoder(output)
	first := make(chan served, 1)
	go func() {
		var line served
		if s.output.Decode(&line) == nil {
			first <- line
		}
		close(first)
	}()
	select {
	case line, ok := <-first:
		go func(exited chan struct{}) {
			cmd.Wait()
			close(exited)
		}(s.exited)
		if !ok {
			s.kill()
			return fmt.Errorf("the API server did not start: see %s", s.logFile())
		}
		s.order.Port = line.Port
		s.mu.Lock()
		s.tokens = line
		s.mu.Unlock()
		return nil
	case <-ctx.Done():
		cmd.Process.Kill()
		cmd.Wait()
		s.process = nil
		return fmt.Errorf("start the API server: %w; see %s", context.Cause(ctx), s.logFile())
	}
}

func (s *server) logFile() string { return filepath.Join(s.order.Dir, "log") }

// kill kills the server with SIGKILL, and returns once it is gone.
func (s *server) kill() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	s.awaitExit()
}

// stop stops the server with SIGTERM. It kills a server that does not end.
func (s *server) stop() {
	if s.process == nil {
		return
	}
	s.process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(10 * time.Second):
		s.process.Kill()
	}
	s.awaitExit()
}

func (s *server) awaitExit() {
	<-s.exited
	s.input.Close()
	s.process = nil
}

func (s *server) pause() { s.process.Signal(syscall.SIGSTOP) }

func (s *server) resume() { s.process.Signal(syscall.SIGCONT) }

// allow sets the rights of the limited user, and returns once they hold.
func (s *server) allow(r rights) error {
	s.order.Rights = r
	if s.process == nil {
		return nil
	}
	if err := json.NewEncoder(s.input).Encode(r); err != nil {
		return err
	}
	var ok string
	return s.output.Decode(&ok)
}

// config is the configuration of an administrator who does not use the proxy.
func (s *server) config() *rest.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &rest.Config{
		Host:            "https://" + s.address(),
		BearerToken:     s.tokens.Admin,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.certificate()},
		Timeout:         2 * time.Second, // of a write while the server is paused or etcd is down
		QPS:             -1,
	}
}

// client returns a client that does not use the proxy.
func (s *server) client() dynamic.Interface {
	cfg := s.config()
	cfg.Timeout = startTimeout // a busy machine may need long
	return dynamic.NewForConfigOrDie(cfg)
}

// await returns when the server reads from etcd.
func (s *server) await(ctx context.Context) error {
	client := dynamic.NewForConfigOrDie(s.config())
	return retry(ctx, "wait for the API server", func() error {
		_, err := client.Resource(crdResource).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
}

func (s *server) backend() backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	return backend{s.address(), map[user]string{adminUser: s.tokens.Admin, limitedUser: s.tokens.Limited}}
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.tokens.Port)) }

func (s *server) pemFile() string { return filepath.Join(s.order.Dir, "serving.pem") }

// certificate returns the server's certificate without its key.
func (s *server) certificate() []byte {
	data, err := os.ReadFile(s.pemFile())
	if err != nil {
		return nil
	}
	const begin = "-----BEGIN PRIVATE KEY"
	certificate, _, _ := bytes.Cut(data, []byte(begin))
	return certificate
}

// adopt gives the server the token and the certificate of another one.
func (s *server) adopt(other *server) error {
	if err := os.MkdirAll(s.order.Dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"token", "serving.pem"} {
		data, err := os.ReadFile(filepath.Join(other.order.Dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(s.order.Dir, name), data, 0o600)
		}
		if err != nil {
			return errors.Join(errors.New("copy the server's identity"), err)
		}
	}
	return nil
}
