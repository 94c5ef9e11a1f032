package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	recorded "github.com/gvrwatch/gvrwatch/internal/recording"
)

// recorderClient is the tool with --checkpoint and --record, which is killed with -9 at random moments and started
// again. What counts is what the file of --record has.
type recorderClient struct{}

func (recorderClient) subject() subject {
	return subject{Name: "killed-recorder", Ours: true, Checkpoint: true}
}

func (recorderClient) run(ctx context.Context, w *world, rec *recording) error {
	dir, err := os.MkdirTemp("", "gvrwatch-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tool, kubeconfig := filepath.Join(dir, "gvrwatch"), filepath.Join(dir, "config")
	store, file := filepath.Join(dir, "store"), filepath.Join(dir, "recording")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", tool, toolPackage).CombinedOutput(); err != nil {
		return ended(ctx, fmt.Errorf("build the tool: %w: %s", err, out))
	}
	if err := writeKubeconfig(kubeconfig, newChildConfig(w.config(true))); err != nil {
		return err
	}
	reader := &tapeReader{path: file, rec: rec}
	return killAgainAndAgain(ctx, w, rec, store, func() (*exec.Cmd, func(bool) error) {
		cmd := exec.Command(tool, "watch", "*."+group, "-A", "-o", "name", "--record", file,
			"--checkpoint", store, "--kubeconfig", kubeconfig)
		return cmd, reader.read
	})
}

// tapeReader reads what the processes have recorded.
type tapeReader struct {
	path string
	rec  *recording
	seen int       // entries
	next time.Time // when to read again: to read the whole file takes time
}

// read records the entries that were added. Any of them may have been acked.
func (t *tapeReader) read(ended bool) error {
	began := time.Now()
	if began.Before(t.next) && !ended {
		return nil
	}
	r, err := recorded.Open(t.path)
	var invalid *recorded.Error
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &invalid) && invalid.Line == 0 { // nothing was flushed yet
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	n, run := 0, 0
	for e, err := range r.Entries() {
		if err != nil {
			return err
		}
		if e.Run != nil {
			run++
		}
		if n++; n <= t.seen || e.Event.Type == "" {
			continue
		}
		t.rec.add(reportOf(e, run))
	}
	if n < t.seen {
		return fmt.Errorf("the recording has lost %d of %d entries", t.seen-n, t.seen)
	}
	t.seen, t.next = n, time.Now().Add(max(300*time.Millisecond, 10*time.Since(began)))
	return nil
}

func reportOf(e recorded.Entry, run int) report {
	ev := e.Event
	r := report{
		At: e.Time, Kind: Kind(ev.Type), Resource: ev.Resource.GroupResource().String(), Run: run, Acked: true,
		Namespace: ev.Namespace, Worker: ev.Namespace, ResourceVersion: ev.ResourceVersion, Inferred: ev.Inferred,
	}
	if ev.HasObject() {
		m := ev.Meta()
		r.Namespace, r.Name = m.GetNamespace(), m.GetName()
		r.UID, r.ResourceVersion = m.GetUID(), m.GetResourceVersion()
	}
	if g := ev.Gap; g != nil {
		r.Reason, r.From, r.HistoryLost = string(g.Reason), g.From, g.HistoryLost
	}
	return r
}
