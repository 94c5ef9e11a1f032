package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

const timeout = 30 * time.Second

// buffer is an output that the test reads while the program writes it.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// program is the program without a subcommand.
type program struct {
	t      *testing.T
	errOut buffer
	end    func() int // sends the signal, and returns the exit status
}

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{t: t}
	status := make(chan int, 1)
	go func() { status <- run(ctx, args, io.Discard, &p.errOut) }()
	p.end = sync.OnceValue(func() int {
		cancel()
		select {
		case s := <-status:
			return s
		case <-time.After(timeout):
			t.Errorf("the program does not end:\n%s", &p.errOut)
			return -1
		}
	})
	t.Cleanup(func() { p.end() })
	return p
}

var addressLine = regexp.MustCompile(`serving /metrics.* address=(\S+)`)

// get requests a path of the program's server.
func (p *program) get(path string) (int, string) {
	p.t.Helper()
	var found []string
	await(p.t, "an address", func() bool {
		found = addressLine.FindStringSubmatch(p.errOut.String())
		return found != nil
	})
	resp, err := http.Get("http://" + found[1] + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// await polls until done.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(timeout); !done(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("no %s within %v", what, timeout)
		}
	}
}

// command runs a command that ends.
func command(t *testing.T, args ...string) (status int, out, errOut string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var o, e strings.Builder
	status = run(ctx, args, &o, &e)
	return status, o.String(), e.String()
}

func TestCommands(t *testing.T) {
	silenceClientGo()
	srv, err := devserver.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop() })
	c, err := relay.Connect(relay.Cluster{Kubeconfig: srv.Kubeconfig()})
	if err != nil {
		t.Fatal(err)
	}
	// Two groups share a plural.
	others := devserver.CRD{Group: "other.gvrwatch.dev", Kind: "Planet"}
	if err := devserver.CreateCRDs(t.Context(), c.Client, robots, planets, others); err != nil {
		t.Fatal(err)
	}
	client := c.Client.Resource(robots.Resource()).Namespace("factory")
	for _, name := range []string{"a", "b", "c"} {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(robots.Group + "/v1")
		o.SetKind(robots.Kind)
		o.SetName(name)
		o.SetLabels(map[string]string{"name": name})
		o.Object["spec"] = map[string]any{"text": "\u202e"}
		if _, err := client.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "relay")
	at := []string{"--dir", dir, "--kubeconfig", srv.Kubeconfig()}
	with := func(args ...string) []string { return append(args, at...) }
	p := startProgram(t, append(at, "--listen", "127.0.0.1:0", "--lease", "2s")...)
	await(t, "state in which all is well", func() bool {
		status, out, _ := command(t, with("status")...)
		return status == 0 && strings.Contains(out, "/robots.demo.gvrwatch.dev ")
	})

	for _, test := range []struct {
		why    string
		args   []string
		status int
		want   []string // regular expressions of stdout and stderr
	}{
		{"a line for each object", []string{"view", "robots"}, 0,
			[]string{`(?s)^NAMESPACE.*\nfactory +a .*\nfactory +b .*\nfactory +c [^\n]*\n$`}},
		{"one object", []string{"view", "robots", "b", "-o", "yaml"}, 0,
			[]string{`(?s)^apiVersion: demo.gvrwatch.dev/v1\nkind: Robot\n.*\n  name: b\n.*\\u202e`}},
		{
			"several objects", []string{"view", "robots", "-o", "json"}, 0,
			[]string{`(?s)"text": "\\u202e".*"kind": "List"`},
		},
		{"another namespace", []string{"view", "robots", "-n", "lab"}, 0, []string{`^NAMESPACE[^\n]*\n$`}},
		{"an object that is not there", []string{"view", "robots", "z"}, 1, []string{`robots.*"z" is not in the log`}},
		{"a plural of two groups", []string{"view", "planets"}, 1,
			[]string{`ambiguous: .*/planets.demo.gvrwatch.dev, .*/planets.other.gvrwatch.dev`}},
		{"a plural with its group", []string{"view", "planets.other.gvrwatch.dev"}, 0, []string{`^NAMESPACE[^\n]*\n$`}},
		{
			"a type that is not there", []string{"view", "ships"}, 1,
			[]string{`no resource in the log has the name "ships"`},
		},
		{"the log is as the API server", []string{"verify"}, 0, []string{`4 resources, 0 differences`}},
		{"what the selection leaves out is extra", []string{"verify", "-r", "robots", "-l", "name=a"}, 1,
			[]string{`(?s)extra: .*"b".*extra: .*"c".*1 resources, 2 differences`}},
		{"a mistake in the command line", []string{"tail", "-o", "xml"}, 2, []string{`invalid --output "xml"`}},
		{"a subject of something else", []string{"tail", "k8s.pods"}, 2, []string{`invalid SUBJECT "k8s.pods": must`}},
		{"a subject without the prefix", []string{"tail", "other.>"}, 2, []string{`invalid SUBJECT "other.>": must`}},
		{"messages of a type", []string{"tail", "robots", "--all", "--until-end"}, 0,
			[]string{`^(?:[0-9:]+ added +\S+/robots.demo.gvrwatch.dev factory/[abc] @\d+\n){3}[0-9:]+ synced .*\n$`}},
		{
			"messages of a type with its cluster and group",
			[]string{"tail", c.Name + "/robots.demo.gvrwatch.dev", "--since", "1h", "--until-end"}, 0,
			[]string{`added.*/a @`},
		},
		{"messages in a namespace", []string{"tail", "robots", "-n", "lab", "--until-end"}, 0, []string{`^$`}},
		{
			"messages of a type that is not there", []string{"tail", "ships"}, 1,
			[]string{`no resource in the log has the name "ships"`},
		},
		{
			"messages since a time", []string{"tail", "robots", "--since", "2020-01-02T03:04:05Z", "--until-end"}, 0,
			[]string{`added.*/a @`},
		},
		{"nothing since a moment ago", []string{"tail", "--since", "1ns", "--until-end"}, 0, []string{`^$`}},
		{"a time that is none", []string{"tail", "--since", "yesterday"}, 2,
			[]string{`invalid --since "yesterday": must be a duration such as 5m, or a time such as 2006-01-02T15`}},
		{"a time that comes", []string{"tail", "--since", "2999-01-02T03:04:05Z"}, 2, []string{`in the past`}},
		{"a time before and all", []string{"tail", "--since", "5m", "--all"}, 2, []string{`invalid --since`}},
		{"one more mistake", []string{"view"}, 2, []string{`See 'relay view --help'`}},
	} {
		t.Run(test.why, func(t *testing.T) {
			status, out, errOut := command(t, with(test.args...)...)
			if status != test.status {
				t.Errorf("exit status %d, want %d", status, test.status)
			}
			for _, want := range test.want {
				if !regexp.MustCompile(want).MatchString(out + errOut) {
					t.Errorf("no match of %s in stdout\n%s\nand stderr\n%s", want, out, errOut)
				}
			}
		})
	}

	t.Run("tail prints a CloudEvent in each line", func(t *testing.T) {
		_, out, _ := command(t, with("tail", "k8s.*.*.robots.>", "--all", "--until-end", "-o", "json")...)
		got := map[string]int{}
		for line := range strings.Lines(out) {
			ev, err := message.Decode([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			got[string(ev.Type)]++
		}
		if d := cmp.Diff(map[string]int{"added": 3, "synced": 1}, got); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	})
	t.Run("a reader that has ended does not hide a difference", func(t *testing.T) {
		if status := run(t.Context(), with("verify", "-l", "name=a"), brokenPipe{}, io.Discard); status != 1 {
			t.Errorf("verify: exit status %d, want 1", status)
		}
		if status := run(t.Context(), with("view", "robots"), brokenPipe{}, io.Discard); status != 0 {
			t.Errorf("view: exit status %d, want 0", status)
		}
	})
	t.Run("a deleted object is a marker", func(t *testing.T) {
		if err := client.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		await(t, "marker", func() bool {
			_, out, _ := command(t, with("view", "robots", "--deleted")...)
			return strings.Contains(out, "(deleted)")
		})
		if _, out, _ := command(t, with("view", "robots")...); strings.Contains(out, " c ") {
			t.Errorf("view shows it without --deleted:\n%s", out)
		}
	})
	t.Run("metrics and health", func(t *testing.T) {
		for path, want := range map[string]string{
			"/readyz": "ok", "/healthz": "ok",
			"/metrics": `gvrwatch_relay_events_total{cluster="` + c.Name +
				`",resource="robots.demo.gvrwatch.dev",type="added"} 3`,
		} {
			if status, body := p.get(path); status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s, want %q", path, status, body, want)
			}
		}
	})
	if status := p.end(); status != 0 {
		t.Errorf("exit status %d after a signal:\n%s", status, &p.errOut)
	}
}

// brokenPipe is a stdout whose reader has ended.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestWaitsForNATS(t *testing.T) {
	p := startProgram(t, "--nats", "nats://u:hunter2@127.0.0.1:1", "--listen", "127.0.0.1:0")
	if status, body := p.get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d %s: the Pod would restart", status, body)
	}
	if status, body := p.get("/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if _, body := p.get("/metrics"); !strings.Contains(body, "gvrwatch_relay_engine_connected 0") {
		t.Errorf("/metrics:\n%s", body)
	}
	if status := p.end(); status != 0 {
		t.Errorf("exit status %d after a signal", status)
	}
	if strings.Contains(p.errOut.String(), "hunter2") {
		t.Errorf("the password is printed:\n%s", &p.errOut)
	}
}

func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "relay.yaml")
	const text = "selection: {resources: [pods], exclude: [jobs]}\nnats: {url: 'nats://h'}\nreplica: {id: r}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		why    string
		args   []string
		status int
		want   []string
	}{
		{
			"the file", []string{"--config", file}, 0,
			[]string{"  - pods\n", "  url: nats://h\n", "id: r\n", "lease: 15s\n"},
		},
		{"flags replace fields", []string{"--config", file, "-r", "nodes", "--lease", "9s"}, 0,
			[]string{"  - nodes\n", "  - jobs\n", "lease: 9s\n"}},
		{"a folder replaces a URL", []string{"--config", file, "--dir", "/d"}, 0, []string{"nats:\n  dir: /d\n"}},
		{"several clusters", []string{"--config", file, "--kubeconfig", "k", "--context", "a", "--context", "b"}, 0,
			[]string{"clusters:\n- context: a\n  kubeconfig: k\n- context: b\n  kubeconfig: k\n"}},
		{"a cluster of --dev and another", []string{"--dev", "--context", "a"}, 2, []string{"--dev starts a cluster"}},
		{"no file", []string{"--config", file + "x"}, 2, []string{"no such file"}},
		{"an invalid flag", []string{"--config", file, "--overflow", "drop"}, 2, []string{"invalid queue.overflow"}},
	} {
		t.Run(test.why, func(t *testing.T) {
			status, out, errOut := command(t, append(test.args, "--print-config")...)
			if status != test.status {
				t.Errorf("exit status %d, want %d", status, test.status)
			}
			for _, want := range test.want {
				if !strings.Contains(out+errOut, want) {
					t.Errorf("no %q in stdout\n%s\nand stderr\n%s", want, out, errOut)
				}
			}
		})
	}
	if err := os.WriteFile(file, []byte("selecton: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errOut := command(t, "--config", file); status != 2 || !strings.Contains(errOut, `"selecton"`) {
		t.Errorf("exit status %d, stderr %q: want 2 and the unknown field", status, errOut)
	}
}
