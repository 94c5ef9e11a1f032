package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
	"github.com/gvrwatch/gvrwatch/stream"
)

// relaying publishes to a JetStream server in this process, which keeps the messages in files. An event counts when it
// is in the log or, if latency is measured, when a consumer has received it.
func relaying(l *lap) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "gvrwatch-bench-")
	check(err)
	server, err := jetstream.StartServer(ctx, dir, slog.New(slog.DiscardHandler))
	check(err)
	l.atEnd = func() {
		server.Stop()
		_ = os.RemoveAll(dir)
	}
	js, err := jetstream.Connect(ctx, jetstream.Options{Connection: jetstream.Connection{Dir: dir}})
	check(err)
	objects := 0
	count := func(m engine.Message) {
		switch m.Type {
		case engine.Added:
			objects++
		case engine.Synced:
			l.synced(objects)
		case engine.Modified:
			l.event(func() stream.Meta { return metaOf(m) })
		}
	}
	observer := &relay.Observer{Published: count}
	if l.of.Load.Rate > 0 {
		observer = nil
		go func() {
			for m, err := range js.Tail(ctx, engine.TailOptions{All: true}) {
				check(err)
				count(m)
			}
		}()
	}
	served := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{{
		GroupVersion: "v1", APIResources: []metav1.APIResource{{
			Name: l.resource.Resource, Kind: l.resource.Kind, Namespaced: true, Verbs: l.resource.Verbs,
		}},
	}}}}
	cfg := relay.Config{
		Selection: relay.Selection{Resources: []string{l.resource.Resource}},
		NATS:      relay.NATS{Dir: dir},
		Replica:   relay.Replica{ID: "bench", Grace: metav1.Duration{Duration: time.Second}},
	}
	check(cfg.Complete())
	r, err := relay.New(cfg, js, js, relay.Options{Observer: observer, Connections: []*relay.Connection{{
		Name: "bench", Config: l.config(), Client: ours(nil)(l), Resolver: discovery.NewResolver(served, 0),
	}}})
	check(err)
	log.Fatal(r.Run(ctx))
}

// metaOf returns the metadata of a message's object.
func metaOf(m engine.Message) stream.Meta {
	ev, err := message.Decode(m.Data)
	check(err)
	return stream.Event{Type: stream.Modified, JSON: ev.Data}.Meta()
}
