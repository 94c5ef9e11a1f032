package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/internal/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
)

// TestKilled kills a relay at random instants while objects come, change and go,
// until ten of its runs were told something (-soak multiplies that), and has the
// server forget its history in a third of the rounds. What the relay
// has handled in all its runs must come to what the server has in the end; nothing
// that was committed may come again.
func TestKilled(t *testing.T) {
	t.Parallel()
	rounds := 10 * seedtest.Soak()
	srv := startServer(t, &devserver.Options{Dir: t.TempDir(), DisableWatchCache: true})
	c := newCluster(t, srv.Config())
	if err := devserver.CreateCRDs(t.Context(), c.client, widgets); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := relayOrder{
		Kubeconfig: srv.Kubeconfig(), Resource: "widgets.e2e.example.com",
		Store: filepath.Join(dir, "positions.db"), Log: filepath.Join(dir, "log"),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for i := range 2 {
		writers.Go(func() { writeRandomly(ctx, c, fmt.Sprint("ns-", i)) })
	}
	defer writers.Wait()
	defer cancel()

	var committed []checkpoint.Position // what each run goes on from
	for enough := false; !enough && o.Run < 4*rounds; o.Run++ {
		committed = append(committed, readPosition(t, o.Store))
		before := size(t, o.Log)
		r := startRelay(t, o)
		if o.Run%2 == 0 { // at any time, or while it is at work
			time.Sleep(rand.N(900 * time.Millisecond))
		} else {
			for deadline := time.Now().Add(timeout); size(t, o.Log) == before && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(rand.N(300 * time.Millisecond))
		}
		r.kill()
		if o.Run%3 == 2 {
			time.Sleep(rand.N(300 * time.Millisecond))
			if err := srv.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_, enough = checkRepeats(t, readLog(t, o.Log), committed, rounds)
	}
	cancel()
	writers.Wait()

	committed = append(committed, readPosition(t, o.Store))
	r := startRelay(t, o)
	exist := c.versions()
	synced := func(l relayed) bool { return l.Run == o.Run && l.Type == stream.Synced }
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		log := readLog(t, o.Log)
		diff := difference(exist, outcome(log))
		if diff == "" && slices.ContainsFunc(log, synced) {
			break
		}
		if time.Since(began) > timeout {
			t.Fatalf("what was handled does not come to what there is, or the last run is not in sync: %s", diff)
		}
	}
	r.end()
	log := readLog(t, o.Log)
	if diff := difference(exist, outcome(log)); diff != "" {
		t.Errorf("what was handled does not come to what there is: %s", diff)
	}
	summary, enough := checkRepeats(t, log, committed, rounds)
	t.Log(summary)
	if !enough {
		t.Error("too little happened for this to mean anything")
	}
}

// relayProcess is a relay that runs.
type relayProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

func startRelay(t *testing.T, o relayOrder) *relayProcess {
	t.Helper()
	order, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &relayProcess{t: t, cmd: exec.Command(os.Args[0])}
	r.cmd.Env = append(os.Environ(), relayVariable+"="+string(order))
	r.cmd.Stderr = &r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

func (r *relayProcess) kill() {
	r.t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		r.t.Fatalf("the relay was gone before it was killed: %v; %s", err, &r.stderr)
	}
	if err := r.cmd.Wait(); r.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		r.t.Fatalf("the relay ended before it was killed: %v; %s", err, &r.stderr)
	}
}

func (r *relayProcess) end() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		r.t.Fatalf("the relay: %v; %s", err, &r.stderr)
	}
}

// readPosition is what a killed relay has left.
func readPosition(t *testing.T, path string) checkpoint.Position {
	t.Helper()
	s, err := file.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	saved, err := s.Load(t.Context(), "widgets.e2e.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if saved == nil {
		return checkpoint.Position{}
	}
	return saved.Position
}

// writeRandomly creates, changes and deletes objects in a namespace until ctx ends.
// Many live for a moment only.
func writeRandomly(ctx context.Context, c *cluster, namespace string) {
	for ctx.Err() == nil {
		name := fmt.Sprint("w-", rand.IntN(30))
		objects := c.objects(widgets, namespace)
		o, err := objects.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = objects.Create(ctx, newObject(widgets, name), metav1.CreateOptions{})
		case err != nil:
		case rand.IntN(2) == 0:
			err = objects.Delete(ctx, name, metav1.DeleteOptions{})
		default:
			o.SetLabels(map[string]string{"n": fmt.Sprint(rand.Int())})
			_, err = objects.Update(ctx, o, metav1.UpdateOptions{})
		}
		if err != nil && ctx.Err() == nil {
			c.t.Error(err)
			return
		}
		time.Sleep(rand.N(8 * time.Millisecond))
	}
}

// versions are those of what exists, by uid.
func (c *cluster) versions() map[string]string {
	c.t.Helper()
	list, err := c.client.Resource(widgets.Resource()).List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	exist := map[string]string{}
	for _, o := range list.Items {
		exist[string(o.GetUID())] = o.GetResourceVersion()
	}
	return exist
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	} else if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func readLog(t *testing.T, path string) []relayed {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var log []relayed
	for line := range bytes.Lines(b) {
		var l relayed
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue // being written, or cut off by a kill: not handled
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		log = append(log, l)
	}
	return log
}

// outcome is what the log comes to: the versions of what exists, by uid.
func outcome(log []relayed) map[string]string {
	exist := map[string]string{}
	for _, l := range log {
		switch l.Type {
		case stream.Added, stream.Modified:
			exist[l.UID] = l.ResourceVersion
		case stream.Deleted:
			delete(exist, l.UID)
		}
	}
	return exist
}

func difference(want, got map[string]string) string {
	var lines []string
	for uid, rv := range want {
		if got[uid] != rv {
			lines = append(lines, fmt.Sprintf("%s is at %s, and was handled at %q", uid, rv, got[uid]))
		}
	}
	for uid, rv := range got {
		if _, ok := want[uid]; !ok {
			lines = append(lines, fmt.Sprintf("%s is gone, and was handled at %s", uid, rv))
		}
	}
	return strings.Join(lines, "; ")
}

// checkRepeats checks that a run is not told what was committed before it. It returns
// whether so many runs were told something, and all there is to see was seen.
func checkRepeats(
	t *testing.T, log []relayed, committed []checkpoint.Position, rounds int,
) (summary string, enough bool) {
	t.Helper()
	type event struct {
		kind          stream.Type
		uid, rv, name string
	}
	seen := map[event]int{}
	repeats, gaps, inferred, runs := 0, 0, 0, map[int]bool{}
	for _, l := range log {
		runs[l.Run] = true
		if l.Type == stream.Gap {
			gaps++
		}
		if l.UID == "" {
			continue
		}
		if l.Inferred && l.Type == stream.Deleted {
			inferred++
		}
		e := event{l.Type, l.UID, l.ResourceVersion, l.Name}
		before, again := seen[e]
		seen[e] = l.Run
		if !again {
			continue
		}
		repeats++
		if before == l.Run {
			t.Errorf("run %d was told %v twice", l.Run, e)
		}
		p := committed[l.Run]
		if rv := p.ResourceVersions[""]; rv != "" && !l.Inferred && !newer(t, l.ResourceVersion, rv) {
			t.Errorf("run %d was told %v again, though %s was committed before it", l.Run, e, rv)
		}
		for _, o := range p.Objects {
			if string(o.UID) == l.UID && o.ResourceVersion == l.ResourceVersion && l.Type != stream.Deleted {
				t.Errorf("run %d was told %v again, though it was committed before it", l.Run, e)
			}
		}
	}
	summary = fmt.Sprintf("%d runs, %d of them were told something, %d events, %d of them repeats, %d gaps, "+
		"%d removals inferred", len(committed), len(runs), len(log), repeats, gaps, inferred)
	return summary, len(runs) >= rounds && repeats > 0 && gaps > 0 && inferred > 0
}
