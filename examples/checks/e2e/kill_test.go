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
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
)

// TestKilledRelay kills a relay at random moments while objects are created, changed and deleted, until ten of its runs
// have received events (-soak multiplies that). In a third of the rounds it compacts the server. The events that the
// relay handled in all runs must lead to the objects on the server, and no committed event may be delivered again.
func TestKilledRelay(t *testing.T) {
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

	var committed []checkpoint.Position // where each run resumes
	for enough := false; !enough && o.Run < 4*rounds; o.Run++ {
		committed = append(committed, readPosition(t, o.Store))
		before := size(t, o.Log)
		r := startRelay(t, o)
		if o.Run%2 == 0 { // kill it at any time, or else while it handles events
			time.Sleep(rand.N(900 * time.Millisecond))
		} else {
			poll(t.Context(), timeout, func() bool { return size(t, o.Log) != before })
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
	if !poll(t.Context(), timeout, func() bool {
		log := readLog(t, o.Log)
		return difference(exist, outcome(log)) == "" && slices.ContainsFunc(log, synced)
	}) {
		t.Fatalf("the handled events do not lead to the objects on the server, or SYNCED is missing: %s",
			difference(exist, outcome(readLog(t, o.Log))))
	}
	r.end()
	log := readLog(t, o.Log)
	if diff := difference(exist, outcome(log)); diff != "" {
		t.Errorf("the handled events do not lead to the objects on the server: %s", diff)
	}
	summary, enough := checkRepeats(t, log, committed, rounds)
	t.Log(summary)
	if !enough {
		t.Error("too few events, repeats, gaps or inferred removals for a meaningful test")
	}
}

// relayProcess is a relay in a process of its own.
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
		r.t.Fatalf("killing the relay: %v; %s", err, &r.stderr)
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
		r.t.Fatalf("the relay failed: %v; %s", err, &r.stderr)
	}
}

// readPosition returns the position that a killed relay has left.
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

// writeRandomly creates, changes and deletes objects in a namespace until ctx ends. Many objects exist only briefly.
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

// versions returns the resourceVersions of all existing widgets, by uid.
func (c *cluster) versions() map[string]string {
	c.t.Helper()
	list, err := c.client.Resource(widgets.Resource()).List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	versions := map[string]string{}
	for _, o := range list.Items {
		versions[string(o.GetUID())] = o.GetResourceVersion()
	}
	return versions
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
			continue // an incomplete line is not handled: the relay was killed, or still writes it
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		log = append(log, l)
	}
	return log
}

// outcome returns the resourceVersions of the objects that exist according to the log, by uid.
func outcome(log []relayed) map[string]string {
	versions := map[string]string{}
	for _, l := range log {
		switch l.Type {
		case stream.Added, stream.Modified:
			versions[l.UID] = l.ResourceVersion
		case stream.Deleted:
			delete(versions, l.UID)
		}
	}
	return versions
}

func difference(want, got map[string]string) string {
	var lines []string
	for uid, rv := range want {
		if got[uid] != rv {
			lines = append(lines, fmt.Sprintf("%s is at %s, but was last handled at %q", uid, rv, got[uid]))
		}
	}
	for uid, rv := range got {
		if _, ok := want[uid]; !ok {
			lines = append(lines, fmt.Sprintf("%s is deleted, but was last handled at %s", uid, rv))
		}
	}
	return strings.Join(lines, "; ")
}

// checkRepeats checks that no event repeats within a run, and that no run receives an event that was committed before
// it. enough is true once the log has events of that many runs (rounds), a repeat, a gap and an inferred removal.
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
			t.Errorf("run %d received %v twice", l.Run, e)
		}
		p := committed[l.Run]
		if rv := p.ResourceVersions[""]; rv != "" && !l.Inferred && !newer(t, l.ResourceVersion, rv) {
			t.Errorf("run %d received %v again, though %s was committed before the run", l.Run, e, rv)
		}
		for _, o := range p.Objects {
			if string(o.UID) == l.UID && o.ResourceVersion == l.ResourceVersion && l.Type != stream.Deleted {
				t.Errorf("run %d received %v again, though it was committed before the run", l.Run, e)
			}
		}
	}
	summary = fmt.Sprintf("%d runs, %d with events; %d events, %d repeats, %d gaps, %d inferred removals",
		len(committed), len(runs), len(log), repeats, gaps, inferred)
	return summary, len(runs) >= rounds && repeats > 0 && gaps > 0 && inferred > 0
}
