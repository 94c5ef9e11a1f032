package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestMistakes(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "none")
	tests := []struct {
		args   string
		status int
		want   string // in the message
		why    string
	}{
		{"watch", 2, "missing resource type: name one", "a resource type is required"},
		{"watch boats/argo oceans", 2, `invalid argument "oceans": must be TYPE/NAME, as "boats/argo" is`,
			"TYPE/NAME and TYPE NAME are not mixed"},
		{"watch boats a/b", 2, `invalid object name "a/b": may not contain '/'; for a namespace use -n a`,
			"names have no slashes, unlike those of kubespy"},
		{"watch boats* argo", 2, `unexpected argument "argo": a pattern selects all objects of its types`,
			"patterns are of types"},
		{"watch boats argo bounty --follow", 2, "a followed type is watched as a whole, or for one object",
			"a followed type has one name"},
		{"watch boats,", 2, "it is empty", "a trailing comma is refused"},
		{"watch boats --all", 2, `--all and "boats" exclude each other`,
			"--all does not mean all objects of a type, unlike in kubectl"},
		{"watch --all --category all", 2, "--all and --category exclude each other", "--all includes every category"},
		{"watch [*.example.com", 2,
			`invalid pattern "[*.example.com": must be a pattern of path.Match: syntax error in pattern`,
			"a bracket must be closed"},
		{"watch apps/*", 2, "must be NAME.GROUP, without slashes", "patterns have no slashes, unlike names"},
		{"watch * --exclude [a", 2, "--exclude=[a: must be a pattern of path.Match: syntax error in pattern",
			"--exclude must be a pattern"},
		{"watch boats --exclude oceans", 2, "--exclude: applies only to patterns, --category and --all",
			"named types can't be excluded"},
		{"watch boats --candidates harbour -A", 2, "--candidates: applies only to followed types: add --follow",
			"--candidates requires --follow"},
		{"watch boats --candidates harbour --follow", 2, "--candidates: applies only to all namespaces: add -A",
			"--candidates requires -A"},
		{"watch boats --candidates No/Such --follow -A", 2,
			"--candidates=No/Such: must be the name of a namespace", "--candidates are namespaces"},
		{"watch --category=,", 2, "must be the name of a category, such as all",
			"an empty name is refused, as from an unset variable"},
		{"watch boats -o table", 2, "--output=table: must be one of wide, name, json, yaml, diff, jsonpath",
			"an unknown format is refused"},
		{"watch boats -o json=x", 2, "--output=json=x: must be one of", "JSON has no template"},
		{"watch boats -o jsonpath", 2, "--output=jsonpath: must have a template or a file", "a template is required"},
		{"watch boats -o jsonpath={.a", 2, "--output=jsonpath={.a: ", "the template is checked first"},
		{"watch boats -o go-template={{", 2, "--output=go-template={{: ", "the template is checked first"},
		{"watch boats -o custom-columns=NAME", 2, `invalid column "NAME": must be HEADER:PATH`, "a column has a path"},
		{"watch boats -o jsonpath-file=none", 2, "open none: no such file", "the file must exist"},
		{"watch boats -o json --show-labels", 2, "apply only to the default output and -o wide", "JSON has all labels"},
		{"watch boats -o diff --latest", 2, "--output=diff: needs every event", "--latest drops states"},
		{"watch boats --color blue", 2, "must be one of auto, always, never", "--color has three values"},
		{"watch boats --for Ready", 2, "--for=Ready: must be ", "--for is a condition"},
		{"watch boats --for delete --limit 1", 2, "--for: says when the watch ends", "there is one end"},
		{"watch boats --for delete --watch-only", 2, "--for: needs what exists", "--for needs the snapshot"},
		{"watch boats --for= ", 2, "--for: must not be empty", "as from an unset variable"},
		{"watch boats --resource-version 5 --until-synced", 2, "exclude each other", "nothing that exists is printed"},
		{"watch boats --namespace= ", 2, "--namespace: must not be empty", "as from an unset variable"},
		{"watch boats --exclude= ", 2, "--exclude: must not be empty", "as from an unset variable"},
		{"watch boats/", 2, "must have a name after the slash", "a name follows the slash"},
		{"watch boats --watch=false", 2, "the command always watches", "-w is accepted, but not turned off"},
		{"get boats --for delete", 2, "--for: waits for changes: add --watch", "get ends, and names what was typed"},
		{"get boats --resource-version 5", 2, "--resource-version: prints changes: add --watch", "what exists, only"},
		{"watch boats -o name --timestamps", 2, "--timestamps does not apply to --output=name", "there is no column"},
		{"watch boats -o jsonpath={.a} --timestamps", 2, "--timestamps does not apply", "templates get objects"},
		{"watch boats -o json --output-watch-events=false --timestamps", 2, "--timestamps does not apply",
			"objects have no place for it"},
		{"watch boats -o diff --output-watch-events=false", 2, "does not apply to --output=diff", "a diff has events"},
		{"checkpoint show", 2, "must have FILE, and may have KEY: got 0 arguments", "a file is required"},
		{"watch boats --checkpoint /none/x", 1, "--checkpoint=/none/x: ", "the error names the flag"},
		{"watch boats --watch-only --resource-version 5", 2, "exclude each other", "there is one beginning"},
		{"watch boats* --resource-version 5", 2, "--resource-version: applies only to named types",
			"each type has versions of its own"},
		{"resources -o yaml", 2, "--output=yaml: must be one of wide, name, json", "a format of watch is refused"},
		{"watch boats --limit -1", 2, "--limit=-1: must not be negative", "--limit is not negative"},
		{"watch boats --timeout -1s", 2, "--timeout=-1s: must not be negative", "--timeout is not negative"},
		{"watch boats --timeout soon", 2, `invalid argument "soon"`, "--timeout is a duration"},
		{"watch boats --allow-missing", 2, "--allow-missing: applies only to --until-synced",
			"--allow-missing requires --until-synced"},
		{"watch boats -l a==b==c", 2, "--selector=a==b==c: must be a label selector", "-l is a label selector"},
		{"watch boats --field-selector metadata.name", 2, "--field-selector=metadata.name: must be a field selector",
			"--field-selector is a field selector"},
		{"watch boats -n No/Such", 2, "--namespace=No/Such: must be the name of a namespace",
			"-n is a namespace"},
		{"watch boats --request-timeout soon", 2, "--request-timeout=soon: must be a duration",
			"--request-timeout is a duration"},
		{"watch boats --request-timeout -1s", 2, "--request-timeout=-1s: must be a duration", "it is not negative"},
		{"watch boats --resource-version latest", 2, "--resource-version=latest: must be a whole number",
			"the server would refuse it again and again"},
		{"watch boats --resource-version 0", 2, "--resource-version=0: must be a whole number", "0 is no version"},
		{"watch boats --watch-only --until-synced", 2, "--watch-only and --until-synced exclude each other",
			"nothing would be printed"},
		{"watch boats --colour", 2, "unknown flag: --colour", "an unknown flag is refused"},
		{"wacht", 2, `unknown command "wacht" for "gvrwatch" Did you mean this? watch`,
			"an unknown command lists similar ones"},
		{"explain pods", 2, `unknown command "explain": use kubectl explain`, "a command of kubectl"},
		{"logs -f pod", 2, `unknown command "logs": use kubectl logs`, "its flags do not matter"},
		{"describe pod x", 2, `unknown command "describe": use kubectl describe`, "a command of kubectl"},
		{"ls boats", 2, `unknown command "ls": use gvrwatch get`, "another habit"},
		{"checkpoint shwo x", 2, `unknown command "shwo" for "gvrwatch checkpoint": did you mean show?`,
			"a subcommand that is misspelled"},
		{"frobnicate", 2, `unknown command "frobnicate" for "gvrwatch": to watch a type, use gvrwatch watch TYPE`,
			"nothing is similar"},
		{"deploy/web", 2, "to watch a type, use gvrwatch watch TYPE", "stern's first argument"},
		{"status v1 Pod a", 2, `"status": use gvrwatch watch TYPE NAME --changed .status -o diff`, "kubespy"},
		{"record v1 Pod a", 2, `"record": use gvrwatch watch TYPE NAME --record FILE`, "kubespy"},
		{"rollout status boats/argo", 2, "use gvrwatch wait TYPE/NAME --for ready, or kubectl rollout", "kubectl"},
		{"resources apps", 2, `unexpected argument "apps": gvrwatch resources has no arguments`, "it is no command"},
		{"resources --api-group=apps", 2, "APIVERSION has the group", "not the similar --as-group"},
		{"version --client", 2, "the server is not asked for its version", "a flag of kubectl version"},
		{"get boats --server-print=false", 2, "use kubectl get --server-print", "not the similar --server"},
		{"get boats --allow-missing-template-keys", 2, "a key that an object lacks is no error",
			"not the similar --allow-missing"},
		{"watch events --types Warning", 2, "for Events of this type use --field-selector type=Warning",
			"a flag of kubectl events"},
		{"watch boats --types warn", 2, "must be of ADDED, MODIFIED, DELETED, SYNCED and GAP", "another value"},
		{"watch boats --node n", 2, "use --field-selector spec.nodeName=NAME", "a flag of stern"},
		{"watch boats --include x", 2, "lines are not searched: pipe them to grep", "not the similar --exclude"},
		{"watch boats --exclude-pod x", 2, "objects are selected by -l and --field-selector", "a flag of stern"},
		{"watch boats -T x", 2, "use -o go-template-file=FILE", "a flag of stern"},
		{"watch boats --timezone UTC", 2, "set the environment variable TZ", "a flag of stern"},
		{"watch boats --verbosity 6", 2, "did you mean --v?", "a flag of stern"},
		{"-v", 2, "did you mean --version?", "a flag of stern"},
		{"watch boats --show-hidden-options", 2, "did you mean --help-all?", "a flag of stern"},
		{"watch boats --timestamps=short", 2, "--timestamps=short: must be true or false", "a value of stern"},
		{"get boats --sort-by x", 2, "unknown flag: --sort-by: use kubectl get --sort-by", "a flag of kubectl get"},
		{"get -f x.yaml", 2, "did you mean --follow? For a file: kubectl get -f FILE", "stern's -f, or kubectl's"},
		{"watch boats -Af", 2, "did you mean --follow?", "the flag within a group that is unknown"},
		{"watch boats --tail=1", 2, "use --watch-only for changes alone", "a flag of logs"},
		{"watch boats -c x", 2, "gvrwatch watches objects: use kubectl logs", "a flag of logs"},
		{"get boats --ignore-not-found", 2, "did you mean --allow-missing?", "a flag with another name here"},
		{"resources --ignore-not-found", 2, "unknown flag: --ignore-not-found", "the command lacks that flag"},
		{"watch boats --since-time=1h", 2, "unknown flag: --since-time: ", "a flag of logs"},
		{"top boats --since=1h", 2, "unknown flag: --since: use gvrwatch watch --since", "a flag of watch"},
		{"watch boats --watch-onyl", 2, "did you mean --watch-only?", "a flag that is misspelled"},
		{"watch boats --output-watch-event", 2, "did you mean --output-watch-events?", "the end is missing"},
		{"watch boats --all-namespace", 2, "did you mean --all-namespaces?", "the end is missing"},
		{"watch boats --context-name x", 2, "did you mean --context?", "there is too much"},
		{"watch boats --x", 2, "unknown flag: --x", "nothing is similar to one letter"},

		{"watch baots", 1, `no resource type "baots"; did you mean boats.v1.cli.example.com?`,
			"an unknown name lists similar ones"},
		{"watch boats,yachts", 1, `no resource type "yachts"`, "nothing is watched if one of several names is unknown"},
		{"watch all", 1, `no resource type "all"`, "a category without types is unknown"},
		{"watch baots --follow --server https://127.0.0.1:1", 1, "can't be reached",
			"--follow needs a reachable server"},
		{"watch * --server https://127.0.0.1:1", 1, "can't be reached", "patterns need a reachable server"},
		{"watch * --token wrong", 1, "does not accept the credentials of the kubeconfig", "patterns need credentials"},
		{"watch boats --field-selector spec.size=1", 1, "field label not supported: spec.size",
			"the server checks the fields"},
		{"watch boats --server https://127.0.0.1:1", 1,
			"https://127.0.0.1:1 can't be reached: is it running, and is the kubeconfig right?",
			"the error names the server and what to check"},
		{"resources --server https://127.0.0.1:1", 1, "can't be reached", "resources needs a reachable server"},
		{"watch boats --server " + strings.Replace(srv.URL(), "https", "http", 1), 1,
			"does not accept plain http: should it be https?", "the error of an http URL suggests https"},
		{"watch boats --token wrong", 1, "does not accept the credentials of the kubeconfig",
			"watch needs valid credentials"},
		{"watch boats --context none", 1, `the kubeconfig can't be used: context "none" does not exist`,
			"the context must exist"},
		{"watch boats --kubeconfig " + empty, 1, "no such file", "the kubeconfig must exist"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			status, stdout, stderr := runTool(t, strings.Fields(tt.args)...)
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			wantLines := map[int]int{1: 1, 2: 2}[tt.status] // a usage error has a second line, with the help command
			if status != tt.status || !strings.Contains(lines[0], tt.want) ||
				!strings.HasPrefix(lines[0], "gvrwatch: ") || len(lines) != wantLines || stdout != "" {
				t.Errorf("%s: status %d, want %d, with %q in the first line of stderr and nothing on stdout\n"+
					"stderr: %s\nstdout: %s", tt.why, status, tt.status, tt.want, stderr, stdout)
			}
		})
	}
}

func TestNoKubeconfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	used := os.Getenv("KUBECONFIG")
	dir := t.TempDir()
	none, other := filepath.Join(dir, "none"), filepath.Join(dir, "other")
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const list = string(filepath.ListSeparator)
	for _, c := range []struct {
		why, kubeconfig, flag string
		status                int
		want                  string
	}{
		{"a file that does not exist", none, "", 1, "no cluster configured: KUBECONFIG=" + none + ": no such file\n"},
		{"several", none + list + list + other, "", 1, "KUBECONFIG=" + none + ", " + other + ": no such file\n"},
		{"one that exists is enough, as in kubectl", none + list + used, "", 0, ""},
		{"a file without a cluster", empty + list + none, "", 1, "configured: the kubeconfig has none: name"},
		{"the flag comes first", used, none, 1, none + ": no such file"},
	} {
		t.Setenv("KUBECONFIG", c.kubeconfig)
		args := strings.Fields("get boats -o name")
		if c.flag != "" {
			args = append(args, "--kubeconfig", c.flag)
		}
		status, _, stderr := runTool(t, args...)
		if status != c.status || !strings.Contains(stderr, c.want) || c.want == "" && stderr != "" {
			t.Errorf("%s: status %d, want %d with %q\n%s", c.why, status, c.status, c.want, stderr)
		}
	}
}

func TestNoCurrentContext(t *testing.T) {
	cfg, err := clientcmd.LoadFromFile(srv.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.CurrentContext = ""
	useKubeconfig(t, cfg)
	status, _, stderr := runTool(t, "watch", "boats")
	if status != 1 || !strings.Contains(stderr, "no current-context") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

func useKubeconfig(t *testing.T, cfg *clientcmdapi.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, file); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

func TestTimeoutTooEarly(t *testing.T) {
	silent := "http://" + listen(t).Addr().String() // accepts connections and never responds
	hanging := newHangingProxy(t)                   // serves discovery, but hangs on lists
	const noDiscovery = "discovery did not complete within --timeout=100ms"
	const notSynced = "not synced within --timeout=200ms"
	for args, want := range map[string]string{
		"watch boats --timeout 100ms --server " + silent:                  noDiscovery,
		"watch boats --follow --timeout 100ms --server " + silent:         noDiscovery,
		"watch * --timeout 100ms --server " + silent:                      noDiscovery,
		"watch boats* --timeout 200ms --until-synced --server " + hanging: notSynced,
		"watch boats --timeout 100ms --until-synced --server " + silent:   noDiscovery,
		"watch boats --timeout 200ms --until-synced --server " + hanging:  notSynced,
	} {
		status, stdout, stderr := runTool(t, strings.Fields(args)...)
		if status != 1 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, want 1 with %q\n%s%s", args, status, want, stdout, stderr)
		}
	}
}

func TestRetryAfterOfDiscoveryIsPrinted(t *testing.T) {
	for _, command := range []string{"resources", "watch robots", "watch *"} {
		for fault, want := range map[string]string{
			"discovery 1: 503 retry-after 9s": "/api: the server asks for a wait of 9 s (503 Service Unavailable)",
			"discovery 1-*: 429 retry-after 3600s": "cannot read the server's list of APIs: " +
				`Get "URL/api?timeout=32s": the server asks for a wait of 3600 s (429 Too Many Requests): must be less`,
		} {
			s := newScripted(t, robotType)
			if err := s.Apply(fault); err != nil {
				t.Fatal(err)
			}
			p := s.start(command)
			p.awaitStderr(strings.ReplaceAll(want, "URL", s.url))
			if strings.Contains(fault, "3600") {
				p.wait(statusError)
			} else {
				p.end()
			}
		}
	}
}

func TestEachWaitIsPrintedOnce(t *testing.T) {
	tests := []struct {
		answers string // PATH CODE RETRY-AFTER
		want    string
		why     string
	}{
		{"/api 429 1,/api 503 2,/api 429 3", "/api: 1 s (429 Too Many Requests)", "one line until the path answers"},
		{"/api 429 1,/apis 500 2", "/api: 1 s (429 Too Many Requests), /apis: 2 s (500 Internal Server Error)",
			"by path"},
		{"/a 429 1,/a 200 -,/a 429 2", "/a: 1 s (429 Too Many Requests), /a: 2 s (429 Too Many Requests)", "again"},
		{"/a 429 1,/a 404 9,/a 429 2", "/a: 1 s (429 Too Many Requests), /a: 2 s (429 Too Many Requests)",
			"client-go does not wait after another 4xx"},
		{"/a 429 0,/a 429 -1,/a 429 x,/a 200 9", "", "no wait"},
		{"/a 599 1", "/a: 1 s (599)", "a code without a text"},
	}
	for _, tt := range tests {
		var stderr bytes.Buffer
		code, wait := 0, ""
		p := &waitPrinter{w: &stderr, next: transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: code, Header: http.Header{"Retry-After": {wait}}}, nil
		})}
		for answer := range strings.SplitSeq(tt.answers, ",") {
			path := ""
			if _, err := fmt.Sscan(answer, &path, &code, &wait); err != nil {
				t.Fatal(err)
			}
			if _, err := p.RoundTrip(httptest.NewRequest(http.MethodGet, path, nil)); err != nil {
				t.Error(err)
			}
		}
		replaced := strings.NewReplacer("gvrwatch: ", "", "the server asks for a wait of ", "", "\n", ", ")
		got := replaced.Replace(stderr.String())
		if diff := cmp.Diff(tt.want, strings.TrimSuffix(got, ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// The request that identifies the cluster may have to wait, too.
func TestWaitOfCheckpointIsPrinted(t *testing.T) {
	s := newScripted(t, robotType, namespaceType)
	if err := s.Apply("namespaces get 1-*: 429 retry-after 3600s"); err != nil {
		t.Fatal(err)
	}
	_, stderr := s.start("watch robots --checkpoint " + filepath.Join(t.TempDir(), "db")).wait(statusError)
	const path = "/api/v1/namespaces/kube-system: the server asks for a wait of 3600 s (429 Too Many Requests)\n"
	if !strings.Contains(stderr, path) || !strings.Contains(stderr, "must be less than the timeout") {
		t.Errorf("stderr: %s", stderr)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// newHangingProxy starts a proxy that forwards all requests but those for boats, which hang.
func newHangingProxy(t *testing.T) (address string) {
	t.Helper()
	transport, err := rest.TransportFor(srv.Config())
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/boats") {
			<-r.Context().Done()
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(hs.Close)
	return hs.URL
}

func TestLostOutput(t *testing.T) {
	for _, args := range []string{
		"watch boats --until-synced", "watch boats --until-synced -o wide", "watch boats --until-synced -o name",
		"watch boats --until-synced -o json", "watch boats --until-synced -o yaml",
		"watch boats --until-synced --latest", "watch boats* --until-synced",
		"watch boats --follow --until-synced --latest -o json",
		"resources", "resources -o wide", "resources -o name", "resources -o json",
	} {
		for err, want := range map[error]int{syscall.ENOSPC: 1, syscall.EPIPE: 0} {
			status, stderr := runToolTo(t, brokenWriter{err}, strings.Fields(args)...)
			const full = "can't write the output: no space left on device"
			if status != want || (status == 1) != strings.Contains(stderr, full) {
				t.Errorf("%s, %v: status %d, want %d (a full disk is an error, a reader that exits is not)\n%s",
					args, err, status, want, stderr)
			}
		}
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }
