package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

var boats = devserver.CRD{Group: "cli.example.com", Kind: "Boat", Namespaced: true}

// server is a run of the program, until stop.
type server struct {
	t                  *testing.T
	kubeconfig, server string
	logs               bytes.Buffer // read it after stop
	signal             context.CancelFunc
	status             chan int
}

func start(t *testing.T, args ...string) *server {
	t.Helper()
	ctx, signal := context.WithTimeout(t.Context(), 2*time.Minute)
	s := &server{t: t, signal: signal, status: make(chan int, 1)}
	r, w := io.Pipe()
	go func() {
		s.status <- run(ctx, args, w, &s.logs)
		w.Close()
	}()
	var ready struct{ Kubeconfig, Server string }
	if err := json.NewDecoder(r).Decode(&ready); err != nil {
		signal()
		t.Fatalf("status %d, %v\n%s", <-s.status, err, s.logs.String())
	}
	s.kubeconfig, s.server = ready.Kubeconfig, ready.Server
	return s
}

func (s *server) stop() {
	s.t.Helper()
	s.signal()
	if got := <-s.status; got != 0 {
		s.t.Errorf("status %d after a signal, want 0\n%s", got, s.logs.String())
	}
}

// client returns a client of the server that a kubeconfig names.
func client(t *testing.T, kubeconfig, host string) dynamic.Interface {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil || cfg.Host != host {
		t.Fatalf("server %q, kubeconfig of %+v, %v", host, cfg, err)
	}
	return dynamic.NewForConfigOrDie(cfg)
}

// TestTemporaryFolder: without -dir the server is a new one, and its folder is gone at the end.
func TestTemporaryFolder(t *testing.T) {
	s := start(t)
	_, err := client(t, s.kubeconfig, s.server).Resource(boats.Resource()).List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("%v, want not found: the server must have no objects of others", err)
	}
	s.stop()
	if _, err := os.Stat(s.kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary folder still exists: %v", err)
	}
}

// TestKeepsItsFolder: with -dir, objects and kubeconfig survive a restart, although neither start names a port.
func TestKeepsItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, "-v", "-dir", dir)
	if err := devserver.CreateCRDs(t.Context(), client(t, s.kubeconfig, s.server), boats); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	if !strings.Contains(s.logs.String(), "apiextensions") {
		t.Errorf("-v must write the server's logs, got %q", s.logs.String())
	}

	s = start(t, "-dir", dir)
	after, err := os.ReadFile(s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("the kubeconfig changed:\n%s", diff)
	}
	boat := client(t, s.kubeconfig, s.server).Resource(boats.Resource())
	if _, err := boat.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the custom resource is gone: %v", err)
	}
	s.stop()
}

// TestDemo: with -demo the server has objects that change, also after a restart with the same folder.
func TestDemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for range 2 {
		s := start(t, "-demo", "-dir", dir)
		w, err := client(t, s.kubeconfig, s.server).Resource(devserver.DemoRobots.Resource()).
			Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for ev := range w.ResultChan() {
			if ev.Type == watch.Modified {
				break
			}
		}
		w.Stop()
		s.stop()
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		why    string
		args   []string
		status int
		stderr string
	}{
		{"no such flag", []string{"-x"}, 2, "not defined: -x"},
		{"no arguments are taken", []string{"here"}, 2, `unexpected argument "here"`},
		{"no such port", []string{"-port", "70000"}, 2, "-port=70000: must be between 0 and 65535"},
		{"help is no mistake", []string{"-h"}, 0, "folder for data"},
		{"the folder is a file", []string{"-dir", "main.go"}, 1, "main.go"},
	} {
		var errOut bytes.Buffer
		status := run(t.Context(), c.args, io.Discard, &errOut)
		if status != c.status || !strings.Contains(errOut.String(), c.stderr) {
			t.Errorf("%s: status %d, want %d and %q in\n%s", c.why, status, c.status, c.stderr, errOut.String())
		}
	}
}

// TestSignalDuringTheStart: a signal is a normal end at any moment.
func TestSignalDuringTheStart(t *testing.T) {
	for _, after := range []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond, time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		var out, errOut bytes.Buffer
		if status := run(ctx, []string{"-demo", "-dir", t.TempDir()}, &out, &errOut); status != 0 || errOut.Len() > 0 {
			t.Errorf("after %v: status %d: %s", after, status, &errOut)
		}
		cancel()
	}
}
