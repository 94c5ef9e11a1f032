package devserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

func TestServesCustomResources(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	client := dynamicClient(t, s.Config())
	createCRD(t, client)
	created := createWidget(t, client, "a")
	got, err := client.Resource(widgets).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(created.Object, got.Object); diff != "" {
		t.Errorf("the object read differs from the one created (-created +read):\n%s", diff)
	}
}

func TestRefusesAllButTheToken(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for _, test := range []struct {
		why  string
		edit func(*rest.Config)
		want int
	}{
		{"the administrator may do everything", func(*rest.Config) {}, http.StatusOK},
		{"an anonymous user is refused", func(c *rest.Config) { c.BearerToken = "" }, http.StatusUnauthorized},
		{"an unknown token is refused", func(c *rest.Config) { c.BearerToken += "x" }, http.StatusUnauthorized},
		{"the token is not accepted as a password", func(c *rest.Config) {
			c.Username, c.Password, c.BearerToken = "kubernetes-admin", c.BearerToken, ""
		}, http.StatusUnauthorized},
	} {
		config := s.Config()
		test.edit(config)
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{
			"/readyz", "/apis", "/openapi/v2", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/nothing",
		} {
			response, err := client.Get(s.URL() + path)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			want := test.want
			if path == "/nothing" && want == http.StatusOK {
				want = http.StatusNotFound
			}
			if response.StatusCode != want {
				t.Errorf("%s: %s: status %d, want %d", test.why, path, response.StatusCode, want)
			}
		}
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	createCRD(t, dynamicClient(t, s.Config()))
	for _, legacy := range []bool{false, true} {
		client, err := discovery.NewDiscoveryClientForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		client.UseLegacyDiscovery = legacy
		awaitDiscovered(t, client)
		groups, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range groups {
			got = append(got, g.Name+" "+g.PreferredVersion.Version)
		}
		for _, l := range lists {
			for _, r := range l.APIResources {
				if !strings.Contains(r.Name, "/") {
					got = append(got, l.GroupVersion+" "+r.Name+" "+r.Kind)
				}
			}
		}
		slices.Sort(got)
		want := []string{
			"apiextensions.k8s.io v1", "apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition",
			"test.example.com v1", "test.example.com/v1 widgets Widget",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("UseLegacyDiscovery=%v (-want +got):\n%s", legacy, diff)
		}
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	opts := &devserver.Options{Dir: filepath.Join(t.TempDir(), "absent", "data")}
	first := start(t, opts)
	client := dynamicClient(t, first.Config()) // used across all restarts
	kubeconfig, err := os.ReadFile(first.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	createCRD(t, client)
	last := createWidget(t, client, "w-0")

	for i, s := 0, first; i < 3; i++ {
		from := metav1.ListOptions{ResourceVersion: last.GetResourceVersion()}
		w, err := client.Resource(widgets).Watch(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		if e, open := next(t, w); open {
			t.Errorf("restart %d: the watch delivered %v, want its end", i, e)
		}
		s = start(t, opts)
		if diff := cmp.Diff(first.Config(), s.Config()); diff != "" {
			t.Errorf("restart %d: the configuration changed:\n%s", i, diff)
		}
		again, err := os.ReadFile(s.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(kubeconfig), string(again)); diff != "" {
			t.Errorf("restart %d: the kubeconfig changed:\n%s", i, diff)
		}
		last = createWidget(t, client, "w-"+strconv.Itoa(i+1))
		if w, err = client.Resource(widgets).Watch(t.Context(), from); err != nil {
			t.Fatal(err)
		}
		e, _ := next(t, w)
		w.Stop()
		if apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
			continue // usual after a restart: the watch cache is empty
		}
		if e.Type != watch.Added || name(e) != last.GetName() {
			t.Errorf("restart %d: the resumed watch delivered %s %s, want ADDED %s", i, e.Type, name(e), last.GetName())
		}
	}
	list, err := client.Resource(widgets).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 4 {
		t.Errorf("%d objects after the restarts, want 4", len(list.Items))
	}
}

func TestStopEndsWatchesPromptly(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"h2", "http/1.1"} {
		s := start(t, nil)
		config := s.Config()
		config.NextProtos = []string{protocol}
		client := dynamicClient(t, config)
		createCRD(t, client)
		var watches []watch.Interface
		for range 20 {
			w, err := client.Resource(widgets).Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			watches = append(watches, w)
		}
		createWidget(t, client, "a")
		for _, w := range watches {
			if e, _ := next(t, w); e.Type != watch.Added {
				t.Fatalf("%s: a watch delivered %v, want ADDED", protocol, e)
			}
		}
		began := time.Now()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		t.Logf("%s: stopped with 20 open watches in %v", protocol, took)
		if took > 3*time.Second {
			t.Errorf("%s: Stop took %v", protocol, took)
		}
		for _, w := range watches {
			if e, open := next(t, w); open { // not even an ERROR, as after a timeout
				t.Errorf("%s: a watch delivered %v, want its end", protocol, e)
			}
		}
	}
}

func TestStopTwice(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Dir(s.Kubeconfig())); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("Stop returned before it removed the temporary folder: %v", err)
			}
		})
	}
	wg.Wait()
	if err := s.Compact(t.Context()); err == nil {
		t.Error("Compact of a stopped server must fail")
	}
	if conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port()))); err == nil {
		conn.Close()
		t.Error("a stopped server must close its port")
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	used := start(t, &devserver.Options{Dir: t.TempDir()})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no time")
	cancel(cause)
	free, kept := t.TempDir(), t.TempDir()
	data, err := os.ReadFile(used.Kubeconfig())
	if err == nil {
		err = os.WriteFile(filepath.Join(kept, "kubeconfig"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		why  string
		ctx  context.Context
		opts devserver.Options
		is   error
		text string
	}{
		{"two servers can't use one folder", t.Context(), devserver.Options{Dir: filepath.Dir(used.Kubeconfig())},
			devserver.ErrInUse, "in use"},
		{"Dir must not be a file", t.Context(), devserver.Options{Dir: file}, nil, "not a directory"},
		{"the parent of Dir must not be a file", t.Context(), devserver.Options{Dir: filepath.Join(file, "data")},
			nil, "not a directory"},
		{"two servers can't use one port", t.Context(), devserver.Options{Dir: free, Port: used.Port()},
			nil, "address already in use"},
		{"the port of the folder's last server is in use: the error says what to do", t.Context(),
			devserver.Options{Dir: kept}, nil, fmt.Sprintf("port %d, which the server of %s had before: end the "+
				"program that uses it, or choose another port", used.Port(), kept)},
		{"Port must be at most 65535", t.Context(), devserver.Options{Dir: free, Port: 65536}, nil, "invalid port"},
		{"a cancelled context starts nothing", cancelled, devserver.Options{Dir: free}, cause, "no time"},
	} {
		began := time.Now()
		s, err := devserver.Start(test.ctx, &test.opts)
		if err == nil {
			s.Stop()
			t.Errorf("%s: Start succeeded", test.why)
			continue
		}
		text := err.Error()
		if test.is != nil && !errors.Is(err, test.is) ||
			!strings.Contains(text, test.text) || strings.Contains(text, "\n") {
			t.Errorf("%s: error %q", test.why, err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s: Start took %v to fail", test.why, took)
		}
	}
	start(t, &devserver.Options{Dir: free}) // the failed starts left no lock
	if err := os.WriteFile(filepath.Join(kept, "kubeconfig"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, &devserver.Options{Dir: kept}) // and a kubeconfig without a port is replaced
}

// TestCancelledStartStopsServer cancels Start after more and more time. Start must stop what it has started. The
// API server would end the process if it were stopped at the wrong time.
func TestCancelledStartStopsServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for after := time.Duration(0); ; after += 40 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		s, err := devserver.Start(ctx, &devserver.Options{Dir: dir})
		cancel()
		if err == nil {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("cancelled after %v: %v", after, err)
		}
	}
}

func TestDirMayBeTooLongForASocket(t *testing.T) {
	t.Parallel()
	s := start(t, &devserver.Options{Dir: filepath.Join(t.TempDir(), strings.Repeat("long", 50))})
	createCRD(t, dynamicClient(t, s.Config()))
}

func TestCompactExpiresVersions(t *testing.T) {
	t.Parallel()
	s := start(t, &devserver.Options{DisableWatchCache: true})
	client := dynamicClient(t, s.Config())
	createCRD(t, client)
	first := createWidget(t, client, "a")
	for _, n := range []string{"b", "c"} {
		createWidget(t, client, n)
	}
	for range 2 { // the second one has nothing to do
		if err := s.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	from := metav1.ListOptions{ResourceVersion: first.GetResourceVersion()}
	w, err := client.Resource(widgets).Watch(t.Context(), from)
	if err == nil {
		e, _ := next(t, w)
		w.Stop()
		err = apierrors.FromObject(e.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch from a compacted version: %v, want 410", err)
	}
}

func TestOnlyOwnerCanReadFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, &devserver.Options{Dir: dir})
	for path, want := range map[string]os.FileMode{
		dir: 0o700, filepath.Join(dir, "etcd"): 0o700,
		s.Kubeconfig(): 0o600, filepath.Join(dir, "token"): 0o600, filepath.Join(dir, "serving.pem"): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v, want %v", path, got, want)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if config.Insecure || len(config.CAData) == 0 {
		t.Error("the kubeconfig must verify the server's certificate")
	}
	createCRD(t, dynamicClient(t, config))
}

func dynamicClient(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestDamagedData(t *testing.T) {
	// etcd panics if its files are damaged like this, in the second case in its own goroutine.
	for name, damage := range map[string]func(t *testing.T, dir string){
		"log": func(t *testing.T, dir string) {
			logs, err := filepath.Glob(filepath.Join(dir, "etcd", "member", "wal", "0*.wal"))
			if err != nil || len(logs) == 0 {
				t.Fatal(logs, err)
			}
			for _, l := range logs {
				if err := os.Truncate(l, 0); err != nil {
					t.Fatal(err)
				}
			}
		},
		"pages of the database": func(t *testing.T, dir string) {
			db, err := os.OpenFile(filepath.Join(dir, "etcd", "member", "snap", "db"), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.WriteAt(bytes.Repeat([]byte("damage"), 4096), 8192); err != nil {
				t.Fatal(err)
			}
		},
		"database": func(t *testing.T, dir string) {
			path := filepath.Join(dir, "etcd", "member", "snap", "db")
			if err := os.WriteFile(path, bytes.Repeat([]byte("damage"), 4096), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := start(t, &devserver.Options{Dir: dir}).Stop(); err != nil {
				t.Fatal(err)
			}
			damage(t, dir)
			s, err := devserver.Start(t.Context(), &devserver.Options{Dir: dir})
			if err == nil {
				s.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), "remove it and start again") {
				t.Errorf("got %v, want an error that says what to do", err)
			}
		})
	}
}

func TestFolderWritableByOthersIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	s, err := devserver.Start(t.Context(), &devserver.Options{Dir: dir})
	if err == nil {
		s.Stop()
	}
	if err == nil || !strings.Contains(err.Error(), "must not be writable by others") {
		t.Errorf("other users could put a token into the folder: got %v", err)
	}
}

func TestListensOnLoopbackOnly(t *testing.T) {
	s := start(t, nil)
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		ip := a.(*net.IPNet).IP
		if ip.IsLoopback() {
			continue
		}
		c, err := net.DialTimeout("tcp", net.JoinHostPort(ip.String(), strconv.Itoa(s.Port())), time.Second)
		if err == nil {
			c.Close()
			t.Errorf("%s can be reached at %s", s.URL(), ip)
		}
	}
	if file, err := os.ReadFile("/proc/net/tcp"); err == nil {
		// This also works without other interfaces. 0A is LISTEN.
		open := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: ([0-9A-F]{8}):%04X \S+ 0A`, s.Port())).FindSubmatch(file)
		if open == nil || string(open[1]) != "0100007F" {
			t.Errorf("the server must listen only on 127.0.0.1: %s", open)
		}
	}
}
