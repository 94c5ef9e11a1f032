package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/stream"
)

// relayOrder makes the test binary run as a relay: a program that handles events in several goroutines, by writing them
// to a file, and acks them. It is JSON in the environment variable relayVariable.
type relayOrder struct {
	Kubeconfig, Resource, Store, Log string
	Run                              int
}

const relayVariable = "GVRWATCH_E2E_RELAY"

// relayed is a line of the relay's log. The relay writes it to handle an event, before it acks the event.
type relayed struct {
	Run             int
	Type            stream.Type
	UID, Name       string           `json:",omitempty"`
	ResourceVersion string           `json:",omitempty"`
	Inferred        bool             `json:",omitempty"`
	Gap             stream.GapReason `json:",omitempty"`
}

// relay runs until it is killed or receives SIGTERM.
func relay(order string) error {
	var o relayOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := o.run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil // SIGTERM came, perhaps before the relay started to watch
	}
	return err
}

func (o relayOrder) run(ctx context.Context) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return err
	}
	cluster, err := gvrwatch.Connect(cfg)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(o.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	store, err := file.Open(o.Store)
	if err != nil {
		return err
	}
	defer store.Close()
	tracker, err := cluster.Tracker(ctx, store, &checkpoint.Options{Interval: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	s, err := cluster.Stream(ctx, o.Resource, &stream.Options{Requests: stream.Requests{PageSize: 20}})
	if err != nil {
		return err
	}
	handled := handle(s.With(stream.Run{Checkpoint: tracker}).Events(ctx), log, o.Run)
	if err := tracker.Close(); err != nil {
		return err
	}
	return handled
}

// handle passes each event to one of several workers, which is the same one for all events of an object. It waits for
// the workers before it returns.
func handle(events iter.Seq2[stream.Event, error], log *os.File, run int) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	work := make([]chan stream.Event, 4)
	for i := range work {
		work[i] = make(chan stream.Event, 16)
		defer close(work[i])
		workers.Go(func() {
			for ev := range work[i] {
				time.Sleep(rand.N(4 * time.Millisecond)) // so that acks come out of order
				if err := writeLine(log, run, ev); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return // without an ack
				}
				ev.Ack()
			}
		})
	}
	for ev, err := range events {
		if err != nil {
			return err
		}
		i := 0
		if ev.Object != nil {
			h := fnv.New32a()
			h.Write([]byte(ev.Object.GetUID()))
			i = int(h.Sum32() % uint32(len(work)))
		}
		work[i] <- ev
	}
	return nil
}

func writeLine(log *os.File, run int, ev stream.Event) error {
	line := relayed{Run: run, Type: ev.Type, ResourceVersion: ev.ResourceVersion, Inferred: ev.Inferred}
	if ev.Object != nil {
		line.UID, line.Name = string(ev.Object.GetUID()), ev.Object.GetNamespace()+"/"+ev.Object.GetName()
	}
	if ev.Gap != nil {
		line.Gap = ev.Gap.Reason
	}
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = log.Write(append(b, '\n'))
	return err
}
