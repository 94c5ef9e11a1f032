package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

// TestConsumer runs consumer/consumer.mjs on what a relay publishes, both with the permissions of
// deploy/nats-values.yaml, while the connection is lost and the relay is restarted. The consumer ends with the objects
// that the API server has. .ci/soak runs it: it installs a package of npm.
func TestConsumer(t *testing.T) {
	if os.Getenv("GVRWATCH_NPM") == "" {
		t.Skip("needs node, npm and GVRWATCH_NPM=1: it installs a package")
	}
	silenceClientGo()
	dir := t.TempDir()
	for _, name := range []string{"consumer.mjs", "package.json"} {
		if err := copyFile(filepath.Join("consumer", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.CommandContext(t.Context(), "npm", "install", "--no-package-lock", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	srv, err := devserver.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop() })
	c, err := relay.Connect(relay.Cluster{Kubeconfig: srv.Kubeconfig()})
	if err != nil {
		t.Fatal(err)
	}
	if err := devserver.CreateCRDs(t.Context(), c.Client, robots); err != nil {
		t.Fatal(err)
	}
	s := startDeployed(t, 1)
	to := s.client("gvrwatch-relay-nats", s.url)
	start := func() *program {
		return startProgram(t, "--kubeconfig", srv.Kubeconfig(), "-r", "robots", "--lease", "2s", "--nats", to.URL,
			"--ca", to.CA, "--cert", to.Certificate, "--key", to.Key)
	}
	p := start()

	client := c.Client.Resource(robots.Resource()).Namespace("factory")
	list := func() (all []string) {
		found, err := client.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range found.Items {
			all = append(all, strings.Join([]string{"exists", "factory", o.GetName(), o.GetResourceVersion()}, " "))
		}
		slices.Sort(all)
		return all
	}
	change := func(i int) {
		t.Helper()
		name := fmt.Sprint("r", i%17)
		o, err := client.Get(t.Context(), name, metav1.GetOptions{})
		switch {
		case err != nil:
			o = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"i": int64(i)}}}
			o.SetAPIVersion(robots.Group + "/v1")
			o.SetKind(robots.Kind)
			o.SetName(name)
			_, err = client.Create(t.Context(), o, metav1.CreateOptions{})
		case i%3 == 0:
			err = client.Delete(t.Context(), name, metav1.DeleteOptions{})
		default:
			o.Object["spec"] = map[string]any{"i": int64(i)}
			_, err = client.Update(t.Context(), o, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(name string) *unstructured.Unstructured {
		t.Helper()
		o, err := client.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": robots.Group + "/v1", "kind": robots.Kind, "metadata": map[string]any{"name": name},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	create("first") // before the consumer starts, and it does not change
	for i := range 50 {
		change(i)
	}
	_, root := s.jetStream("root")
	await(t, "stream", func() bool {
		_, err := root.Stream(t.Context(), "K8S")
		return err == nil
	})

	var out buffer
	node := exec.Command("node", "consumer.mjs", s.url, "k8s.*.*.robots.>")
	node.Dir, node.Stdout, node.Stderr = dir, &out, &out
	node.Env = append(os.Environ(), "NATS_CERTS="+s.dirs["gvrwatch-reader-nats"])
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Wait() }()
	t.Cleanup(func() {
		_ = node.Process.Kill()
		if t.Failed() {
			t.Log(&out, &p.errOut, s.violations.take())
		}
	})
	for i := range 300 {
		change(i)
		switch i {
		case 100:
			p.end()
		case 120:
			p = start()
		case 200:
			all, err := s.server.Connz(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all.Conns {
				_ = s.server.DisconnectClientByID(c.Cid)
			}
		}
	}
	o := create("last")
	await(t, "last event", func() bool {
		return strings.Contains(out.String(), "factory/last "+o.GetResourceVersion())
	})
	if err := node.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("node: %v", err)
		}
	case <-time.After(timeout):
		t.Fatal("node does not end")
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "exists ") {
			got = append(got, line)
		}
	}
	slices.Sort(got)
	if d := cmp.Diff(list(), got); d != "" {
		t.Errorf("objects -server +consumer:\n%s\n%s", d, &out)
	}
	for _, line := range s.violations.take() {
		if strings.Contains(line, "Violation") {
			t.Error(line)
		}
	}
}
