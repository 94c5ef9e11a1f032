package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// The binary of the tests is the program, too, if the variable is set.
func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// most is how much resident memory a manager with a stream may take, in bytes.
const most = 64_000_000

// All ways reconcile every Secret, and then the changes. With -soak 2 there are 100,000 Secrets.
func TestManagers(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it starts processes, which take seconds (.ci/run runs it, without -short)")
	}
	n := 5_000
	if seedtest.Soak() > 1 {
		n = 100_000
	}
	srv, err := start(t.Context(), "-serve", fmt.Sprint(n))
	if err != nil {
		t.Fatal(err)
	}
	defer srv.stop()
	url, err := srv.line()
	if err != nil {
		t.Fatal(err)
	}
	for i, with := range ways {
		t.Run(with, func(t *testing.T) {
			p, err := start(t.Context(), "-with", with, "-server", url, "-until", fmt.Sprint(n))
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.report()
			if err != nil {
				t.Fatal(err)
			}
			m := r.memory
			t.Logf("peak %.1f MB, resident %.1f MB, heap %.1f MB", mb(m.peak), mb(m.resident), mb(m.heap))
			if r.reconciled != n || with == "stream" && m.peak > most {
				t.Errorf("reconciled %d with %d bytes at the peak, want %d with at most %d",
					r.reconciled, m.peak, n, most)
			}
			want := change(t, url, 10*i)
			var got []string
			for range want {
				line, err := p.line()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, line)
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := p.stop(); err != nil {
				t.Errorf("stopped: %v", err)
			}
		})
	}
}

// change deletes one Secret, changes the next one, creates another, and returns what is printed about them, sorted. The
// number of Secrets remains.
func change(t *testing.T, url string, first int) []string {
	t.Helper()
	c := dynamic.NewForConfigOrDie(&rest.Config{Host: url}).Resource(secrets.GroupVersionResource)
	here := c.Namespace(namespaceOf(first))
	if err := here.Delete(t.Context(), nameOf(first), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next := c.Namespace(namespaceOf(first + 1))
	o, err := next.Get(t.Context(), nameOf(first+1), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.SetLabels(map[string]string{"status": "superseded"})
	if _, err := next.Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	created := secret(1_000_000 + first)
	if _, err := c.Namespace(created.GetNamespace()).Create(t.Context(), created, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"reconciled " + namespaceOf(first) + "/" + nameOf(first),
		"reconciled " + o.GetNamespace() + "/" + o.GetName(),
		"reconciled " + created.GetNamespace() + "/" + created.GetName(),
	}
	slices.Sort(want)
	return want
}

// A source that fails ends the manager.
func TestManagerEndsWhenSecretsAreForbidden(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	srv := streamtest.NewServer(secrets)
	defer srv.Close()
	if err := srv.Do("secrets forbid all"); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(srv)
	defer h.Close()
	p, err := start(t.Context(), "-with", "stream", "-server", h.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.report(); err == nil {
		t.Error("it reconciled something")
	}
	if err := p.cmd.Wait(); err == nil || p.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("got %v, want exit code 1", err)
	}
}

func TestInvalidFlags(t *testing.T) {
	for _, c := range []struct {
		why  string
		args []string
		want string
	}{
		{
			"an unknown way", []string{"-with", "list", "-server", "http://localhost:1"},
			"must be stream, cache or compact",
		},
		{"an argument", []string{"secrets"}, "must be a flag"},
	} {
		err := run(t.Context(), c.args)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.why, err)
		}
	}
}
