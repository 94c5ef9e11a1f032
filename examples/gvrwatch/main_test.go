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
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

const patience = time.Minute

var (
	srv    *devserver.Server
	boats  = devserver.CRD{Group: "cli.example.com", Kind: "Boat", Namespaced: true, ShortNames: []string{"bt"}}
	oceans = devserver.CRD{Group: "cli.example.com", Kind: "Ocean"}
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if srv, err = devserver.Start(ctx, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer srv.Stop()
	if err := prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("KUBECONFIG", srv.Kubeconfig())
	return m.Run()
}

func prepare(ctx context.Context) error {
	client, err := dynamic.NewForConfig(srv.Config())
	if err != nil {
		return err
	}
	if err := devserver.CreateCRDs(ctx, client, boats, oceans); err != nil {
		return err
	}
	dc, err := clientdiscovery.NewDiscoveryClientForConfig(srv.Config())
	if err != nil {
		return err
	}
	for _, name := range []string{"boats", "oceans"} {
		if _, err := resolveNew(ctx, discovery.NewResolver(dc, nil), name); err != nil {
			return err
		}
	}
	for _, o := range []struct {
		crd             devserver.CRD
		namespace, name string
	}{{boats, "default", "argo"}, {boats, "harbour", "bounty"}, {oceans, "", "pacific"}} {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
		u.SetAPIVersion(o.crd.Resource().GroupVersion().String())
		u.SetKind(o.crd.Kind)
		u.SetName(o.name)
		u.SetLabels(map[string]string{"name": o.name})
		if _, err := client.Resource(o.crd.Resource()).Namespace(o.namespace).Create(ctx, u, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// gvrwatch runs the program in this process.
func gvrwatch(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errOut bytes.Buffer
	status = run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &locked{w: &errOut}}, args)
	if ctx.Err() != nil {
		t.Errorf("%v did not end by itself", args)
	}
	return status, out.String(), errOut.String()
}

// locked lets several goroutines write.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func TestMistakes(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "none")
	tests := []struct {
		args   string
		status int
		want   string // in the message
		why    string
	}{
		{"watch", 2, "name at least one resource type", "no argument"},
		{"watch boats oceans", 2, "written with commas", "a space for a comma"},
		{"watch boats/argo", 2, "single objects", "kubectl's TYPE/NAME"},
		{"watch boats,", 2, "it is empty", "a comma too many"},
		{"watch boats -o table", 2, "--output=table: it must be one of wide, json, yaml, name", "a format that is none"},
		{"resources -o yaml", 2, "--output=yaml: it must be one of wide, name, json", "a format that is none here"},
		{"watch boats --limit -1", 2, "--limit=-1: it must not be negative", ""},
		{"watch boats --timeout -1s", 2, "--timeout=-1s: it must not be negative", ""},
		{"watch boats --timeout soon", 2, `invalid argument "soon"`, "no duration"},
		{"watch boats -l a==b==c", 2, "is not a label selector", ""},
		{"watch boats --field-selector metadata.name", 2, "is not a field selector", ""},
		{"watch boats --colour", 2, "unknown flag: --colour", ""},
		{"wacht", 2, `unknown command "wacht" for "gvrwatch" Did you mean this? watch`, ""},
		{"demo --for 0s", 2, "--for=0s: it must be more than zero", ""},
		{"devserver --port 70000", 2, "--port=70000: it must be between 0 and 65535", ""},
		{"devserver more", 2, "unknown command", "no arguments"},

		{"watch baots", 1, `no resource type "baots"; did you mean boats.v1.cli.example.com?`, "a slip"},
		{"watch boats,yachts", 1, `no resource type "yachts"`, "one of several is wrong: nothing is watched"},
		{"watch oceans -n harbour", 1, `cluster-scoped, so it can't be watched in the namespace "harbour": leave the namespace out`, ""},
		{"watch boats --field-selector spec.size=1", 1, "field label not supported: spec.size", "only the server knows the fields"},
		{"watch boats --server https://127.0.0.1:1", 1, "https://127.0.0.1:1 can't be reached: is it running, and is the kubeconfig right?", ""},
		{"resources --server https://127.0.0.1:1", 1, "can't be reached", ""},
		{"watch boats --token wrong", 1, "does not accept the credentials of the kubeconfig", ""},
		{"watch boats --context none", 1, `the kubeconfig can't be used: context "none" does not exist`, ""},
		{"watch boats --kubeconfig " + empty, 1, "no such file", ""},
		{"devserver --port " + fmt.Sprint(srv.Port()), 1, "address already in use", ""},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			status, stdout, stderr := gvrwatch(t, strings.Fields(tt.args)...)
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			wantLines := map[int]int{1: 1, 2: 2}[tt.status] // a usage error says where to look, too
			if status != tt.status || !strings.Contains(lines[0], tt.want) || !strings.HasPrefix(lines[0], "gvrwatch: ") ||
				len(lines) != wantLines || stdout != "" {
				t.Errorf("%s: status %d, want %d, with %q in one line of stderr and nothing on stdout\nstderr: %s\nstdout: %s",
					tt.why, status, tt.status, tt.want, stderr, stdout)
			}
		})
	}
}

func TestNoKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	status, _, stderr := gvrwatch(t, "watch", "boats")
	if status != 1 || !strings.Contains(stderr, "no cluster to talk to") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// versions differ from run to run.
var versions = regexp.MustCompile(`("resourceVersion":|resourceVersion: |at resourceVersion )"?[0-9]+"?`)

func TestWatchOutput(t *testing.T) {
	tests := []struct {
		args, stdout, stderr string
		why                  string
	}{
		{"watch bt --until-synced -o name", "boat.cli.example.com/argo\n", "gvrwatch: boats.v1.cli.example.com: synced at resourceVersion N\n",
			"the kubeconfig's namespace is the default; control events on stderr"},
		{"watch boats -A --until-synced -o name", "boat.cli.example.com/argo\nboat.cli.example.com/bounty\n", "gvrwatch: boats.v1.cli.example.com: synced at resourceVersion N\n",
			"all namespaces"},
		{"watch boats -A -n harbour --until-synced -o name", "boat.cli.example.com/argo\nboat.cli.example.com/bounty\n", "gvrwatch: boats.v1.cli.example.com: synced at resourceVersion N\n",
			"-A wins, as in kubectl"},
		{"watch Boat -n harbour --limit 1 -o name", "boat.cli.example.com/bounty\n", "", "the limit ends it before SYNCED"},
		{"watch BoatList -A -l name=bounty --until-synced -o name", "boat.cli.example.com/bounty\n", "gvrwatch: boats.v1.cli.example.com: synced at resourceVersion N\n", "label selector"},
		{"watch boats -A --field-selector metadata.name=argo --until-synced -o name", "boat.cli.example.com/argo\n", "gvrwatch: boats.v1.cli.example.com: synced at resourceVersion N\n", "field selector"},
		{"watch bt,boats -n nowhere --until-synced -o json", `{"type":"SYNCED","resource":"boats.v1.cli.example.com","resourceVersion":N}` + "\n", "",
			"the same resource twice is watched once; SYNCED is an event for programs"},
		{"watch oceans --timeout 300ms -o name", "ocean.cli.example.com/pacific\n", "gvrwatch: oceans.v1.cli.example.com: synced at resourceVersion N\n",
			"a cluster-scoped resource does not mind the default namespace"},
		{"watch oceans --until-synced -o yaml --field-selector metadata.name=none", "resource: oceans.v1.cli.example.com\nresourceVersion: N\ntype: SYNCED\n", "", "YAML"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			status, stdout, stderr := gvrwatch(t, strings.Fields(tt.args)...)
			got := []string{fmt.Sprint(status), versions.ReplaceAllString(stdout, "${1}N"), versions.ReplaceAllString(stderr, "${1}N")}
			if diff := cmp.Diff([]string{"0", tt.stdout, tt.stderr}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

func TestWatchJSON(t *testing.T) {
	status, stdout, stderr := gvrwatch(t, "watch", "oceans,boats", "-A", "-o", "json", "--until-synced")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %s", status, stderr)
	}
	var got []string
	for line := range strings.Lines(stdout) {
		var ev struct {
			Type, Resource, ResourceVersion string
			Object                          *unstructured.Unstructured
		}
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case ev.Type == "SYNCED" && ev.ResourceVersion == "" || ev.Type == "ADDED" && ev.Object.GetUID() == "":
			t.Errorf("incomplete: %s", line)
		case ev.Object != nil:
			ev.Type += " " + ev.Object.GetName()
		}
		got = append(got, ev.Resource+" "+ev.Type)
	}
	// The two streams are merged in no promised order.
	want := map[string][]string{
		"boats":  {"boats.v1.cli.example.com ADDED argo", "boats.v1.cli.example.com ADDED bounty", "boats.v1.cli.example.com SYNCED"},
		"oceans": {"oceans.v1.cli.example.com ADDED pacific", "oceans.v1.cli.example.com SYNCED"},
	}
	each := map[string][]string{}
	for _, line := range got {
		name, _, _ := strings.Cut(line, ".")
		each[name] = append(each[name], line)
	}
	if diff := cmp.Diff(want, each); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWatchTable(t *testing.T) {
	age := regexp.MustCompile(`[0-9]+s|[0-9]+m[0-9]*s?`)
	_, stdout, _ := gvrwatch(t, "watch", "boats,oceans", "-A", "--until-synced")
	for _, want := range []string{"EVENT ", "NAMESPACE ", "harbour ", "boat.cli.example.com/bounty", "ocean.cli.example.com/pacific"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing:\n%s", want, stdout)
		}
	}
	_, stdout, _ = gvrwatch(t, "watch", "boats", "--until-synced")
	want := "EVENT      NAME   AGE\nADDED      argo   N\n"
	if diff := cmp.Diff(want, age.ReplaceAllString(stdout, "N")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, stdout, _ = gvrwatch(t, "watch", "boats", "--until-synced", "-o", "wide")
	if !strings.Contains(stdout, "RESOURCE VERSION") || !strings.Contains(stdout, "name=argo") {
		t.Errorf("wide:\n%s", stdout)
	}
}

func TestTimeouts(t *testing.T) {
	// A server that accepts connections and never says anything.
	silent := newSilentServer(t)
	for args, want := range map[string]string{
		"watch boats --timeout 100ms --server " + silent:                "the server has not said what it serves within --timeout=100ms",
		"watch boats --timeout 100ms --until-synced --server " + silent: "the server has not said what it serves within --timeout=100ms",
	} {
		status, _, stderr := gvrwatch(t, strings.Fields(args)...)
		if status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}

func TestResources(t *testing.T) {
	status, stdout, stderr := gvrwatch(t, "resources", "-o", "name")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, %s", status, stderr)
	}
	want := "customresourcedefinitions.v1.apiextensions.k8s.io\nboats.v1.cli.example.com\noceans.v1.cli.example.com\n"
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, stdout, _ = gvrwatch(t, "resources")
	for _, want := range []string{
		`(?m)^NAME +SHORTNAMES +APIVERSION +KIND +CLUSTER-WIDE +PER-NAMESPACE *$`,
		`(?m)^boats +bt +cli\.example\.com/v1 +Boat +true +true *$`,
		`(?m)^oceans +cli\.example\.com/v1 +Ocean +true +false *$`,
	} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("no line like %s in\n%s", want, stdout)
		}
	}
	_, stdout, _ = gvrwatch(t, "resources", "-o", "wide")
	if !regexp.MustCompile(`boats .* delete,`).MatchString(stdout) {
		t.Errorf("no verbs in\n%s", stdout)
	}
	_, stdout, _ = gvrwatch(t, "resources", "-o", "json")
	for line := range strings.Lines(stdout) {
		var r resourceJSON
		if err := json.Unmarshal([]byte(line), &r); err != nil || !r.ClusterWatch || r.Resource == "" {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestDevserver(t *testing.T) {
	ctx, signal := context.WithCancel(t.Context())
	out := &waiter{enough: func(s string) bool { return strings.HasSuffix(s, "\n") }, then: make(chan bool)}
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
	if _, err := dynamic.NewForConfigOrDie(cfg).Resource(boats.Resource()).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("it is not a server of its own")
	} else if !strings.Contains(err.Error(), "could not find the requested resource") {
		t.Error(err)
	}
	signal()
	if got := <-status; got != 0 {
		t.Errorf("status %d after a signal, want 0", got)
	}
	if _, err := os.Stat(ready.Kubeconfig); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary folder is still there: %v", err)
	}
}

func TestDemo(t *testing.T) {
	ctx, signal := context.WithCancel(t.Context())
	events := regexp.MustCompile(`(ADDED|MODIFIED|DELETED) +(Robot|Planet) `)
	out := &waiter{then: make(chan bool), enough: func(s string) bool {
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
	for _, want := range []string{"is ready after", "SYNCED ", "battery 100 -> 71", "job=", "Seen: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("colour without a terminal:\n%q", out)
	}
}

func TestDemoEndsByItself(t *testing.T) {
	status, stdout, stderr := gvrwatch(t, "demo", "--for", "100ms")
	if status != 0 || stderr != "" || !strings.Contains(stdout, "is ready after") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

// waiter collects what is written and says when it is enough.
type waiter struct {
	mu     sync.Mutex
	b      strings.Builder
	enough func(string) bool
	then   chan bool
	once   sync.Once
}

func (w *waiter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Write(b)
	if w.enough(w.b.String()) {
		w.once.Do(func() { close(w.then) })
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
	case <-w.then:
	case <-time.After(patience):
		t.Fatalf("only this was written:\n%s", w)
	}
}

func newSilentServer(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}
