// Package adapters_test runs the adapters in Go, and the tool's, against a server.
package adapters_test

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var widgets = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
	Kind:                 "Widget", Namespaced: true, Verbs: []string{"list", "watch"},
}

// TestAdapters: each adapter says who it is, reports what its client reports, also of an object that is deleted and
// created again while the server can't be reached, and ends with status 0 after SIGTERM.
func TestAdapters(t *testing.T) {
	dir := t.TempDir()
	for out, packages := range map[string]string{"/": "./...", "/.gvrwatch": "../../../gvrwatch"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+out, packages)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v: %s", packages, err, out)
		}
	}
	script, err := os.ReadFile("gvrwatch-tool/adapter.sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "gvrwatch-tool"), script, 0o700); err != nil {
		t.Fatal(err)
	}
	const deleted, again, other = "DELETED door 1@4 inferred", "ADDED door 2@6", "ADDED wall 1@3"
	replaced := []string{"MODIFIED door 2@6"}
	gapped := []string{"GAP", deleted, again + " inferred", "SYNCED@6"}
	tests := []struct {
		why, program, client string
		synced               string
		missed               []string
	}{
		{"a loop that lists", "list-watch-loop", "list-watch loop, client-go v", "SYNCED@3", []string{again, other}},
		{"a loop that lists", "RetryWatcher", "RetryWatcher, client-go v", "SYNCED@3", []string{again, other}},
		{
			"a loop that compares", "list-diff-watch-loop", "list-diff-watch loop, client-go v", "SYNCED@3",
			[]string{deleted, again},
		},
		{
			"client-go compares by name", "dynamicinformer", "dynamicinformer, client-go v", "SYNCED@",
			replaced,
		},
		{
			"client-go compares by name", "metadatainformer", "metadatainformer, client-go v", "SYNCED@",
			replaced,
		},
		{
			"so does its informer here", "controller-runtime", "controller-runtime, controller-runtime v",
			"SYNCED@", replaced,
		},
		{
			"and its loop here", "controller-runtime-compact",
			"controller-runtime, compact, controller-runtime v", "SYNCED@", replaced,
		},
		{
			"our informer compares by uid, and hands over the last state", "informer-door",
			"informer-door, gvrwatch (devel)", "SYNCED@", []string{"DELETED door 1@4", again},
		},
		{
			"a Stream says GAP", "gvrwatch-stream", "strict gvrwatch, stream, gvrwatch (devel)", "SYNCED@3", gapped,
		},
		{
			"so does the tool, which has a checkpoint", "gvrwatch-tool", "strict resuming gvrwatch, tool, gvrwatch ",
			"SYNCED@3", gapped,
		},
	}
	checkFiles(t, len(tests))
	for _, c := range tests {
		t.Run(c.program, func(t *testing.T) {
			t.Parallel()
			want := append([]string{"ADDED door 1@2", other, c.synced, "MODIFIED door 1@4"}, c.missed...)
			want = append(want, "DELETED door 2@7")
			client, got := watchWidget(t, filepath.Join(dir, c.program), len(want))
			if !strings.HasPrefix(client, c.client) {
				t.Errorf("the client is %q, want %q", client, c.client)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}

// checkFiles checks that so many adapters are in Go or the tool's, and that each of all is as short as the page says.
func checkFiles(t *testing.T, count int) {
	files, err := filepath.Glob("*/*adapter*")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // a folder
		}
		if n := strings.Count(string(text), "\n"); n > 150 {
			t.Errorf("%s: %d lines, 150 at most", name, n)
		}
		if filepath.Base(name) == "adapter.go" || name == "gvrwatch-tool/adapter.sh" {
			found++
		}
	}
	if found != count {
		t.Errorf("found %d adapters, and this test runs %d", found, count)
	}
}

// watchWidget runs a program until it has written so many lines about two objects. The wall stays as it is. The door is
// changed, deleted and created again while all requests fail, and deleted before the last line. It returns the claims,
// name and version of the client, and the lines, with a number for each uid of a name. Errors are none of them.
func watchWidget(t *testing.T, program string, count int) (client string, lines []string) {
	srv := streamtest.NewServer(widgets)
	t.Cleanup(srv.Close)
	put := func(size int) { srv.Put(widgets, "shop", "door", fmt.Sprintf("spec.size=%d", size)) }
	put(1)
	srv.Put(widgets, "shop", "wall")
	network := httptest.NewUnstartedServer(srv)
	network.EnableHTTP2 = true
	network.StartTLS()
	t.Cleanup(network.Close)

	limit, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(limit, program)
	cmd.Dir, cmd.Env, cmd.Stderr = t.TempDir(), environment(t, network), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	uids := map[string][]string{}
	for scanner := bufio.NewScanner(out); len(lines) < count && scanner.Scan(); {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", scanner.Text(), err)
		}
		text := l.text(uids)
		switch l.Type {
		case "CLIENT":
			client = l.claims() + l.Name + ", " + l.Version
			continue
		case "ERROR":
			continue
		}
		lines = append(lines, text)
		switch {
		case len(lines) == count-1:
			_, err = srv.Delete(widgets, "shop", "door")
		case text == "MODIFIED door 1@4":
			err = doAll(srv, "unauthorized", "restart")
			_, gone := srv.Delete(widgets, "shop", "door")
			put(3)
			err = errors.Join(err, gone, doAll(srv, "compact", "authorized"))
		case len(lines) == 2:
			slices.Sort(lines) // the order of what existed is not promised
		case len(lines) == 3: // SYNCED
			put(2)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	return client, lines
}

func doAll(srv *streamtest.Server, actions ...string) error {
	for _, a := range actions {
		if err := srv.Do(a); err != nil {
			return err
		}
	}
	return nil
}

// environment is what the judge gives a program.
func environment(t *testing.T, srv *httptest.Server) []string {
	dir := t.TempDir()
	ca, token, kubeconfig := filepath.Join(dir, "ca"), filepath.Join(dir, "token"), filepath.Join(dir, "kubeconfig")
	for name, text := range map[string]string{
		ca: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})), token: "secret",
		kubeconfig: fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "here",
			"contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
			"users": [{"name": "here", "user": {"tokenFile": %q}}],
			"clusters": [{"name": "here", "cluster": {"server": %q, "certificate-authority": %q}}]}`,
			token, srv.URL, ca),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return append(os.Environ(), "JUDGE_SERVER="+srv.URL, "JUDGE_CA="+ca, "JUDGE_TOKEN="+token,
		"JUDGE_RESOURCES=apis/example.com/v1/widgets", "JUDGE_DIR="+t.TempDir(), "KUBECONFIG="+kubeconfig)
}

// line is what this test reads of a line.
type line struct {
	Type, Version             string
	Inferred, Strict, Resumes bool
	object                    // of a line without Object
	Object                    struct{ Metadata object }
}

func (l line) claims() (text string) {
	if l.Strict {
		text = "strict "
	}
	if l.Resumes {
		text += "resuming "
	}
	return text
}

type object struct{ Name, UID, ResourceVersion string }

// text returns the type, the name, the number of the uid, and the version.
func (l line) text(uids map[string][]string) string {
	o := l.object
	if l.Object.Metadata.UID != "" {
		o = l.Object.Metadata
	}
	text := l.Type
	if o.UID != "" {
		if !slices.Contains(uids[o.Name], o.UID) {
			uids[o.Name] = append(uids[o.Name], o.UID)
		}
		text += fmt.Sprintf(" %s %d", o.Name, 1+slices.Index(uids[o.Name], o.UID))
	}
	if l.Type != "GAP" {
		text += "@" + o.ResourceVersion
	}
	if l.Inferred {
		text += " inferred"
	}
	return text
}
