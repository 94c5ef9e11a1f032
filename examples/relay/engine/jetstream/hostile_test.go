package jetstream_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
)

// TestCheck: what the server would not take is refused before it is sent, and what Check accepts is taken. Either way
// the connection stays.
func TestCheck(t *testing.T) {
	message := func(uid, name, version string, data int) engine.Message {
		return engine.Message{
			Unit: pods, UID: uid, Name: name, ResourceVersion: version, Type: engine.Added,
			ID:   "cluster/pods/" + url.PathEscape(uid) + "@" + url.PathEscape(version) + "/added",
			Data: bytes.Repeat([]byte("x"), data),
		}
	}
	long := func(text string, n int) string { return strings.Repeat(text, n) }
	for _, atomic := range []bool{true, false} {
		_, log := open(t, jetstream.Options{Create: jetstream.Create{NoAtomic: !atomic}})
		limit := log.Limits().MessageBytes
		p := engine.Part{Unit: pods}
		for _, c := range []struct {
			why     string
			message engine.Message
			fits    bool
		}{
			{"as an API server has them", message("uid", "name", "1", 10), true},
			{"as long as Kubernetes permits", message(long("u", 253), long("n.", 126), long("9", 20), 10), true},
			{"the most data", message("uid", "name", "1", limit), true},
			{"a byte more", message("uid", "name", "1", limit+1), false},
			{"the most data and long names", message(long("u", 700), long("n", 700), "1", limit), true},
			{"a subject that just fits", message(long("~", 600), "", "", 10), true},
			{"the uid is a control line", message(long("u", 5000), "name", "1", 10), false},
			{"each byte of the uid is three of the subject", message(long("~", 1300), "", "", 10), false},
			{"the name is a megabyte", message("uid", long("n", 1<<20), "1", 10), false},
			{"the version is 100,000 bytes", message("uid", "name", long("1", 100_000), 10), false},
			{"each byte of the name is three of the header", message("uid", long("\n", 1400), "1", 10), false},
		} {
			expected := func(err error) bool {
				return c.fits && err == nil || !c.fits && errors.Is(err, engine.ErrTooLarge)
			}
			if err := log.Check(c.message); !expected(err) {
				t.Errorf("%s: Check returns %v", c.why, err)
			}
			p.Messages = []engine.Message{object(engine.Added, "a", "u", "1"), c.message}
			revisions, err := log.Publish(t.Context(), []engine.Part{p})
			if !expected(err) {
				t.Errorf("%s, atomic %t: Publish returns %v", c.why, atomic, err)
			}
			if err == nil {
				p.Revision = revisions[0]
			}
			if !log.Connected() {
				t.Fatalf("%s, atomic %t: the connection is closed", c.why, atomic)
			}
		}
		p.Unit.Namespace = long("n", 5000)
		_, err := log.Publish(t.Context(), []engine.Part{p})
		if !errors.Is(err, engine.ErrTooLarge) || !log.Connected() {
			t.Errorf("a position that is too long: %v, connected %t", err, log.Connected())
		}
	}
}

// TestForeignMessages: what others publish to subjects that no position or message has is no error, and one that is
// damaged is named.
func TestForeignMessages(t *testing.T) {
	dir, log := open(t, jetstream.Options{})
	publish(t, log, engine.Part{Unit: pods, Messages: []engine.Message{object(engine.Added, "a", "u", "1")}})
	js := connectJS(t, urlOf(t, dir))
	foreign := func(subject string) {
		t.Helper()
		if _, err := js.Publish(t.Context(), subject, []byte("hello")); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{"k8s.foo", "k8s.a.b.c.d.e.f", "k8s-position.foo", "k8s-position.a.b.c.d.e"} {
		foreign(subject)
	}
	if all, err := log.Positions(t.Context(), engine.Unit{}); err != nil || len(all) != 1 {
		t.Errorf("positions: %v, %v, want one", all, err)
	}
	if all := tail(t, log); len(all) != 1 {
		t.Errorf("messages: %v, want one", all)
	}
	if err := log.Expire(t.Context(), time.Now()); err != nil {
		t.Error(err)
	}
	foreign("k8s-position.c.core.pods.-")
	_, err := log.Positions(t.Context(), engine.Unit{})
	if err == nil || !strings.Contains(err.Error(), "message 7 (k8s-position.c.core.pods.-) is damaged") {
		t.Errorf("the error is %v", err)
	}
}

// TestFailed: a connection that is closed for good is reported with the server's reason.
func TestFailed(t *testing.T) {
	_, log := open(t, jetstream.Options{})
	select {
	case err := <-log.Failed():
		t.Fatalf("failed from the start: %v", err)
	default:
	}
	for range log.Tail(t.Context(), engine.TailOptions{Pattern: "k8s." + strings.Repeat("x", 10_000) + ".>"}) {
		break // its pattern is a part of the subject of a request
	}
	select {
	case err := <-log.Failed():
		reason := strings.ToLower(err.Error())
		if !errors.Is(err, engine.ErrFailed) || !strings.Contains(reason, "maximum control line") {
			t.Errorf("the error is %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing says that the connection is closed for good")
	}
}

// TestFull: a stream that is full, or gone, is named by the errors of Publish, and by those of Join, of a member that
// has nothing to publish.
func TestFull(t *testing.T) {
	for _, atomic := range []bool{true, false} {
		dir, log := open(t, jetstream.Options{Create: jetstream.Create{MaxBytes: 64 << 10, NoAtomic: !atomic}})
		p := engine.Part{Unit: pods}
		var err error
		for i := 0; err == nil; i++ {
			m := object(engine.Added, "a", fmt.Sprint("u", i), "1")
			m.Data = bytes.Repeat([]byte("x"), 2000)
			p.Messages = []engine.Message{m}
			var revisions []uint64
			if revisions, err = log.Publish(t.Context(), []engine.Part{p}); err == nil {
				p.Revision = revisions[0]
			}
		}
		if !strings.Contains(err.Error(), "maximum bytes exceeded") {
			t.Errorf("atomic %t: Publish returns %v, want NATS's cause", atomic, err)
		}
		err = log.Join(t.Context(), engine.Member{ID: "one"})
		if err == nil || !strings.Contains(err.Error(), "is full") {
			t.Errorf("atomic %t: Join returns %v", atomic, err)
		}
		if members, err := log.Members(t.Context()); err != nil || len(members) != 1 || members[0].Age > 5*time.Second {
			t.Errorf("atomic %t: members %v, %v: the others must know that it is alive", atomic, members, err)
		}
		js := connectJS(t, urlOf(t, dir))
		if err := js.DeleteStream(t.Context(), "K8S"); err != nil {
			t.Fatal(err)
		}
		if err := log.Join(t.Context(), engine.Member{ID: "one"}); !errors.Is(err, natsjs.ErrStreamNotFound) {
			t.Errorf("atomic %t: without the stream Join returns %v", atomic, err)
		}
	}
}

// TestStorageLimit: where the server's storage is used up, the errors name that.
func TestStorageLimit(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		JetStreamMaxStore: 300 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	log := connectWith(t, jetstream.Options{Connection: jetstream.Connection{URL: s.ClientURL()}})
	p := engine.Part{Unit: pods}
	for i := 0; err == nil; i++ {
		p.Messages = nil
		for j := range 5 {
			m := object(engine.Added, "a", fmt.Sprintf("u%d-%d", i, j), "1")
			m.Data = bytes.Repeat([]byte("x"), 10_000)
			p.Messages = append(p.Messages, m)
		}
		var revisions []uint64
		if revisions, err = log.Publish(t.Context(), []engine.Part{p}); err == nil {
			p.Revision = revisions[0]
		}
	}
	if !strings.Contains(err.Error(), "insufficient resources") {
		t.Errorf("Publish returns %v, want NATS's cause", err)
	}
	if err := log.Join(t.Context(), engine.Member{ID: "one"}); err == nil ||
		!strings.Contains(err.Error(), "insufficient resources") {
		t.Errorf("Join returns %v, want NATS's cause", err)
	}
}

// TestDiskFull: while the disk is full, the errors say so; when there is space again, the server that this process runs
// takes messages again, and has lost none that it has acknowledged.
func TestDiskFull(t *testing.T) {
	dir := smallDisk(t)
	startServer(t, dir)
	log := connect(t, dir, jetstream.Options{})
	p := engine.Part{Unit: pods}
	publish := func(i int) error {
		p.Messages = nil
		for j := range 5 {
			m := object(engine.Added, "a", fmt.Sprintf("u%d-%d", i, j), "1")
			m.Data = bytes.Repeat([]byte("x"), 10_000)
			p.Messages = append(p.Messages, m)
		}
		revisions, err := log.Publish(t.Context(), []engine.Part{p})
		if err == nil {
			p.Revision = revisions[0]
		}
		return err
	}
	for i := range 5 {
		if err := publish(i); err != nil {
			t.Fatal(err)
		}
	}
	ballast := filepath.Join(dir, "ballast")
	if err := fill(ballast); err == nil {
		t.Fatal("the disk is not full")
	}
	var first error
	for i := 5; first == nil && i < 100; i++ {
		first = publish(i)
	}
	named := regexp.MustCompile("disk is full|insufficient resources|no space left")
	if first == nil || !named.MatchString(first.Error()) {
		t.Errorf("Publish returns %v, want the cause", first)
	}
	eventually(t, func() error { // some bytes may have been left
		if log.Join(t.Context(), engine.Member{ID: "one", Problems: []string{strings.Repeat("x", 5000)}}) == nil {
			return errors.New("Join returns no error")
		}
		return nil
	})
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventuallyIn(t, time.Minute, func() error {
		e, err := log.Position(t.Context(), pods)
		if err == nil {
			p.Revision = e.Revision
			err = publish(1000)
		}
		if err == nil {
			err = log.Join(t.Context(), engine.Member{ID: "one"})
		}
		return err
	})
	found := map[string]bool{}
	for _, m := range objects(t, log, pods, true) {
		found[m.UID] = len(m.Data) == 10_000
	}
	for i := range 5 {
		for j := range 5 {
			if uid := fmt.Sprintf("u%d-%d", i, j); !found[uid] {
				t.Errorf("%s, which was published, is lost", uid)
			}
		}
	}
	if !found["u1000-4"] {
		t.Error("what was published last is not there")
	}
}

// TestStartOnFullDisk: a server does not start with hardly any space, as it would leave out what it can't recover.
func TestStartOnFullDisk(t *testing.T) {
	dir := smallDisk(t)
	ballast := filepath.Join(dir, "ballast")
	if err := fill(ballast); err == nil {
		t.Fatal("the disk is not full")
	}
	if info, err := os.Stat(ballast); err != nil {
		t.Fatal(err)
	} else if err := os.Truncate(ballast, info.Size()-256<<10); err != nil { // NATS itself starts with that
		t.Fatal(err)
	}
	server, err := jetstream.StartServer(t.Context(), dir, discard)
	if err == nil {
		server.Stop()
	}
	if err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("on a full disk: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	startServer(t, dir)
	urlOf(t, dir)
}

// fill writes a file until there is no space. It returns why it has ended.
func fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for range 16 << 20 / 4096 {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return err
		}
	}
	return nil
}
