package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// childVariable makes this program run as a client with a checkpoint that is killed. It has a childOrder in JSON.
const childVariable = "GVRWATCH_CHAOS_CHILD"

// childOrder says what a client does that has a process of its own.
type childOrder struct {
	Kind       childKind
	Config     childConfig
	Resources  []gvr.Resource
	Store, Log string
}

type childKind string

const (
	childInOrder  childKind = "in order"  // a Stream for each resource, acks in order
	childAnyOrder childKind = "any order" // the same, acks in any order
	childFollow   childKind = "follow"
)

// childConfig is the part of a rest.Config that the world sets.
type childConfig struct {
	Host, Token, TokenFile, ServerName, CAFile string
	CA                                         []byte
	NextProtos                                 []string
}

func newChildConfig(c *rest.Config) childConfig {
	return childConfig{
		c.Host, c.BearerToken, c.BearerTokenFile, c.ServerName, c.CAFile, c.CAData, c.NextProtos,
	}
}

func (c childConfig) rest() *rest.Config {
	return &rest.Config{
		Host: c.Host, BearerToken: c.Token, BearerTokenFile: c.TokenFile, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: c.ServerName, CAFile: c.CAFile, CAData: c.CA, NextProtos: c.NextProtos,
		},
	}
}

// line is a line of a child's log. A child writes one when it begins a run, one with the report of each event before it
// acks the event, and one after the ack.
type line struct {
	Begins bool    `json:",omitempty"`
	N      int     `json:",omitempty"` // of the report, from 1
	Report *report `json:",omitempty"`
	Acked  int     `json:",omitempty"` // the report with this N
	Error  string  `json:",omitempty"`
}

func init() {
	if order := os.Getenv(childVariable); order != "" {
		if err := runChild(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// child is a client in a process of its own.
type child struct {
	order   childOrder
	tracker *checkpoint.Tracker
	mu      sync.Mutex
	log     *os.File
	n       int
}

// runChild runs until the process is killed.
func runChild(order string) error {
	c := &child{}
	if err := json.Unmarshal([]byte(order), &c.order); err != nil {
		return err
	}
	var err error
	if c.log, err = os.OpenFile(c.order.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	store, err := file.Open(c.order.Store)
	if err != nil {
		return err
	}
	c.tracker, err = checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "chaos"}})
	if err != nil {
		return err
	}
	c.write(line{Begins: true})
	if c.order.Kind == childFollow {
		return c.follow()
	}
	return c.streams()
}

func (c *child) write(l line) {
	b, err := json.Marshal(l)
	if err == nil {
		_, err = c.log.Write(append(b, '\n'))
	}
	if err != nil {
		panic(err) // it must not ack
	}
}

// receive writes the report of an event, and returns its number.
func (c *child) receive(ev stream.Event) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	r := newReport(0, ev)
	c.write(line{N: c.n, Report: &r})
	return c.n
}

func (c *child) ack(ev stream.Event, n int) {
	ev.Ack()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write(line{Acked: n})
}

func (c *child) follow() error {
	fail := func(err error) { c.write(line{Error: err.Error()}) }
	m, err := newFollow(c.order.Config.rest(), c.tracker, fail)
	if err != nil {
		return err
	}
	return c.handle(m.Events(context.Background()))
}

func (c *child) streams() error {
	client, err := newDynamicClient(c.order.Config.rest(), false)
	if err != nil {
		return err
	}
	errs := make(chan error)
	for _, r := range c.order.Resources {
		s, err := stream.New(client, r, &stream.Options{Requests: requests})
		if err != nil {
			return err
		}
		events := s.With(stream.Run{Checkpoint: c.tracker}).Events(context.Background())
		go func() { errs <- c.handle(events) }()
	}
	// Before the first SYNCED, a refusal ends a run. Then the process ends, and is started again.
	return <-errs
}

func (c *child) handle(events iter.Seq2[stream.Event, error]) error {
	handle := c.ack
	if c.order.Kind == childAnyOrder {
		handle = func(ev stream.Event, n int) {
			go func() {
				time.Sleep(rand.N(20 * time.Millisecond))
				c.ack(ev, n)
			}()
		}
	}
	for ev, err := range events {
		if err != nil {
			return err
		}
		handle(ev, c.receive(ev))
	}
	return errors.New("the sequence has ended")
}
