package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
)

var pods = engine.Unit{Cluster: "prod.eu", Resource: "pods"}

func in(u engine.Unit, namespace string) engine.Unit {
	u.Namespace = namespace
	return u
}

func object(typ engine.Type, namespace, uid, version string) engine.Message {
	return engine.Message{
		Unit: in(pods, namespace), Name: "name of " + uid, UID: uid, Type: typ, ResourceVersion: version,
		ID: uid + "@" + version + "/" + string(typ), Data: fmt.Appendf(nil, "%s@%s", uid, version),
	}
}

// eachEngine runs a test on a Memory, and on JetStream with atomic batches and without.
func eachEngine(t *testing.T, test func(t *testing.T, log engine.Log)) {
	t.Run("memory", func(t *testing.T) { test(t, &engine.Memory{}) })
	for name, o := range map[string]jetstream.Options{
		"atomic": {}, "not atomic": {Create: jetstream.Create{NoAtomic: true}},
	} {
		t.Run(name, func(t *testing.T) {
			_, log := open(t, o)
			test(t, log)
		})
	}
}

// open starts a server and connects to it. It returns the server's folder.
func open(t *testing.T, o jetstream.Options) (string, *jetstream.Log) {
	t.Helper()
	dir := t.TempDir()
	startServer(t, dir)
	return dir, connect(t, dir, o)
}

func startServer(t *testing.T, dir string) *jetstream.Server {
	t.Helper()
	server, err := jetstream.StartServer(t.Context(), dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// urlOf returns the URL of the server with a folder.
func urlOf(t *testing.T, dir string) string {
	t.Helper()
	url, err := jetstream.FindServer(dir)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func connect(t *testing.T, dir string, o jetstream.Options) *jetstream.Log {
	t.Helper()
	o.Connection.Dir = dir
	return connectWith(t, o)
}

func connectWith(t *testing.T, o jetstream.Options) *jetstream.Log {
	t.Helper()
	log, err := jetstream.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log
}

func objects(t *testing.T, log engine.Log, u engine.Unit, data bool) []engine.Message {
	t.Helper()
	all, err := log.Objects(t.Context(), u, data)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func collect[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// publish publishes one part, and fails the test if that fails.
func publish(t *testing.T, log engine.Log, p engine.Part) uint64 {
	t.Helper()
	revisions, err := log.Publish(t.Context(), []engine.Part{p})
	if err != nil {
		t.Fatal(err)
	}
	return revisions[0]
}

func tail(t *testing.T, log engine.Log) []engine.Message {
	t.Helper()
	return collect(t, log.Tail(t.Context(), engine.TailOptions{All: true, UntilEnd: true}))
}

var ignorePlace = cmpopts.IgnoreFields(engine.Message{}, "Revision", "Time")

// TestPublishAndRead: what is published can be read: as a sequence, as last states with and without data, and as
// positions.
func TestPublishAndRead(t *testing.T) {
	eachEngine(t, func(t *testing.T, log engine.Log) {
		if e, err := log.Position(t.Context(), pods); err != nil || e.Revision != 0 {
			t.Fatalf("before the first: %+v, %v", e, err)
		}
		if all := slices.Concat(objects(t, log, pods, true), tail(t, log)); len(all) > 0 {
			t.Fatalf("before the first: %v", all)
		}
		hostile := object(engine.Added, "a", "..*> =\r\n\x00é", "1")
		hostile.Name = "x\r\nGvr-Type: deleted"
		messages := []engine.Message{
			object(engine.Added, "a", "u1", "1"), object(engine.Added, "b", "u2", "2"), hostile,
			object(engine.Modified, "a", "u1", "3"), object(engine.Deleted, "b", "u2", "4"),
			{Unit: pods, Type: engine.Synced, ResourceVersion: "4", ID: "synced", Data: []byte("synced")},
		}
		want := engine.Position{ResourceVersion: "4", Owner: "me", Scope: "s", Epoch: 2, Commit: 3, Rewound: true}
		revision := publish(t, log, engine.Part{Unit: pods, Position: want, Messages: messages})
		if diff := cmp.Diff(messages, tail(t, log), ignorePlace); diff != "" {
			t.Errorf("the sequence: -want +got:\n%s", diff)
		}
		e, err := log.Position(t.Context(), pods)
		if diff := cmp.Diff(engine.Entry{Unit: pods, Position: want, Revision: revision}, e); err != nil || diff != "" {
			t.Errorf("the position: %v, -want +got:\n%s", err, diff)
		}
		last := []engine.Message{hostile, messages[3], messages[4]}
		if diff := cmp.Diff(last, objects(t, log, pods, true), ignorePlace); diff != "" {
			t.Errorf("the last states: -want +got:\n%s", diff)
		}
		for i := range last {
			last[i].Data, last[i].ID = nil, ""
		}
		if diff := cmp.Diff(last, objects(t, log, pods, false), ignorePlace); diff != "" {
			t.Errorf("without data: -want +got:\n%s", diff)
		}
		ofB := objects(t, log, in(pods, "b"), false)
		if diff := cmp.Diff(last[2:], ofB, ignorePlace); diff != "" {
			t.Errorf("of a namespace: -want +got:\n%s", diff)
		}
	})
}

// TestPublishIsAllOrNothing: if one of several positions is not the expected one, nothing is published.
func TestPublishIsAllOrNothing(t *testing.T) {
	eachEngine(t, func(t *testing.T, log engine.Log) {
		a, b := in(pods, "a"), in(pods, "b")
		old, now := engine.Position{Owner: "old", Epoch: 1}, engine.Position{Owner: "new", Epoch: 2}
		first := publish(t, log, engine.Part{Unit: a, Position: old})
		taken := publish(t, log, engine.Part{Unit: a, Position: now, Revision: first})
		parts := []engine.Part{
			{Unit: b, Position: old, Messages: []engine.Message{object(engine.Added, "b", "u2", "2")}},
			{
				Unit: a, Position: old, Revision: first,
				Messages: []engine.Message{object(engine.Added, "a", "u1", "1")},
			},
		}
		if _, err := log.Publish(t.Context(), parts); !errors.Is(err, engine.ErrFenced) {
			t.Fatalf("the error is %v, want ErrFenced", err)
		}
		if all := tail(t, log); len(all) > 0 {
			t.Errorf("messages of a refused call are in the log: %v", all)
		}
		want := []engine.Entry{{Unit: a, Position: now, Revision: taken}}
		got, err := log.Positions(t.Context(), engine.Unit{})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v; -want +got:\n%s", err, diff)
		}
		parts[1].Revision = taken
		revisions, err := log.Publish(t.Context(), parts)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range parts { // each revision is the one to expect next
			p.Revision, p.Messages = revisions[i], nil
			publish(t, log, p)
		}
		if n := len(tail(t, log)); n != 2 {
			t.Errorf("%d messages, want 2", n)
		}
	})
}

// TestScopeIsNoRepetition: without atomic batches, what is published again within the window for duplicates is dropped,
// unless it is published for another scope, such as with more redaction.
func TestScopeIsNoRepetition(t *testing.T) {
	_, log := open(t, jetstream.Options{Create: jetstream.Create{NoAtomic: true}})
	m := object(engine.Added, "a", "u1", "1")
	p := engine.Part{Unit: pods, Messages: []engine.Message{m, m}}
	p.Revision = publish(t, log, p)
	p.Messages = []engine.Message{m}
	p.Messages[0].Scope, p.Messages[0].Data = "other", []byte("redacted")
	publish(t, log, p)
	var got []string
	for _, m := range tail(t, log) {
		got = append(got, string(m.Data))
	}
	if diff := cmp.Diff([]string{"u1@1", "redacted"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestLimits: as much as the limits say is accepted at once, and a larger message is refused as such.
func TestLimits(t *testing.T) {
	eachEngine(t, func(t *testing.T, log engine.Log) {
		limits := log.Limits()
		p := engine.Part{Unit: pods}
		for i := range limits.Messages - 1 {
			p.Messages = append(p.Messages, object(engine.Added, "a", fmt.Sprint("u", i), "1"))
		}
		p.Messages[0].Data = make([]byte, limits.MessageBytes)
		p.Revision = publish(t, log, p)
		if n := len(objects(t, log, pods, false)); n != len(p.Messages) {
			t.Errorf("%d objects, want %d", n, len(p.Messages))
		}
		large := object(engine.Modified, "a", "u0", "2")
		large.Data = make([]byte, limits.MessageBytes+1)
		p.Messages = []engine.Message{large}
		if _, err := log.Publish(t.Context(), []engine.Part{p}); !errors.Is(err, engine.ErrTooLarge) {
			t.Errorf("a large message: %v, want ErrTooLarge", err)
		}
	})
}

// TestTail: it waits for what is published, and ends with its context.
func TestTail(t *testing.T) {
	eachEngine(t, func(t *testing.T, log engine.Log) {
		p := engine.Part{Unit: pods, Messages: []engine.Message{object(engine.Added, "a", "u1", "1")}}
		p.Revision = publish(t, log, p)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		next, stop := iter.Pull2(log.Tail(ctx, engine.TailOptions{All: true}))
		defer stop()
		if m, err, _ := next(); err != nil || m.UID != "u1" {
			t.Fatalf("%v, %v", m, err)
		}
		p.Messages = []engine.Message{object(engine.Added, "a", "u2", "2")}
		publish(t, log, p)
		if m, err, _ := next(); err != nil || m.UID != "u2" {
			t.Fatalf("%v, %v", m, err)
		}
		cancel()
		if _, err, ok := next(); !ok || !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the context: %v", err)
		}
	})
}

// TestTailUnits: it yields the messages of units only.
func TestTailUnits(t *testing.T) {
	nodes := engine.Unit{Cluster: pods.Cluster, Resource: "nodes"}
	eachEngine(t, func(t *testing.T, log engine.Log) {
		publish(t, log, engine.Part{Unit: pods, Messages: []engine.Message{
			object(engine.Added, "a", "u1", "1"), object(engine.Added, "b", "u2", "2"),
			object(engine.Added, "c", "u3", "3"),
			{Unit: pods, Type: engine.Synced, ResourceVersion: "4", ID: "synced"},
		}})
		publish(t, log, engine.Part{Unit: nodes, Messages: []engine.Message{
			{Unit: nodes, Name: "n", UID: "n", Type: engine.Added, ResourceVersion: "5", ID: "n"},
		}})
		for _, c := range []struct {
			why   string
			units []engine.Unit
			want  []string
		}{
			{"all", nil, []string{"1", "2", "3", "4", "5"}},
			{"a resource, with what concerns all of it", []engine.Unit{pods}, []string{"1", "2", "3", "4"}},
			{"namespaces", []engine.Unit{in(pods, "a"), in(pods, "c")}, []string{"1", "3"}},
			{"one without messages", []engine.Unit{in(pods, "d")}, nil},
			{"a resource and a namespace of another", []engine.Unit{nodes, in(pods, "b")}, []string{"2", "5"}},
		} {
			var got []string
			for _, m := range collect(t, log.Tail(t.Context(), engine.TailOptions{Units: c.units, UntilEnd: true})) {
				got = append(got, m.ResourceVersion)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.why, diff)
			}
		}
	})
}

// TestTailSince: it begins with what was published at a time or later, and ends or goes on.
func TestTailSince(t *testing.T) {
	eachEngine(t, func(t *testing.T, log engine.Log) {
		p := engine.Part{Unit: pods}
		var times []time.Time
		all := []string{"u1", "u2", "u3"}
		for i, uid := range all {
			p.Messages = []engine.Message{object(engine.Added, "a", uid, "1")}
			p.Revision = publish(t, log, p)
			times = append(times, tail(t, log)[i].Time)
		}
		for _, c := range []struct {
			why  string
			opts engine.TailOptions
			want []string
		}{
			{"a time is included", engine.TailOptions{Since: times[1], UntilEnd: true}, []string{"u2", "u3"}},
			{"after a time", engine.TailOptions{Since: times[1].Add(1), UntilEnd: true}, []string{"u3"}},
			{"before all", engine.TailOptions{Since: times[0].Add(-time.Hour), UntilEnd: true}, all},
			{"after all", engine.TailOptions{Since: times[2].Add(time.Hour), UntilEnd: true}, nil},
			{"all is stronger", engine.TailOptions{Since: times[1], All: true, UntilEnd: true}, all},
		} {
			var got []string
			for _, m := range collect(t, log.Tail(t.Context(), c.opts)) {
				got = append(got, m.UID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.why, diff)
			}
		}
		next, stop := iter.Pull2(log.Tail(t.Context(), engine.TailOptions{Since: times[2]}))
		defer stop()
		if m, err, _ := next(); err != nil || m.UID != "u3" {
			t.Fatalf("%v, %v, want u3", m, err)
		}
		p.Messages = []engine.Message{object(engine.Added, "a", "u4", "2")}
		publish(t, log, p)
		if m, err, _ := next(); err != nil || m.UID != "u4" {
			t.Fatalf("%v, %v, want u4", m, err)
		}
	})
}

// TestHistory: the log keeps the last messages of each object.
func TestHistory(t *testing.T) {
	_, log := open(t, jetstream.Options{Create: jetstream.Create{History: 2}})
	publish(t, log, engine.Part{Unit: pods, Messages: []engine.Message{
		object(engine.Added, "a", "u1", "1"), object(engine.Modified, "a", "u1", "2"),
		object(engine.Modified, "a", "u1", "3"), object(engine.Added, "a", "u2", "4"),
	}})
	if diff := cmp.Diff("2 3 4", versions(t, log)); diff != "" {
		t.Error(diff)
	}
}

// versions returns the versions of what the log has.
func versions(t *testing.T, log engine.Log) string {
	t.Helper()
	var all []string
	for _, m := range tail(t, log) {
		all = append(all, m.ResourceVersion)
	}
	return strings.Join(all, " ")
}

// TestExpirePositions: old positions without an owner and without objects expire, with GAP and SYNCED, and no others.
func TestExpirePositions(t *testing.T) {
	eachEngine(t, func(t *testing.T, log engine.Log) {
		mark := func(namespace string) engine.Message {
			return engine.Message{
				Unit: in(pods, namespace), Type: engine.Synced, ResourceVersion: namespace, ID: namespace,
			}
		}
		for namespace, p := range map[string]engine.Part{
			"deleted": {Messages: []engine.Message{object(engine.Deleted, "deleted", "u1", "1"), mark("deleted")}},
			"exists":  {Messages: []engine.Message{object(engine.Added, "exists", "u2", "2"), mark("exists")}},
			"owned":   {Position: engine.Position{Owner: "one"}, Messages: []engine.Message{mark("owned")}},
			"":        {}, // of the whole resource, with objects in namespaces
		} {
			p.Unit = in(pods, namespace)
			publish(t, log, p)
		}
		units := func() []string {
			entries, err := log.Positions(t.Context(), engine.Unit{})
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, e := range entries {
				all = append(all, e.Unit.Namespace)
			}
			slices.Sort(all)
			return all
		}
		if err := log.Expire(t.Context(), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"", "deleted", "exists", "owned"}, units()); diff != "" {
			t.Error("nothing is old:", diff)
		}
		if err := log.Expire(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"", "exists", "owned"}, units()); diff != "" {
			t.Error(diff)
		}
		left := strings.Fields(versions(t, log))
		slices.Sort(left)
		if diff := cmp.Diff([]string{"2", "exists", "owned"}, left); diff != "" {
			t.Error(diff)
		}
	})
}

// TestExpire: all messages of an object expire when the last one is an old deletion, and no others.
func TestExpire(t *testing.T) {
	eachEngine(t, func(t *testing.T, log engine.Log) {
		revision := publish(t, log, engine.Part{Unit: pods, Messages: []engine.Message{
			object(engine.Added, "a", "exists", "1"), object(engine.Modified, "a", "exists", "2"),
			object(engine.Added, "a", "deleted", "3"), object(engine.Deleted, "a", "deleted", "4"),
			object(engine.Deleted, "a", "restored", "5"), object(engine.Added, "a", "restored", "6"),
			{Unit: pods, Type: engine.Synced, ResourceVersion: "6", ID: "synced"},
		}})
		if err := log.Expire(t.Context(), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("1 2 3 4 5 6 6", versions(t, log)); diff != "" {
			t.Error("nothing is old:", diff)
		}
		if err := log.Expire(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("1 2 5 6 6", versions(t, log)); diff != "" {
			t.Error(diff)
		}
		var left []string
		for _, m := range objects(t, log, pods, false) {
			left = append(left, m.UID)
		}
		if diff := cmp.Diff([]string{"exists", "restored"}, left); diff != "" {
			t.Error(diff)
		}
		if e, err := log.Position(t.Context(), pods); err != nil || e.Revision != revision {
			t.Errorf("the position has revision %d, want %d; %v", e.Revision, revision, err)
		}
	})
}

// eventually repeats f until it returns nil, for 20 s.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	eventuallyIn(t, 20*time.Second, f)
}

func eventuallyIn(t *testing.T, most time.Duration, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for err := f(); err != nil; err = f() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

// TestRestart: after a restart of the server, a Log goes on, with the same revisions.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	server := startServer(t, dir)
	log := connect(t, dir, jetstream.Options{})
	if err := log.Join(t.Context(), engine.Member{ID: "one"}); err != nil {
		t.Fatal(err)
	}
	p := engine.Part{Unit: pods, Messages: []engine.Message{object(engine.Added, "a", "u1", "1")}}
	p.Revision = publish(t, log, p)
	server.Stop()
	startServer(t, dir)
	p.Messages = []engine.Message{object(engine.Added, "a", "u2", "2")}
	eventually(t, func() error {
		_, err := log.Publish(t.Context(), []engine.Part{p})
		if errors.Is(err, engine.ErrFenced) { // an earlier try was successful
			return nil
		}
		return err
	})
	if n := len(tail(t, log)); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
	eventually(t, func() error { return log.Join(t.Context(), engine.Member{ID: "one"}) })
	if members, err := log.Members(t.Context()); err != nil || len(members) != 1 {
		t.Errorf("members: %v, %v", members, err)
	}
}

// TestReadWhileWriting: a read misses nothing, although what it is about to read is replaced, and no consumer remains.
func TestReadWhileWriting(t *testing.T) {
	const count = 3000
	dir, log := open(t, jetstream.Options{Create: jetstream.Create{History: 2}})
	p := engine.Part{Unit: pods}
	write := func(version string, from, to int) error {
		p.Messages = nil
		for i := from; i < to; i++ {
			p.Messages = append(p.Messages, object(engine.Modified, "a", fmt.Sprint(i), version))
		}
		revisions, err := log.Publish(t.Context(), []engine.Part{p})
		if err == nil {
			p.Revision = revisions[0]
		}
		return err
	}
	for i := range count / 500 {
		if err := write("0", i*500, i*500+500); err != nil {
			t.Fatal(err)
		}
	}
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			// Those that are written most often are gone when the others are read.
			from := []int{0, 100, 2800}[n%3]
			if err := write(fmt.Sprint(n), from, from+200); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for range 10 {
		all := objects(t, log, pods, false)
		if len(all) != count {
			t.Errorf("%d objects, want %d", len(all), count)
		}
		if e, err := log.Positions(t.Context(), engine.Unit{}); err != nil || len(e) != 1 {
			t.Errorf("%d positions, want 1; %v", len(e), err)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	js := connectJS(t, urlOf(t, dir))
	eventually(t, func() error {
		s, err := js.Stream(t.Context(), "K8S")
		if err == nil && s.CachedInfo().State.Consumers > 0 {
			err = fmt.Errorf("%d consumers remain", s.CachedInfo().State.Consumers)
		}
		return err
	})
}

func connectJS(t *testing.T, url string) natsjs.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// TestLeases: a member with a longer lease than that of the first one stays one for that time.
func TestLeases(t *testing.T) {
	dir, first := open(t, jetstream.Options{Lease: 300 * time.Millisecond})
	second := connect(t, dir, jetstream.Options{Lease: time.Hour})
	connect(t, dir, jetstream.Options{Lease: 300 * time.Millisecond})
	if err := second.Join(t.Context(), engine.Member{ID: "second"}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // the server's clock
	if members, err := first.Members(t.Context()); err != nil || len(members) != 1 {
		t.Errorf("members: %v, %v, want second", members, err)
	}
}

// TestJoinLarge: a member with more units than fit into a message joins, and describes some.
func TestJoinLarge(t *testing.T) {
	_, log := open(t, jetstream.Options{})
	m := engine.Member{ID: "one", Units: make([]engine.UnitStatus, 200_000), Problems: []string{"a"}}
	for i := range m.Units {
		m.Units[i].Synced = true
	}
	m.Units[199_999].Pending = 7 // otherwise relay status would say that all is well
	if err := log.Join(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	members, err := log.Members(t.Context())
	if err != nil || len(members) != 1 || len(members[0].Units) < 1000 ||
		len(members[0].Units) == len(m.Units) {
		t.Fatalf("members: %v, %v", len(members), err)
	}
	if u := members[0].Units[0]; u.Pending != 7 {
		t.Errorf("the unit that is not well is left out: the first is %+v", u)
	}
	if len(m.Units) != 200_000 {
		t.Error("the caller's units have changed")
	}
}

// TestGroup: members are those who have joined and not left, and some leases later no more.
func TestGroup(t *testing.T) {
	_, log := open(t, jetstream.Options{Lease: 700 * time.Millisecond})
	join := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			if err := log.Join(t.Context(), engine.Member{ID: id, Config: "x"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ids := func() []string {
		t.Helper()
		members, err := log.Members(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all := []string{}
		for _, m := range members {
			all = append(all, m.ID)
		}
		return all
	}
	if diff := cmp.Diff([]string{}, ids()); diff != "" {
		t.Error(diff)
	}
	join("b. /*>", "a", "c")
	if diff := cmp.Diff([]string{"a", "b. /*>", "c"}, ids()); diff != "" {
		t.Error(diff)
	}
	before, err := log.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	join("a")
	if after, err := log.Members(t.Context()); err != nil || after[0].Revision == before[0].Revision {
		t.Errorf("the revision does not change when a member joins again: %v, %v", after, err)
	}
	if err := log.Leave(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b. /*>"}, ids()); diff != "" {
		t.Error(diff)
	}
	eventually(t, func() error {
		join("a")
		if all := ids(); len(all) != 1 {
			return fmt.Errorf("members %q, want a only", all)
		}
		return nil
	})
}

// TestConnectRefuses: a stream that loses states is refused, and a command that only reads creates none.
func TestConnectRefuses(t *testing.T) {
	dir := t.TempDir()
	startServer(t, dir)
	js := connectJS(t, urlOf(t, dir))
	for _, c := range []struct {
		why, want string
		cfg       natsjs.StreamConfig
		readOnly  bool
	}{
		{why: "no stream", want: "there is no stream", readOnly: true},
		{why: "states expire", want: "max_age", cfg: natsjs.StreamConfig{MaxAge: time.Hour}},
		{why: "old states are discarded", want: "discard must be new", cfg: natsjs.StreamConfig{MaxBytes: 1 << 20}},
		{
			why: "messages that were read are removed", want: "retention",
			cfg: natsjs.StreamConfig{Retention: natsjs.WorkQueuePolicy},
		},
		{why: "other subjects", want: "subjects", cfg: natsjs.StreamConfig{Subjects: []string{"other.>"}}},
	} {
		name := strings.ReplaceAll(c.why, " ", "-")
		if !c.readOnly {
			c.cfg.Name = name
			if c.cfg.Subjects == nil {
				c.cfg.Subjects = []string{name + ".>", name + "-position.>"}
			}
			if _, err := js.CreateStream(t.Context(), c.cfg); err != nil {
				t.Fatal(err)
			}
		}
		_, err := jetstream.Connect(t.Context(), jetstream.Options{
			Connection: jetstream.Connection{Dir: dir}, Stream: name, Prefix: name, ReadOnly: c.readOnly,
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want one with %q", c.why, err, c.want)
		}
	}
	if _, err := js.Stream(t.Context(), "no-stream"); !errors.Is(err, natsjs.ErrStreamNotFound) {
		t.Errorf("a command that only reads has created a stream: %v", err)
	}
}

// TestConnectGivesUp: without a server, Connect ends with its context.
func TestConnectGivesUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := jetstream.Connect(ctx, jetstream.Options{Connection: jetstream.Connection{URL: "nats://127.0.0.1:1"}})
	if err == nil || !strings.Contains(err.Error(), "connect to NATS") {
		t.Errorf("the error is %v", err)
	}
}

// TestDuplicatesAreDropped: without atomic batches, messages that are published again are in the log once.
func TestDuplicatesAreDropped(t *testing.T) {
	_, log := open(t, jetstream.Options{Create: jetstream.Create{NoAtomic: true}})
	p := engine.Part{Unit: pods, Messages: []engine.Message{object(engine.Added, "a", "u1", "1")}}
	p.Revision = publish(t, log, p)
	p.Messages = append(p.Messages, object(engine.Added, "a", "u2", "2"))
	publish(t, log, p)
	if n := len(tail(t, log)); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
}
