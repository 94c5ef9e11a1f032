package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"k8s.io/apimachinery/pkg/types"
)

// prefix is that of the keys of all custom resources here: /registry/GROUP/RESOURCE/[NAMESPACE/]NAME.
const prefix = "/registry/" + group + "/"

// truth is the history of the custom resources, read from etcd. Its methods may be called by several goroutines.
type truth struct {
	mu      sync.Mutex
	changes []change
	begun   []epoch
	last    map[string]change // the last change of each key
	seen    int64             // revision up to which everything was read
	tops    []top             // the highest revisions that were read
	news    chan struct{}     // closed when seen grows
	err     error             // the history is incomplete
}

func newTruth() *truth {
	return &truth{begun: []epoch{{}}, last: map[string]change{}, news: make(chan struct{})}
}

// follow reads the history of an etcd after what was read before, until stop is called.
func (t *truth) follow(kv mvcc.WatchableKV) (stop func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := kv.NewWatchStream()
	// All keys are watched, not just those of custom resources, so that each revision has an event.
	if _, err := w.Watch(context.Background(), 0, []byte{0}, []byte{}, t.seen+1); err != nil {
		w.Close()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r := range w.Chan() {
			t.add(r)
		}
	}()
	return func() { w.Close(); <-done }, nil
}

func (t *truth) add(r mvcc.WatchResponse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.CompactRevision > 0 {
		t.err = fmt.Errorf("etcd was compacted to revision %d, but read to %d", r.CompactRevision, t.seen)
	}
	for _, ev := range r.Events {
		if key := string(ev.Kv.Key); strings.HasPrefix(key, prefix) {
			c, err := t.decode(ev)
			if err != nil {
				t.err = err
			}
			t.changes = append(t.changes, c)
			t.last[key] = c
		}
		t.seen = ev.Kv.ModRevision
	}
	if n := len(t.tops); n == 0 || t.seen > t.tops[n-1].revision {
		t.tops = append(t.tops, top{time.Now(), t.seen})
	}
	close(t.news)
	t.news = make(chan struct{})
}

func (t *truth) decode(ev *mvccpb.Event) (change, error) {
	key := string(ev.Kv.Key)
	c := change{
		Epoch: len(t.begun) - 1, Revision: ev.Kv.ModRevision, At: time.Now(),
		Kind: modified,
	}
	parts := strings.Split(strings.TrimPrefix(key, prefix), "/")
	c.Resource, c.Name = parts[0]+"."+group, parts[len(parts)-1]
	if len(parts) == 3 {
		c.Namespace = parts[1]
	}
	if ev.Type == mvccpb.Event_DELETE {
		before := t.last[key]
		c.Kind, c.UID, c.Labels = deleted, before.UID, before.Labels
		return c, nil
	}
	if ev.Kv.Version == 1 {
		c.Kind = added
	}
	var object struct {
		Metadata struct {
			UID    types.UID
			Labels map[string]string
		}
	}
	if err := json.NewDecoder(bytes.NewReader(ev.Kv.Value)).Decode(&object); err != nil {
		return c, fmt.Errorf("decode %s at %d: %w", key, c.Revision, err)
	}
	c.UID, c.Labels = object.Metadata.UID, object.Metadata.Labels
	return c, nil
}

// await returns when everything up to a revision has been read.
func (t *truth) await(ctx context.Context, revision int64) error {
	for {
		t.mu.Lock()
		seen, news, err := t.seen, t.news, t.err
		t.mu.Unlock()
		if err != nil || seen >= revision {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("read etcd's history: at revision %d of %d: %w", seen, revision, context.Cause(ctx))
		}
	}
}

// rewind begins a new epoch: etcd is restored from a copy that has nothing after a revision.
func (t *truth) rewind(revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = map[string]change{}
	for _, c := range valid(t.changes, t.begun, len(t.begun)-1) {
		if c.Revision <= revision {
			t.last[prefix+strings.TrimSuffix(c.Resource, "."+group)+"/"+join(c.Namespace, c.Name)] = c
		}
	}
	t.begun = append(t.begun, epoch{After: revision, At: time.Now()})
	t.seen = revision
}

func join(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// valid returns the changes that led to the state of an epoch: its own, and those of earlier epochs up to the copies.
func valid(changes []change, epochs []epoch, at int) []change {
	var kept []change
	for _, c := range changes {
		if c.Epoch > at {
			continue
		}
		void := slices.ContainsFunc(epochs[c.Epoch+1:at+1], func(e epoch) bool { return c.Revision > e.After })
		if !void {
			kept = append(kept, c)
		}
	}
	return kept
}

// history returns all that was read.
func (t *truth) history() *history {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := newHistory(t.changes, slices.Clone(t.begun))
	h.tops = slices.Clone(t.tops)
	return h
}

// failure returns an error if the history is incomplete.
func (t *truth) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
