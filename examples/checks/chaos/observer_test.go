package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// observer notes in words what clients see during a fault.
type observer struct {
	t    *testing.T
	w    *world
	open sync.WaitGroup // watches that have not received anything yet
	mu   sync.Mutex
	seen map[string]bool
}

// observe watches and lists in several ways until stop is called, which returns what was seen. saw reports whether
// something was seen so far. It returns when all watches are open.
func observe(t *testing.T, w *world) (saw func(string) bool, stop func() []string) {
	o := &observer{t: t, w: w, seen: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for _, path := range []string{"v1/widgets", "v1/planets"} {
		for _, http2 := range []bool{false, true} {
			o.open.Add(1)
			workers.Go(func() { o.watch(ctx, path, http2) })
		}
	}
	for _, path := range []string{"v1/widgets", "v1/gadgets", "v1beta1/gadgets", "v1/bolts"} {
		workers.Go(func() { o.list(ctx, path, path, w.config(false)) })
	}
	workers.Go(func() { o.list(ctx, "limited widgets", "v1/widgets", w.limited(true)) })
	workers.Go(func() { o.list(ctx, "limited ns-a", "v1/namespaces/ns-a/widgets", w.limited(true)) })
	workers.Go(func() { o.list(ctx, "limited watch", "v1/widgets?watch=1&timeoutSeconds=1", w.limited(true)) })
	workers.Go(func() { o.list(ctx, "page", "v1/widgets?limit=500", w.config(false)) })
	workers.Go(func() { o.resume(ctx, "v1/widgets") })
	workers.Go(func() { o.process(ctx) })
	o.open.Wait()
	saw = func(what string) bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.seen[what]
	}
	return saw, func() []string {
		cancel()
		workers.Wait()
		o.mu.Lock() // against a late timer
		defer o.mu.Unlock()
		return slices.Sorted(maps.Keys(o.seen))
	}
}

func (o *observer) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[fmt.Sprintf(format, args...)] = true
}

func httpClient(t *testing.T, cfg *rest.Config) *http.Client {
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Error(err)
	}
	return c
}

// watch watches from the present, again and again.
func (o *observer) watch(ctx context.Context, path string, http2 bool) {
	cfg := o.w.config(http2)
	c := httpClient(o.t, cfg)
	opened := sync.OnceFunc(o.open.Done)
	defer opened()
	url := cfg.Host + "/apis/" + group + "/" + path + "?watch=1"
	for ctx.Err() == nil {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		response, err := c.Do(r)
		if err != nil || response.StatusCode != http.StatusOK {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		if response.ProtoMajor == 2 != http2 {
			o.note("protocol %s", response.Proto)
		}
		end := o.frames(path, response.Body, opened)
		response.Body.Close()
		if ctx.Err() == nil {
			o.note("%s %s", path, end)
		}
	}
}

// resume lists and watches from there, again and again, and notes whether a watch begins with something older.
func (o *observer) resume(ctx context.Context, path string) {
	cfg := o.w.config(false)
	cfg.Timeout = time.Second
	c := httpClient(o.t, cfg)
	get := func(query string, into any) error {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+"/apis/"+group+"/"+path+query, nil)
		response, err := c.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		return json.NewDecoder(response.Body).Decode(into)
	}
	for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		var list struct {
			Metadata struct{ ResourceVersion string }
		}
		var frame struct {
			Object struct {
				Metadata struct{ ResourceVersion string }
			}
		}
		if get("?limit=1", &list) != nil || revision(list.Metadata.ResourceVersion) <= 0 {
			continue
		}
		from := list.Metadata.ResourceVersion
		err := get("?watch=1&timeoutSeconds=1&resourceVersion="+from, &frame)
		first := revision(frame.Object.Metadata.ResourceVersion)
		if err == nil && 0 < first && first <= revision(from) {
			o.note("watch from before its version")
		}
	}
}

// frames reads a watch, and returns how it ends. It calls opened for each frame.
func (o *observer) frames(path string, body io.Reader, opened func()) string {
	began := time.Now()
	r := bufio.NewReader(body)
	for {
		silence := time.AfterFunc(time.Second, func() { o.note("%s silent", path) })
		line, err := r.ReadBytes('\n')
		silence.Stop()
		opened()
		var frame struct {
			Type   string
			Object struct {
				Kind     string
				Metadata struct{ ResourceVersion string }
			}
		}
		switch broken := json.Unmarshal(line, &frame); {
		case len(line) > 0 && err == nil && broken != nil:
			o.note("undecodable frame")
		case frame.Type == "ERROR":
			o.note("ERROR frame with a %s", frame.Object.Kind)
		case broken == nil:
			o.late(frame.Object.Metadata.ResourceVersion, began)
		}
		switch {
		case err == io.EOF && len(line) == 0:
			return "ended cleanly"
		case err == io.EOF:
			return "ended in a frame"
		case err != nil && len(line) > 0:
			return "broke in a frame"
		case err != nil:
			return "broke"
		}
	}
}

// late notes whether a change arrived long after it was in etcd.
func (o *observer) late(version string, began time.Time) {
	revision, _ := strconv.ParseInt(version, 10, 64)
	for _, c := range slices.Backward(o.w.database.truth.history().changes) {
		if c.Revision == revision && c.At.After(began) && time.Since(c.At) > 150*time.Millisecond {
			o.note("late")
		}
		if c.Revision <= revision {
			return
		}
	}
}

// list lists again and again.
func (o *observer) list(ctx context.Context, name, path string, cfg *rest.Config) {
	cfg.Timeout = 5 * time.Second
	c := httpClient(o.t, cfg)
	last := 0
	for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		began := time.Now()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+"/apis/"+group+"/"+path, nil)
		response, err := c.Do(r)
		var data []byte
		if err == nil {
			data, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		var list struct {
			Kind     string
			Metadata struct{ ResourceVersion, Continue string }
			Items    []any
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "deadline"):
			o.note("%s timed out", name)
		case err != nil:
			o.note("%s failed", name)
		case response.StatusCode != http.StatusOK:
			o.note("%s %d", name, response.StatusCode)
			if response.Header.Get("Retry-After") != "" {
				o.note("Retry-After")
			}
		case strings.Contains(path, "watch=1"):
		case bytes.HasPrefix(data, []byte("<")):
			o.note("html")
		case json.Unmarshal(data, &list) != nil:
			o.note("undecodable list")
		case list.Kind == "":
			o.note("list without a kind")
		case list.Metadata.ResourceVersion == "":
			o.note("list without a version")
		case len(list.Items) == 0 && list.Metadata.Continue != "":
			o.note("page without objects")
		default:
			version, _ := strconv.Atoi(list.Metadata.ResourceVersion)
			if version < last-1000 {
				o.note("far older version")
			} else if version < last {
				o.note("older version")
			}
			last = version
			if time.Since(began) > 200*time.Millisecond {
				o.note("slow")
			}
		}
	}
}

// process notes whether a registered process is paused.
func (o *observer) process(ctx context.Context) {
	cmd := exec.CommandContext(ctx, "sh", "-c", "while echo; do sleep 0.05; done")
	output, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		o.t.Error(err)
		return
	}
	defer o.w.processes.register(cmd.Process.Pid)()
	r := bufio.NewReader(output)
	for {
		began := time.Now()
		if _, err := r.ReadBytes('\n'); err != nil {
			break
		}
		if time.Since(began) > 700*time.Millisecond {
			o.note("process paused")
		}
	}
	cmd.Process.Signal(syscall.SIGCONT)
	cmd.Wait()
}

// expired reports whether a watch can't start at a revision any more.
func expiredAt(ctx context.Context, w *world, revision int64) bool {
	watch, err := w.servers[0].client().Resource(w.definitions.resources()[0].GVR).Watch(ctx, metav1.ListOptions{
		ResourceVersion: fmt.Sprint(revision),
	})
	if err != nil {
		return apierrors.IsResourceExpired(err)
	}
	defer watch.Stop()
	select {
	case ev := <-watch.ResultChan():
		return apierrors.IsResourceExpired(apierrors.FromObject(ev.Object)) ||
			apierrors.IsGone(apierrors.FromObject(ev.Object))
	case <-time.After(5 * time.Second):
		return false
	}
}
