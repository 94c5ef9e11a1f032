package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

// killedClient has a process with a checkpoint, which is killed with -9 at random moments and started again.
type killedClient struct {
	name  string
	order childOrder
}

func (c killedClient) subject() subject { return subject{Name: c.name, Ours: true, Checkpoint: true} }

func (c killedClient) run(ctx context.Context, w *world, rec *recording) error {
	dir, err := os.MkdirTemp("", "gvrwatch-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o := c.order
	o.Config = newChildConfig(w.config(o.Kind != childInOrder))
	o.Store, o.Log = filepath.Join(dir, "positions.db"), filepath.Join(dir, "log")
	for _, info := range w.definitions.resources() {
		o.Resources = append(o.Resources, resourceOf(info))
	}
	order, err := json.Marshal(o)
	if err != nil {
		return err
	}
	reader := &logReader{path: o.Log, rec: rec}
	return killAgainAndAgain(ctx, w, rec, o.Store, func() (*exec.Cmd, func(bool) error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+string(order))
		return cmd, func(bool) error { return reader.read() }
	})
}

// killAgainAndAgain runs a process, kills it, and runs it again, until ctx ends. The process leaves its checkpoint in
// store. read records what the process has reported since the last call, all of it if the process has ended.
func killAgainAndAgain(
	ctx context.Context, w *world, rec *recording, store string,
	command func() (cmd *exec.Cmd, read func(ended bool) error),
) error {
	for ctx.Err() == nil {
		if err := killOnce(ctx, w, rec, command); err != nil {
			return err
		}
		if err := recordCommitted(store, rec); err != nil {
			return err
		}
		pause(ctx, rand.N(200*time.Millisecond))
	}
	return nil
}

func killOnce(
	ctx context.Context, w *world, rec *recording, command func() (*exec.Cmd, func(ended bool) error),
) error {
	cmd, read := command()
	var stderr bytes.Buffer
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	unregister := w.processes.register(cmd.Process.Pid)
	exited := make(chan struct{})
	go func() { cmd.Wait(); close(exited) }()
	defer func() {
		unregister()
		cmd.Process.Kill()
		<-exited
	}()
	began := rec.count()
	var die <-chan time.Time // when to kill it
	if rand.N(5) == 0 {      // at any time, else soon after something was reported
		die = time.After(rand.N(3 * time.Second))
	}
	waits := time.Now().Add(5 * time.Second)
	afterGap := false // a kill around SYNCED is the most interesting one
	calm := rec.calm
	for {
		select {
		case <-exited:
			if text := bytes.TrimSpace(stderr.Bytes()); len(text) > 0 {
				rec.fail(fmt.Errorf("the process ended: %s", text[:min(len(text), 500)]))
			}
			return read(true)
		case <-ctx.Done():
			cmd.Process.Kill()
			<-exited
			return read(true)
		case <-die:
			cmd.Process.Kill()
			<-exited
			return read(true)
		case <-calm:
			calm, die = nil, nil
		case <-time.After(20 * time.Millisecond):
			if err := read(false); err != nil {
				return err
			}
			switch reports := rec.since(began); {
			case calm == nil:
			case !afterGap && slices.ContainsFunc(reports, func(r report) bool { return r.Kind == gap }):
				afterGap = true
				die = time.After(rand.N(1500 * time.Millisecond))
			case die == nil && (len(reports) > 0 || time.Now().After(waits)):
				die = time.After(rand.N(2500 * time.Millisecond))
			}
		}
	}
}

// recordCommitted records where the checkpoints of a killed process stand.
func recordCommitted(path string, rec *recording) error {
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return nil
	}
	store, err := file.Open(path)
	if err != nil {
		return fmt.Errorf("open the checkpoint of a killed process: %w", err)
	}
	defer store.Close()
	for _, key := range store.Keys() {
		saved, err := store.Load(context.Background(), key)
		if err != nil {
			return fmt.Errorf("load the checkpoint of a killed process: %w", err)
		}
		for _, namespace := range slices.Sorted(maps.Keys(saved.Position.ResourceVersions)) {
			rec.add(report{
				At: time.Now(), Kind: committed, Resource: key, Namespace: namespace, Acked: true,
				ResourceVersion: saved.Position.ResourceVersions[namespace],
			})
		}
	}
	return nil
}

// logReader reads the log of a killedClient's processes.
type logReader struct {
	path   string
	rec    *recording
	offset int64
	run    int
	index  map[int]int // of the reports of the run, by number
}

// read records the lines that were added. It leaves an incomplete line until it is complete. The next process begins
// after it.
func (l *logReader) read() error {
	f, err := os.Open(l.path)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, l.offset, 1<<40))
	if err != nil {
		return err
	}
	for text := range bytes.Lines(b) {
		if !bytes.HasSuffix(text, []byte("\n")) {
			return nil
		}
		l.offset += int64(len(text))
		var one line
		if i := bytes.LastIndex(text, []byte(`{"Begins"`)); i > 0 {
			text = text[i:] // after a line that a kill has torn
		}
		if err := json.Unmarshal(text, &one); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		l.record(one)
	}
	return nil
}

func (l *logReader) record(one line) {
	switch {
	case one.Begins:
		l.run++
		l.index = map[int]int{}
	case one.Report != nil:
		one.Report.Run = l.run
		l.index[one.N] = l.rec.add(*one.Report)
	case one.Acked > 0:
		l.rec.ack(l.index[one.Acked])
	case one.Error != "":
		l.rec.fail(fmt.Errorf("%s", one.Error))
	}
}
