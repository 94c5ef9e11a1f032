package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

func TestDevserver(t *testing.T) {
	ctx, signal := context.WithCancel(t.Context())
	out := &waiter{complete: func(s string) bool { return strings.HasSuffix(s, "\n") }, completed: make(chan bool)}
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, genericiooptions.IOStreams{Out: out, ErrOut: io.Discard}, []string{"devserver"})
	}()
	out.wait(t)
	var ready struct{ Kubeconfig, Server string }
	if err := json.Unmarshal([]byte(out.String()), &ready); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", ready.Kubeconfig)
	if err != nil || cfg.Host != ready.Server {
		t.Fatalf("server %q, kubeconfig of %+v, %v", ready.Server, cfg, err)
	}
	client := dynamic.NewForConfigOrDie(cfg)
	if _, err := client.Resource(boats.Resource()).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the kubeconfig leads to the server of another test")
	} else if !strings.Contains(err.Error(), "could not find the requested resource") {
		t.Error(err)
	}
	signal()
	if got := <-status; got != 0 {
		t.Errorf("status %d after a signal, want 0", got)
	}
	if _, err := os.Stat(ready.Kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary folder still exists: %v", err)
	}
}

// A kubeconfig and a checkpoint that were made before a restart stay valid, although neither start names a port.
func TestDevserverKeepsItsFolder(t *testing.T) {
	dir, db := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "checkpoint.db")
	copied := filepath.Join(t.TempDir(), "kubeconfig")
	for round, want := range [][]string{{"ADDED", "SYNCED"}, {"SYNCED"}} {
		ctx, signal := context.WithCancel(t.Context())
		out := &waiter{complete: func(s string) bool { return strings.HasSuffix(s, "\n") }, completed: make(chan bool)}
		status := make(chan int, 1)
		var errOut bytes.Buffer
		go func() {
			streams := genericiooptions.IOStreams{Out: out, ErrOut: &locked{w: &errOut}}
			status <- run(ctx, streams, []string{"devserver", "-v", "--dir", dir})
		}()
		out.wait(t)
		kubeconfig, err := os.ReadFile(filepath.Join(dir, "kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			if err := os.WriteFile(copied, kubeconfig, 0o600); err != nil {
				t.Fatal(err)
			}
			createBoats(t, copied)
		}
		before, _ := os.ReadFile(copied)
		if diff := cmp.Diff(string(before), string(kubeconfig)); diff != "" {
			t.Errorf("the kubeconfig changed:\n%s", diff)
		}
		args := []string{"watch", "crd", "--kubeconfig", copied, "--checkpoint", db, "--until-synced", "-o", "json"}
		code, stdout, stderr := gvrwatch(t, args...)
		var types []string
		for _, m := range regexp.MustCompile(`(?m)^{"type":"(\w+)"`).FindAllStringSubmatch(stdout, -1) {
			types = append(types, m[1])
		}
		if diff := cmp.Diff(want, types); code != 0 || diff != "" {
			t.Errorf("run %d of watch: status %d, (-want +got):\n%s%s", round, code, diff, stderr)
		}
		signal()
		if got := <-status; got != 0 || !strings.Contains(errOut.String(), "apiextensions") {
			t.Errorf("status %d, want 0 and the server's log on stderr, got %q", got, errOut.String())
		}
	}
}

// createBoats creates the CRD of the boats.
func createBoats(t *testing.T, kubeconfig string) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := devserver.CreateCRDs(t.Context(), client, boats); err != nil {
		t.Fatal(err)
	}
}

func TestDemo(t *testing.T) {
	skipIfShort(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, signal := context.WithCancel(t.Context())
	events := regexp.MustCompile(`(ADDED|MODIFIED|DELETED) +(Robot|Planet) `)
	out := &waiter{completed: make(chan bool), complete: func(s string) bool {
		seen := map[string]bool{}
		for _, m := range events.FindAllStringSubmatch(s, -1) {
			seen[m[1]+m[2]] = true
		}
		return len(seen) == 6
	}}
	status := make(chan int, 1)
	var errOut bytes.Buffer
	go func() {
		status <- run(ctx, genericiooptions.IOStreams{Out: out, ErrOut: &errOut}, []string{"demo", "--for", "1m"})
	}()
	out.wait(t)
	signal()
	if got := <-status; got != 0 || errOut.String() != "" {
		t.Errorf("status %d after a signal, want 0; stderr: %s", got, errOut.String())
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("the temporary folder must be empty: %v, %v", left, err)
	}
	for _, want := range []string{"is ready after", "SYNCED ", "battery 100 -> 71", "job=", "Seen: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestDemoEndsAfterItsDuration(t *testing.T) {
	status, stdout, stderr := gvrwatch(t, "demo", "--for", "100ms")
	if status != 0 || stderr != "" || !strings.Contains(stdout, "is ready after") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

// waiter collects what is written, and closes completed as soon as complete returns true for it.
type waiter struct {
	mu        sync.Mutex
	b         strings.Builder
	complete  func(string) bool
	completed chan bool
	once      sync.Once
}

func (w *waiter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Write(b)
	if w.complete(w.b.String()) {
		w.once.Do(func() { close(w.completed) })
	}
	return len(b), nil
}

func (w *waiter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func (w *waiter) wait(t *testing.T) {
	t.Helper()
	select {
	case <-w.completed:
	case <-time.After(testTimeout):
		t.Fatalf("incomplete output:\n%s", w)
	}
}
