package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
		{"watch", 2, "name at least one resource type", "no argument"},
		{"watch boats oceans", 2, "written with commas", "a space for a comma"},
		{"watch boats/argo", 2, "single objects", "kubectl's TYPE/NAME"},
		{"watch boats,", 2, "it is empty", "a comma too many"},
		{"watch boats --all", 2, `--all watches every type, so that "boats" is one too many`, "kubectl's --all are all objects of a type"},
		{"watch --all --category all", 2, "--category says nothing more", ""},
		{"watch [*.example.com", 2, `"[*.example.com" is no pattern of resource types: must be a pattern of path.Match: syntax error in pattern`, "a bracket is open"},
		{"watch apps/*", 2, "must be NAME.GROUP, without slashes", "the spelling of names"},
		{"watch * --exclude [a", 2, "--exclude=[a: must be a pattern of path.Match: syntax error in pattern", ""},
		{"watch boats --exclude oceans", 2, "--exclude: there is nothing to leave anything out of", "names are watched in any case"},
		{"watch boats --candidates harbour -A", 2, "--candidates: they are for what is followed: add --follow", ""},
		{"watch boats --candidates harbour --follow", 2, "--candidates: they are tried where all namespaces are wanted: add -A", ""},
		{"watch boats --candidates No/Such --follow -A", 2, "--candidates=No/Such: must be the name of a namespace", ""},
		{"watch --category=,", 2, "must be the name of a category, such as all", "a variable that is not set"},
		{"watch boats -o table", 2, "--output=table: it must be one of wide, json, yaml, name", "a format that is none"},
		{"resources -o yaml", 2, "--output=yaml: it must be one of wide, name, json", "a format that is none here"},
		{"watch boats --limit -1", 2, "--limit=-1: it must not be negative", ""},
		{"watch boats --timeout -1s", 2, "--timeout=-1s: it must not be negative", ""},
		{"watch boats --timeout soon", 2, `invalid argument "soon"`, "no duration"},
		{"watch boats -l a==b==c", 2, "--selector=a==b==c: it must be a label selector", ""},
		{"watch boats --field-selector metadata.name", 2, "--field-selector=metadata.name: it must be a field selector", ""},
		{"watch boats -n No/Such", 2, "--namespace=No/Such: it must be the name of a namespace", "the command line alone shows it"},
		{"watch boats --request-timeout 1s", 2, "unknown flag: --request-timeout", "it would end every watch"},
		{"watch boats --colour", 2, "unknown flag: --colour", ""},
		{"wacht", 2, `unknown command "wacht" for "gvrwatch" Did you mean this? watch`, ""},
		{"demo --for 0s", 2, "--for=0s: it must be more than zero", ""},
		{"devserver --port 70000", 2, "--port=70000: it must be between 0 and 65535", ""},
		{"devserver more", 2, "unknown command", "no arguments"},

		{"watch baots", 1, `no resource type "baots"; did you mean boats.v1.cli.example.com?`, "a slip"},
		{"watch boats,yachts", 1, `no resource type "yachts"`, "one of several is wrong: nothing is watched"},
		{"watch all", 1, `no resource type "all"`, "nothing here is of that category"},
		{"watch baots --follow --server https://127.0.0.1:1", 1, "can't be reached", "nobody can say what is to be waited for"},
		{"watch * --server https://127.0.0.1:1", 1, "can't be reached", "patterns neither"},
		{"watch * --token wrong", 1, "does not accept the credentials of the kubeconfig", ""},
		{"watch oceans -n harbour", 1, `invalid Namespaces "harbour": must be empty, because oceans.v1.cli.example.com is cluster-scoped`, ""},
		{"watch boats --field-selector spec.size=1", 1, "field label not supported: spec.size", "only the server knows the fields"},
		{"watch boats --server https://127.0.0.1:1", 1, "https://127.0.0.1:1 can't be reached: is it running, and is the kubeconfig right?", ""},
		{"resources --server https://127.0.0.1:1", 1, "can't be reached", ""},
		{"watch boats --server " + strings.Replace(srv.URL(), "https", "http", 1), 1, "does not take plain http: should it be https?", ""},
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

func TestNoCurrentContext(t *testing.T) {
	cfg, err := clientcmd.LoadFromFile(srv.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.CurrentContext = ""
	useKubeconfig(t, cfg)
	status, _, stderr := gvrwatch(t, "watch", "boats")
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
	silent := "http://" + listen(t).Addr().String() // accepts connections and never says anything
	hanging := newHangingProxy(t)                   // says what is served, but lists nothing
	for args, want := range map[string]string{
		"watch boats --timeout 100ms --server " + silent:                  "the server has not said what it serves within --timeout=100ms",
		"watch boats --follow --timeout 100ms --server " + silent:         "the server has not said what it serves within --timeout=100ms",
		"watch * --timeout 100ms --server " + silent:                      "the server has not said what it serves within --timeout=100ms",
		"watch boats* --timeout 200ms --until-synced --server " + hanging: "not synced within --timeout=200ms",
		"watch boats --timeout 100ms --until-synced --server " + silent:   "the server has not said what it serves within --timeout=100ms",
		"watch boats --timeout 200ms --until-synced --server " + hanging:  "not synced within --timeout=200ms",
	} {
		status, stdout, stderr := gvrwatch(t, strings.Fields(args)...)
		if status != 1 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, want 1 with %q\n%s%s", args, status, want, stdout, stderr)
		}
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

// newHangingProxy passes on all but the requests for objects.
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
		"watch boats --until-synced --latest", "watch boats* --until-synced", "watch boats --follow --until-synced --latest -o json",
		"resources", "resources -o wide", "resources -o name", "resources -o json", "devserver", "demo --for 100ms",
	} {
		for err, want := range map[error]int{syscall.ENOSPC: 1, syscall.EPIPE: 0} {
			status, stderr := gvrwatchTo(t, brokenWriter{err}, strings.Fields(args)...)
			if status != want || (status == 1) != strings.Contains(stderr, "can't write the output: no space left on device") {
				t.Errorf("%s, %v: status %d, want %d (a reader who leaves is no error, a full disk is)\n%s", args, err, status, want, stderr)
			}
		}
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }
