package streamtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/recording"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// watchOf records what a Stream of a resource delivers for d. It calls each, which may be nil, with each event.
func watchOf(t *testing.T, srv *streamtest.Server, r gvr.Resource, d time.Duration, opts *stream.Options,
	each func(stream.Event)) streamtest.Recording {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return streamtest.Record(gvrwatch.Watch(ctx, srv.Config(), r.String(), opts), func(ev stream.Event) bool {
		if each != nil {
			each(ev)
		}
		return false
	})
}

// states returns events with their time in seconds and the whole objects, but for resourceVersions.
func states(t *testing.T, rec streamtest.Recording) (all []string) {
	t.Helper()
	for i, ev := range rec.Events {
		object := ""
		if ev.HasObject() {
			o, err := ev.Decode()
			if err != nil {
				t.Fatal(err)
			}
			o = o.DeepCopy()
			o.SetResourceVersion("")
			b, _ := json.Marshal(o)
			object = " " + string(b)
		}
		all = append(all, fmt.Sprint(rec.Times[i].Sub(rec.Begin).Truncate(time.Second), " ", ev.Type, object))
	}
	return all
}

// marks returns events with their time in seconds, and name, uid and size of the object: "3s ADDED shop/door u1 1".
func marks(rec streamtest.Recording) (all []string) {
	for i, ev := range rec.Events {
		mark := fmt.Sprint(rec.Times[i].Sub(rec.Begin).Truncate(time.Second), " ", ev.Type)
		if o := ev.Object; o != nil {
			size, _, _ := unstructured.NestedInt64(o.Object, "spec", "size")
			mark += fmt.Sprintf(" %s %s %d", ev.NamespacedName(), o.GetUID(), size)
		}
		all = append(all, mark)
	}
	return all
}

// TestReplayRecorded: what was watched and recorded is watched again, of another server, hours later.
func TestReplayRecorded(t *testing.T) {
	for _, tt := range []struct {
		why  string
		opts *stream.Options
	}{
		{"whole objects", nil},
		{"their JSON, as the tool records it", &stream.Options{Objects: stream.Raw}},
		{"metadata only", &stream.Options{Objects: stream.Metadata}},
	} {
		bubble(t, func(t *testing.T, seen *streamtest.Server) {
			file := filepath.Join(t.TempDir(), "a.rec")
			secret := gvr.Resource{Kind: "Secret", Namespaced: true}
			secret.Version, secret.Resource = "v1", "secrets"
			seen.Serve(secret)
			all := []gvr.Resource{widgets, globes, secret}

			seen.Put(widgets, "shop", "door", "spec.size=1", "labels.app=web",
				`metadata.finalizers=["example.com/keep"]`)
			seen.Put(widgets, "shop", "gate")
			seen.Put(globes, "", "earth")
			seen.Put(secret, "shop", "key", "data.password=UkVEQUNURUQ=")
			later := func(at time.Duration, do func()) { time.AfterFunc(at, do) }
			later(time.Second, func() { seen.Put(widgets, "shop", "door", "spec.size=2") })
			later(time.Second, func() { seen.Put(globes, "", "mars", "spec.moons=2.5") })
			later(10*time.Minute, func() { _, _ = seen.Delete(widgets, "shop", "door") }) // it has a finalizer
			later(time.Hour, func() { seen.Put(widgets, "shop", "door", "metadata.finalizers=null") })
			later(time.Hour+time.Second, func() { seen.Put(widgets, "shop", "door", "spec.size=3") }) // another
			later(2*time.Hour, func() { _, _ = seen.Delete(globes, "", "earth") })
			later(2*time.Hour, func() { seen.Put(secret, "shop", "key", "data.password=UkVEQUNURUQ5") })
			later(3*time.Hour, func() { seen.Put(widgets, "shop", "door", "status.ready=true") })

			w, err := recording.Create(file, recording.Header{Start: recording.Snapshot})
			if err != nil {
				t.Fatal(err)
			}
			watches := func(srv *streamtest.Server, each func(stream.Event)) []streamtest.Recording {
				recs := make([]streamtest.Recording, len(all))
				var group sync.WaitGroup
				for i, r := range all {
					group.Go(func() { recs[i] = watchOf(t, srv, r, 4*time.Hour, tt.opts, each) })
				}
				group.Wait()
				return recs
			}
			want := watches(seen, func(ev stream.Event) {
				if err := w.Add(time.Now(), ev, nil, nil); err != nil {
					t.Error(err)
				}
			})
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Hour)

			srv := streamtest.NewServer()
			defer srv.Close()
			if err := srv.Replay(file); err != nil {
				t.Fatal(err)
			}
			for i, got := range watches(srv, nil) {
				if diff := cmp.Diff(states(t, want[i]), states(t, got)); diff != "" {
					t.Errorf("%s, %s (-want +got):\n%s", tt.why, all[i], diff)
				}
				if tt.opts != nil && tt.opts.Objects == stream.Metadata {
					continue // a History has whole objects
				}
				err := streamtest.Check(srv.History(all[i], nil), got.Events, &streamtest.CheckOptions{Complete: true})
				if err != nil {
					t.Errorf("%s, %s: %v", tt.why, all[i], err)
				}
			}
			if n := len(want[0].Events); n != 8 { // 2 ADDED, SYNCED, 2 MODIFIED, DELETED, ADDED, MODIFIED
				t.Errorf("%s: %d events of widgets:\n%s", tt.why, n, strings.Join(states(t, want[0]), "\n"))
			}
		})
	}
}

// TestReplayIncident: a recording in testdata, as text, is the input of a test.
func TestReplayIncident(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watched := widgets
		watched.Verbs = []string{"list", "watch"}
		srv := streamtest.NewServer(watched)
		defer srv.Close()
		if err := srv.Replay("testdata/incident.rec"); err != nil {
			t.Fatal(err)
		}
		if _, err := srv.Client().Resource(widgets.GroupVersionResource).Namespace("shop").Get(t.Context(), "door",
			metav1.GetOptions{}); !apierrors.IsMethodNotSupported(err) {
			t.Errorf("what was served is served otherwise: %v", err)
		}
		if earth, err := srv.Client().Resource(globes.GroupVersionResource).Get(t.Context(), "earth",
			metav1.GetOptions{}); err != nil || earth.GetUID() != "u3" {
			t.Errorf("what existed: %v, %v", earth, err)
		}
		rec := watchOf(t, srv, widgets, 3*time.Hour, nil, nil)
		want := []string{
			"0s ADDED shop/door u1 1", "0s ADDED shop/gate u2 0", "0s SYNCED",
			"10m0s MODIFIED shop/door u1 1",
			"20m0s DELETED shop/door u1 1", "20m0s ADDED shop/door u4 2", // what a GAP hid
			"2h0m1s DELETED shop/gate u2 0", // in another run
			"2h0m9s MODIFIED shop/door u4 3",
		}
		if diff := cmp.Diff(want, marks(rec)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		err := streamtest.Check(srv.History(widgets, nil), rec.Events, &streamtest.CheckOptions{Complete: true})
		if err != nil {
			t.Error(err)
		}
		dying := rec.Events[3].Object
		got := []any{dying.GetGeneration(), dying.GetFinalizers(), dying.GetCreationTimestamp().UTC().String(),
			dying.GetDeletionTimestamp().UTC().String()}
		if diff := cmp.Diff([]any{int64(4), []string{"example.com/keep"}, "2026-02-01 00:00:00 +0000 UTC",
			"2026-03-01 03:09:59 +0000 UTC"}, got); diff != "" {
			t.Errorf("an object that is being deleted (-want +got):\n%s", diff)
		}
	})
}

const (
	runLine = `{"type":"RUN","time":"2026-03-01T03:00:00Z","run":{"format":1,"selection":{}}}` + "\n"
	defined = `{"type":"RESOURCE","resource":"widgets.v1.example.com","definition":{"group":"example.com",` +
		`"version":"v1","plural":"widgets","kind":"Widget","namespaced":true}}` + "\n"
)

// text returns a recording of widgets.
func text(changes ...string) string { return runLine + defined + lines(changes...) }

// lines returns lines of a recording. A change is "SECONDS TYPE shop/door uid size"; the version is its number.
func lines(changes ...string) string {
	var b strings.Builder
	for i, c := range changes {
		f := strings.Fields(c + " -")
		var at time.Duration
		fmt.Sscan(f[0], (*int64)(&at))
		l := map[string]any{"type": f[1], "time": time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC).Add(at * time.Second),
			"resource": "widgets.v1.example.com", "resourceVersion": fmt.Sprint(i + 100)}
		if f[1] == "RUN" {
			l = map[string]any{"type": "RUN", "time": l["time"], "run": map[string]any{"format": 1}}
		}
		if len(f) > 4 {
			namespace, name, _ := strings.Cut(f[2], "/")
			o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": json.Number(f[4])}}}
			o.SetName(name)
			o.SetNamespace(namespace)
			o.SetResourceVersion(fmt.Sprint(i + 100))
			if f[3] != "-" {
				_ = unstructured.SetNestedField(o.Object, f[3], "metadata", "uid")
			}
			l["object"] = o.Object
		}
		line, _ := json.Marshal(l)
		b.Write(append(line, '\n'))
		if f[1] == "RUN" {
			b.WriteString(defined)
		}
	}
	return b.String()
}

// TestReplay: what each event of a recording does to a server.
func TestReplay(t *testing.T) {
	const more = 25 * time.Hour
	in := func(namespace string, changes ...string) string { // watched separately
		return strings.ReplaceAll(lines(changes...), `,"time":`, `,"namespace":"`+namespace+`","time":`)
	}
	v2 := strings.ReplaceAll(defined, `v1`, `v2`)
	for _, tt := range []struct {
		why     string
		recs    []string // replayed at the same time
		prepare func(srv *streamtest.Server)
		want    []string
	}{
		{"no events", []string{runLine, runLine + defined}, func(srv *streamtest.Server) { srv.Serve(widgets) },
			[]string{"0s SYNCED"}},
		{"SYNCED only", []string{text("1 SYNCED")}, nil, []string{"0s SYNCED"}},
		{"a writer was killed within a line", []string{text("1 SYNCED", "2 ADDED shop/a u1 1") + `{"type":"ADD`}, nil,
			[]string{"0s SYNCED", "2s ADDED shop/a u1 1"}},
		{"the pauses are those since the recording began, and a clock that goes back makes none",
			[]string{text("1 ADDED shop/a u1 1", "3 SYNCED", "5 MODIFIED shop/a u1 2", "2 MODIFIED shop/a u1 3",
				"86400 MODIFIED shop/a u1 4")}, nil,
			[]string{"0s ADDED shop/a u1 1", "0s SYNCED", "5s MODIFIED shop/a u1 2", "5s MODIFIED shop/a u1 3",
				"24h0m0s MODIFIED shop/a u1 4"}},
		{"a recording that has only later changes: MODIFIED creates, DELETED of the unknown does nothing",
			[]string{text("1 SYNCED", "2 MODIFIED shop/a u1 1", "3 DELETED shop/b u2 1", "4 DELETED shop/a u1 1")}, nil,
			[]string{"0s SYNCED", "2s ADDED shop/a u1 1", "4s DELETED shop/a u1 1"}},
		{"another object of the name", []string{text("1 SYNCED", "2 ADDED shop/a u1 1", "3 ADDED shop/a u2 2",
			"4 DELETED shop/a u1 1")}, nil,
			[]string{"0s SYNCED", "2s ADDED shop/a u1 1", "3s DELETED shop/a u1 1", "3s ADDED shop/a u2 2"}},
		{"without a uid a name is an object", []string{text("1 ADDED shop/a - 1", "1 SYNCED", "2 MODIFIED shop/a - 2",
			"3 DELETED shop/a - 2")}, nil,
			[]string{"0s ADDED shop/a  1", "0s SYNCED", "2s MODIFIED shop/a  2", "3s DELETED shop/a  2"}},
		{"a change that does not show, as of a redacted Secret", []string{text("1 SYNCED", "2 ADDED shop/a u1 1",
			"3 MODIFIED shop/a u1 1")}, nil,
			[]string{"0s SYNCED", "2s ADDED shop/a u1 1", "3s MODIFIED shop/a u1 1"}},
		{"a run that ends before SYNCED, and another one", []string{text("1 ADDED shop/a u1 1", "10 RUN",
			"11 ADDED shop/a u1 1", "12 ADDED shop/b u2 1", "13 SYNCED", "14 MODIFIED shop/b u2 2")}, nil,
			[]string{"0s ADDED shop/a u1 1", "0s SYNCED", "11s MODIFIED shop/a u1 1", "12s ADDED shop/b u2 1",
				"14s MODIFIED shop/b u2 2"}},
		{"an object of the test's is replaced",
			[]string{text("1 ADDED shop/a u1 1", "1 SYNCED", "2 ADDED shop/b u2 1")},
			func(srv *streamtest.Server) {
				srv.Serve(widgets)
				srv.Put(widgets, "shop", "a", "spec.size=7")
				time.AfterFunc(time.Second, func() { srv.Put(widgets, "shop", "b", "spec.size=7") })
			}, []string{"0s ADDED shop/a u1 1", "0s SYNCED", "1s ADDED shop/b 00000000-0000-4000-8000-000000000002 7",
				"2s DELETED shop/b 00000000-0000-4000-8000-000000000002 7", "2s ADDED shop/b u2 1"}},
		{"new objects have other uids than recorded ones of such a server",
			[]string{text("1 ADDED shop/a 00000000-0000-4000-8000-000000000041 1", "1 SYNCED")},
			func(srv *streamtest.Server) { time.AfterFunc(time.Second, func() { srv.Put(widgets, "shop", "b") }) },
			[]string{"0s ADDED shop/a 00000000-0000-4000-8000-000000000041 1", "0s SYNCED",
				"1s ADDED shop/b 00000000-0000-4000-8000-000000000042 0"}},
		{"the same recording twice", []string{
			text("1 ADDED shop/a u1 1", "1 SYNCED", "2 ADDED shop/b u2 1"),
			text("1 ADDED shop/a u1 1", "1 SYNCED", "2 ADDED shop/b u2 1"),
		}, nil, []string{"0s ADDED shop/a u1 1", "0s SYNCED", "2s ADDED shop/b u2 1"}},
		{"two recordings", []string{
			text("1 ADDED shop/a u1 1", "1 SYNCED", "3 ADDED shop/b u2 1"),
			text("1 ADDED shop/c u3 1", "1 SYNCED", "2 ADDED shop/d u4 1"),
		}, nil, []string{"0s ADDED shop/a u1 1", "0s ADDED shop/c u3 1", "0s SYNCED", "2s ADDED shop/d u4 1",
			"3s ADDED shop/b u2 1"}},
		{"versions side by side share their objects", []string{text("1 ADDED shop/a u1 1", "1 SYNCED",
			"3 MODIFIED shop/a u1 2", "4 DELETED shop/a u1 2") + v2 + strings.ReplaceAll(strings.TrimPrefix(
			text("1 ADDED shop/a u1 1", "1 SYNCED", "5 MODIFIED shop/a u1 2", "6 DELETED shop/a u1 2"),
			runLine+defined), "v1", "v2")}, nil,
			[]string{"0s ADDED shop/a u1 1", "0s SYNCED", "3s MODIFIED shop/a u1 2", "4s DELETED shop/a u1 2"}},
		{"namespaces are SYNCED on their own", []string{text() + in("shop", "1 ADDED shop/a u1 1", "1 SYNCED") +
			lines("2 ADDED shop/b u2 1") + lines("3 ADDED web/c u3 1") + in("shop", "4 ADDED shop/d u4 1")}, nil,
			[]string{"0s ADDED shop/a u1 1", "0s ADDED shop/b u2 1", "0s ADDED web/c u3 1", "0s SYNCED",
				"4s ADDED shop/d u4 1"}},
		{"namespaces are SYNCED together", []string{text() + in("shop", "1 ADDED shop/a u1 1") + lines("2 SYNCED") +
			in("shop", "3 ADDED shop/b u2 1")}, nil,
			[]string{"0s ADDED shop/a u1 1", "0s SYNCED", "3s ADDED shop/b u2 1"}},
		{"nothing happens after Close", []string{text("1 SYNCED", "2 ADDED shop/a u1 1", "9 ADDED shop/b u2 1")},
			func(srv *streamtest.Server) { time.AfterFunc(5*time.Second, srv.Close) },
			[]string{"0s SYNCED", "2s ADDED shop/a u1 1"}},
		{"a CRD that is created again has no objects", []string{text("1 SYNCED", "2 ADDED shop/a u1 1",
			"4 ADDED shop/b u2 1", "6 MODIFIED shop/b u2 2")},
			func(srv *streamtest.Server) {
				time.AfterFunc(3*time.Second, func() { _ = srv.Do("widgets delete crd") })
				time.AfterFunc(5*time.Second, func() { _ = srv.Do("widgets create crd") })
			}, []string{"0s SYNCED", "2s ADDED shop/a u1 1", "3s DELETED shop/a u1 1", "5s GAP", "5s SYNCED",
				"6s ADDED shop/b u2 2"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := &streamtest.Server{}
			if tt.prepare != nil {
				tt.prepare(srv)
			}
			for i, rec := range tt.recs {
				file := filepath.Join(t.TempDir(), fmt.Sprint(i, ".rec"))
				if err := os.WriteFile(file, []byte(rec), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := srv.Replay(file); err != nil {
					t.Fatalf("%s: %v", tt.why, err)
				}
			}
			rec := watchOf(t, srv, widgets, more, nil, nil)
			if diff := cmp.Diff(tt.want, marks(rec)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

// TestReplayErrors: what is no recording, or not for this server, changes nothing.
func TestReplayErrors(t *testing.T) {
	cluster := strings.Replace(defined, `,"namespaced":true`, "", 1)
	for _, tt := range []struct {
		why, text, want string
		recording       bool // the error is a *recording.Error
	}{
		{"an empty file", "", "it is empty", true},
		{"no recording", "hello", "must be what --record has written", true},
		{"a damage in the initial part", text("1 ADDED shop/a u1 1") + "{]\n", "line 4: it is no JSON", true},
		{"a damage after it", text("1 ADDED shop/a u1 1", "1 SYNCED", "2 ADDED shop/b u2 1") + "{]\n",
			"line 6: ", true},
		{"a newer format", strings.Replace(runLine, `"format":1`, `"format":2`, 1), "its format is 2", true},
		{"an object without a namespace", text("1 ADDED /a u1 1", "1 SYNCED"),
			`invalid event "ADDED a@100" of widgets.v1.example.com: the object must have a namespace`, true},
		{"one with a namespace, of a cluster-scoped resource", strings.Replace(text("1 ADDED shop/a u1 1"), defined,
			cluster, 1), "the object must have no namespace", true},
		{"an object without a name", text("1 ADDED shop/ u1 1"), "the object must have a name", true},
		{"a hostile name", strings.Replace(text("1 ADDED /a u1 1"), `"name":"a"`, `"name":"a\u001b[31m\n"`, 1),
			"the object must have a namespace", true},
		{"an object that is no JSON",
			text() + `{"type":"ADDED","resource":"widgets.v1.example.com","text":"{]"}` + "\n", "invalid event", true},
		{"another kind than the server's", strings.Replace(text("1 SYNCED"), `"Widget"`, `"Gadget"`, 1),
			"widgets.v1.example.com is a Gadget, namespaced: true; widgets.v1.example.com is a Widget, " +
				"namespaced: true: must be the same", false},
		{"another scope than that of the server's version",
			strings.ReplaceAll(strings.Replace(text("1 SYNCED"), defined, cluster, 1), "v1", "v2"),
			"widgets.v2.example.com is a Widget, namespaced: false; widgets.v1", false},
		{"another scope than before", strings.ReplaceAll(text("1 SYNCED", "2 RUN", "3 SYNCED"), "widgets", "gadgets") +
			strings.Replace(strings.ReplaceAll(cluster, "v1", "v2"), "widgets", "gadgets", 2) +
			`{"type":"SYNCED","resource":"gadgets.v2.example.com"}` + "\n",
			"gadgets.v2.example.com is a Widget", false},
	} {
		bubble(t, func(t *testing.T, srv *streamtest.Server) {
			file := filepath.Join(t.TempDir(), "a.rec")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := srv.Replay(file)
			var invalid *recording.Error
			if got := fmt.Sprint(err); !strings.HasPrefix(got, "streamtest: replay") || !strings.Contains(got, file) ||
				!strings.Contains(got, tt.want) || strings.ContainsAny(got, "\x1b\n") ||
				errors.As(err, &invalid) != tt.recording {
				t.Errorf("%s: got %v, want %s", tt.why, err, tt.want)
			}
			time.Sleep(time.Hour)
			if got := srv.ResourceVersion(); got != "1" {
				t.Errorf("%s: the server is at %s", tt.why, got)
			}
		})
	}
	missing := streamtest.NewServer().Replay(filepath.Join(t.TempDir(), "none.rec"))
	if !errors.Is(missing, fs.ErrNotExist) || !strings.Contains(missing.Error(), "none.rec") {
		t.Errorf("a file that does not exist: %v", missing)
	}
}

// TestReplayEnds: a bubble can end while changes are due.
func TestReplayEnds(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		if err := srv.Replay("testdata/incident.rec"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Minute)
	})
}
