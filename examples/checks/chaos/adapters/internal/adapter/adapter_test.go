package adapter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

func TestNewJudge(t *testing.T) {
	complete := map[string]string{
		"JUDGE_SERVER": "https://127.0.0.1:1", "JUDGE_CA": "ca", "JUDGE_TOKEN": "token",
		"JUDGE_RESOURCES": "api/v1/pods",
	}
	const form = "must be api/VERSION/RESOURCE or apis/GROUP/VERSION/RESOURCE"
	missing := func(name string) string { return "invalid environment: must have " + name + ", as docs/judge.md says" }
	for _, c := range []struct {
		why        string
		name, text string // of a variable that is not as in complete
		want       []schema.GroupVersionResource
		err        string
	}{
		{
			why:  "a type of a group, and one of the core group",
			name: "JUDGE_RESOURCES", text: " apis/chaos.example.com/v1/widgets  api/v1/pods",
			want: []schema.GroupVersionResource{
				{Group: "chaos.example.com", Version: "v1", Resource: "widgets"}, {Version: "v1", Resource: "pods"},
			},
		},
		{why: "no server", name: "JUDGE_SERVER", err: missing("JUDGE_SERVER")},
		{why: "no token", name: "JUDGE_TOKEN", err: missing("JUDGE_TOKEN")},
		{
			why:  "a name is no path",
			name: "JUDGE_RESOURCES", text: "widgets.chaos.example.com",
			err: `JUDGE_RESOURCES: invalid path "widgets.chaos.example.com": ` + form,
		},
		{
			why:  "a path of a group without a version",
			name: "JUDGE_RESOURCES", text: "apis/apps/deployments",
			err: `JUDGE_RESOURCES: invalid path "apis/apps/deployments": ` + form,
		},
		{
			why:  "an empty part",
			name: "JUDGE_RESOURCES", text: "apis//v1/widgets",
			err: `JUDGE_RESOURCES: invalid path "apis//v1/widgets": ` + form,
		},
	} {
		j, err := newJudge(func(name string) string {
			if name == c.name {
				return c.text
			}
			return complete[name]
		}, io.Discard)
		message := ""
		if err != nil {
			message = err.Error()
		}
		if message != c.err {
			t.Errorf("%s: got the error %q, want %q", c.why, message, c.err)
		}
		if err == nil {
			if diff := cmp.Diff(c.want, j.Resources); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		}
	}
}

// TestToken: each request has the token that is in the file at that time.
func TestToken(t *testing.T) {
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "token")
	j, err := newJudge(func(name string) string {
		return map[string]string{"JUDGE_SERVER": srv.URL, "JUDGE_TOKEN": file, "JUDGE_RESOURCES": "api/v1/pods"}[name] +
			map[string]string{"JUDGE_CA": "none"}[name]
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	j.Config.TLSClientConfig = rest.TLSClientConfig{} // the server has no TLS
	client, err := rest.HTTPClientFor(j.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"first", "second\n"} {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		answer, err := client.Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	if diff := cmp.Diff([]string{"Bearer first", "Bearer second"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEach: an error of one resource ends the others.
func TestEach(t *testing.T) {
	j := &Judge{Resources: []schema.GroupVersionResource{{Resource: "bad"}, {Resource: "good"}}}
	failed := errors.New("failed")
	err := j.Each(t.Context(), func(ctx context.Context, r schema.GroupVersionResource) error {
		if r.Resource == "bad" {
			return failed
		}
		<-ctx.Done()
		return nil
	})
	if err != failed {
		t.Errorf("got %v, want %v", err, failed)
	}
}

func TestVersionOf(t *testing.T) {
	info := &debug.BuildInfo{Deps: []*debug.Module{
		{Path: "example.com/released", Version: "v1.2.3"},
		{Path: "example.com/folder", Version: "v0.0.0", Replace: &debug.Module{Path: "../folder"}},
		{Path: "example.com/fork", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/f", Version: "v1.0.1"}},
	}}
	for _, c := range []struct {
		why, module string
		info        *debug.BuildInfo
		want        string
	}{
		{"a release", "example.com/released", info, "released v1.2.3"},
		{"a folder has no version", "example.com/folder", info, "folder (devel)"},
		{"what it was replaced with is what runs", "example.com/fork", info, "fork v1.0.1"},
		{"a module that is not in the program", "example.com/other", info, "other (unknown)"},
		{"a program without its modules", "example.com/released", nil, "released (unknown)"},
	} {
		if got := versionOf(c.info, c.module); got != c.want {
			t.Errorf("%s: got %q, want %q", c.why, got, c.want)
		}
	}
}

func TestLines(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "chaos.example.com", Version: "v1", Resource: "widgets"}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	o := &metav1.ObjectMeta{Namespace: "ns-a", Name: "o-1", UID: "u1", ResourceVersion: "7"}
	for _, c := range []struct {
		why   string
		write func(*Lines)
		want  string
	}{
		{
			"the first line", func(l *Lines) { l.client(Client{Name: "loop", Strict: true}, "client-go v1") },
			`{"type":"CLIENT","name":"loop","version":"client-go v1","strict":true}`,
		},
		{
			"an event of the server", func(l *Lines) { l.Object(watch.Added, widgets, o, false) },
			`{"type":"ADDED","name":"o-1","resource":"widgets.chaos.example.com","namespace":"ns-a","uid":"u1",` +
				`"resourceVersion":"7"}`,
		},
		{
			"what a comparison has found, of the core group and without a namespace",
			func(l *Lines) { l.Object(watch.Deleted, pods, &metav1.ObjectMeta{Name: "n", UID: "u2"}, true) },
			`{"type":"DELETED","name":"n","resource":"pods","uid":"u2","inferred":true}`,
		},
		{
			"a version that is known", func(l *Lines) { l.Synced(widgets, "9") },
			`{"type":"SYNCED","resource":"widgets.chaos.example.com","resourceVersion":"9"}`,
		},
		{
			"one that is not", func(l *Lines) { l.Synced(widgets, "") },
			`{"type":"SYNCED","resource":"widgets.chaos.example.com"}`,
		},
		{"a gap", func(l *Lines) { l.Gap(widgets, Gap{Reason: "expired", From: "4", HistoryLost: true}) },
			`{"type":"GAP","resource":"widgets.chaos.example.com",` +
				`"gap":{"reason":"expired","from":"4","historyLost":true}}`},
		{"an error of two lines", func(l *Lines) { l.Error(errors.New("a\nb")) }, `{"type":"ERROR","message":"a\nb"}`},
	} {
		var w onceWriter
		c.write(NewLines(&w))
		if diff := cmp.Diff(c.want+"\n", w.String()); diff != "" || w.calls != 1 {
			t.Errorf("%s: %d calls of Write, want 1 (-want +got):\n%s", c.why, w.calls, diff)
		}
	}
}

// onceWriter counts calls: a line that takes several could be torn, or wait for the next one.
type onceWriter struct {
	bytes.Buffer // what was written
	calls        int
}

func (w *onceWriter) Write(b []byte) (int, error) {
	w.calls++
	return w.Buffer.Write(b)
}
