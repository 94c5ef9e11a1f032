package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
)

// record is a message or a position in the log.
type record struct {
	message  *engine.Message
	position *engine.Entry
	epoch    uint64 // of the message
	time     time.Time
	skipped  string // the name of the object that the message stands for
	leaks    bool   // the message has a password
}

func (r record) revision() uint64 {
	if r.message != nil {
		return r.message.Revision
	}
	return r.position.Revision
}

func (r record) cluster() string {
	if r.message != nil {
		return r.message.Unit.Cluster
	}
	return r.position.Unit.Cluster
}

// of returns the records of a cluster.
func of(log []record, cluster string) []record {
	return slices.DeleteFunc(slices.Clone(log), func(r record) bool { return r.cluster() != cluster })
}

// view returns the objects of the real cluster that the log says exist.
func (w *world) view(ctx context.Context) (map[string]string, error) {
	log, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	entries, err := log.Positions(ctx, engine.Unit{})
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, e := range entries {
		if e.Unit.Cluster != w.cluster {
			continue
		}
		objects, err := log.Objects(ctx, e.Unit, false)
		if err != nil {
			return nil, err
		}
		for _, m := range objects {
			if m.Type != engine.Deleted {
				all[m.UID] = m.ResourceVersion
			}
		}
	}
	return all, nil
}

func (w *world) connect(ctx context.Context) (*jetstream.Log, error) {
	url, err := w.natsURL()
	if err != nil {
		return nil, err
	}
	return jetstream.Connect(ctx, jetstream.Options{Connection: jetstream.Connection{URL: url}, ReadOnly: true})
}

// readLog returns all messages and positions, in their order.
func (w *world) readLog(ctx context.Context) ([]record, error) {
	log, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var all []record
	for m, err := range log.Tail(ctx, engine.TailOptions{UntilEnd: true, All: true}) {
		if err != nil {
			return nil, err
		}
		ev, err := message.Decode(m.Data)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", m.Revision, err)
		}
		r := record{message: &m, epoch: ev.Epoch, time: m.Time, leaks: bytes.Contains(m.Data, []byte(password))}
		if ev.Skipped != nil {
			r.skipped = ev.Skipped.Subject
		}
		m.Data = nil
		all = append(all, r)
	}
	url, err := w.natsURL()
	if err != nil {
		return nil, err
	}
	positions, err := positions(ctx, url)
	all = append(all, positions...)
	slices.SortFunc(all, func(a, b record) int { return int(a.revision()) - int(b.revision()) })
	return all, err
}

// positions returns all positions that ever were: an engine.Log yields the last ones only.
func positions(ctx context.Context, url string) ([]record, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	js, err := natsjs.New(conn)
	if err != nil {
		return nil, err
	}
	c, err := js.OrderedConsumer(ctx, "K8S", natsjs.OrderedConsumerConfig{FilterSubjects: []string{"k8s-position.>"}})
	if err != nil {
		return nil, err
	}
	left := c.CachedInfo().NumPending
	it, err := c.Messages()
	if err != nil {
		return nil, err
	}
	defer it.Stop()
	var all []record
	for ; left > 0; left-- {
		m, err := it.Next(natsjs.NextMaxWait(10 * time.Second))
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		tokens := strings.Split(m.Subject(), ".")
		if err != nil || len(tokens) != 5 {
			return nil, errors.Join(err, fmt.Errorf("subject %q", m.Subject()))
		}
		e := &engine.Entry{
			Unit: engine.Unit{
				Cluster: tokens[1], Group: strings.ReplaceAll(tokens[2], "_", "."), Resource: tokens[3],
			},
			Revision: meta.Sequence.Stream,
		}
		if err := json.Unmarshal(m.Data(), &e.Position); err != nil {
			return nil, err
		}
		all = append(all, record{position: e, time: meta.Timestamp})
	}
	return all, nil
}
