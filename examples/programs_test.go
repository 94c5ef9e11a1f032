// Package examples_test runs the programs that a reader meets first.
package examples_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestPrograms runs each program against a server, changes something when a line is printed, and compares the output.
func TestPrograms(t *testing.T) {
	deployments := gvr.Resource{
		Kind: "Deployment", Namespaced: true, ShortNames: []string{"deploy"}, Verbs: []string{"list", "watch"},
	}
	deployments.Group, deployments.Version, deployments.Resource = "apps", "v1", "deployments"
	widgets := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"

	jobs := gvr.Resource{Kind: "Job", Singular: "job", Namespaced: true, Verbs: []string{"list", "watch"}}
	jobs.Group, jobs.Version, jobs.Resource = "batch", "v1", "jobs"

	replicas := func(srv *streamtest.Server, wanted, ready int) {
		srv.Put(deployments, "default", "web", fmt.Sprintf(`spec={"replicas":%d}`, wanted),
			fmt.Sprintf(`status={"readyReplicas":%d,"conditions":[{"type":"Available","status":%q}]}`, ready,
				map[bool]string{true: "True", false: "False"}[ready >= wanted]))
	}
	remove := func(srv *streamtest.Server) { _, _ = srv.Delete(deployments, "default", "web") }
	tests := []struct {
		program string
		react   map[string]func(*streamtest.Server) // by the line that is printed
		want    []string
	}{
		{"watch", map[string]func(*streamtest.Server){"SYNCED @2": remove},
			[]string{"ADDED default/web@2 map[]", "SYNCED @2", "DELETED default/web@3 map[]"}},
		{"status", map[string]func(*streamtest.Server){"objects: 1": remove},
			[]string{"status: Listing", "ADDED default/web@2", "status: Streaming", "SYNCED @2", "objects: 1",
				"DELETED default/web@3"}},
		{"checkpoint", map[string]func(*streamtest.Server){"SYNCED @2": remove},
			[]string{"ADDED default/web@2", "SYNCED @2", "DELETED default/web@3"}},
		{"follow", map[string]func(*streamtest.Server){
			"widgets.example.com SYNCED @2": func(srv *streamtest.Server) { srv.Put(widgets, "default", "blue") },
		}, []string{"widgets.example.com SYNCED @2", "widgets.example.com ADDED default/blue@3"}},
		{"store", map[string]func(*streamtest.Server){"ADDED default/web@2": remove},
			[]string{"map[default:1]", "ADDED default/web@2", "SYNCED", "DELETED default/web@2"}},
		{"controller", map[string]func(*streamtest.Server){
			"deployments.apps default/web has 1 of 2 replicas": func(srv *streamtest.Server) { replicas(srv, 2, 2) },
			"deployments.apps default/web is ready":            remove,
		}, []string{"deployments.apps default/web has 1 of 2 replicas", "deployments.apps default/web is ready",
			"deployments.apps default/web is gone"}},
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/",
		"./watch", "./status", "./checkpoint", "./follow", "./store", "./controller", "./wait")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	newServer := func(t *testing.T) (*streamtest.Server, func(program string) *exec.Cmd) {
		srv := streamtest.NewServer(deployments, jobs, widgets)
		t.Cleanup(srv.Close)
		network := httptest.NewServer(srv)
		t.Cleanup(network.Close)
		work := t.TempDir()
		config := filepath.Join(work, "config")
		text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "here",
			"contexts": [{"name": "here", "context": {"cluster": "here"}}],
			"clusters": [{"name": "here", "cluster": {"server": %q}}]}`, network.URL)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		limit, stop := context.WithTimeout(t.Context(), 30*time.Second)
		t.Cleanup(stop)
		return srv, func(program string) *exec.Cmd {
			cmd := exec.CommandContext(limit, filepath.Join(dir, program))
			cmd.Dir, cmd.Stderr = work, os.Stderr
			cmd.Env = append(os.Environ(), "KUBECONFIG="+config)
			return cmd
		}
	}
	for _, tt := range tests {
		t.Run(tt.program, func(t *testing.T) {
			srv, command := newServer(t)
			replicas(srv, 2, 1)
			cmd := command(tt.program)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for lines := bufio.NewScanner(out); len(got) < len(tt.want) && lines.Scan(); {
				got = append(got, lines.Text())
				if react := tt.react[lines.Text()]; react != nil {
					react(srv)
				}
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("wait", func(t *testing.T) {
		srv, command := newServer(t)
		replicas(srv, 2, 1)
		time.AfterFunc(500*time.Millisecond, func() {
			replicas(srv, 2, 2)
			srv.Put(jobs, "default", "seed", `status={"conditions":[{"type":"Complete","status":"True"}]}`)
		})
		out, err := command("wait").Output()
		if want := "web is available and seed is complete\n"; err != nil || string(out) != want {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("checkpoint, started again", func(t *testing.T) {
		srv, command := newServer(t)
		replicas(srv, 2, 1)
		for _, last := range []string{"SYNCED", "DELETED default/web"} {
			cmd := command("checkpoint")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), last) {
				t.Log(lines.Text())
			}
			if !strings.HasPrefix(lines.Text(), last) {
				t.Errorf("the program ended before it printed %s", last)
			}
			_ = cmd.Process.Kill() // the object is in the file; if its ack is not, DELETED has no version
			_ = cmd.Wait()
			remove(srv)
		}
	})
}

// TestClusters runs the program with two API servers, each a context of a kubeconfig of its own. One of them goes away.
func TestClusters(t *testing.T) {
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "./clusters")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	widgets := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
	servers, networks := map[string]*streamtest.Server{}, map[string]*httptest.Server{}
	var files []string
	for _, name := range []string{"production", "staging"} {
		srv := streamtest.NewServer(widgets)
		t.Cleanup(srv.Close)
		network := httptest.NewServer(srv)
		t.Cleanup(network.Close)
		text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config",
			"contexts": [{"name": %[1]q, "context": {"cluster": %[1]q}}],
			"clusters": [{"name": %[1]q, "cluster": {"server": %[2]q}}]}`, name, network.URL)
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		servers[name], networks[name], files = srv, network, append(files, file)
	}
	limit, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	without := exec.CommandContext(limit, filepath.Join(dir, "clusters"))
	if out, err := without.CombinedOutput(); err == nil || !strings.Contains(string(out), "usage: clusters CONTEXT") {
		t.Errorf("without a context it ends with %v: %s", err, out)
	}
	cmd := exec.CommandContext(limit, filepath.Join(dir, "clusters"), "production", "staging")
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+strings.Join(files, string(os.PathListSeparator)))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	lines := bufio.NewScanner(out)
	next := func(n int) (got []string) {
		for len(got) < n && lines.Scan() {
			got = append(got, lines.Text())
		}
		slices.Sort(got)
		return got
	}
	compare := func(why string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, next(len(want))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	compare("both are synced", "production widgets.example.com SYNCED @1", "staging widgets.example.com SYNCED @1")
	servers["staging"].Put(widgets, "default", "blue")
	compare("a change of one", "staging widgets.example.com ADDED default/blue@2")
	networks["staging"].CloseClientConnections()
	networks["staging"].Listener.Close()
	servers["production"].Put(widgets, "default", "red")
	compare("the other one while one is away", "production widgets.example.com ADDED default/red@2")
}
