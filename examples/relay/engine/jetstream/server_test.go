package jetstream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
)

var discard = slog.New(slog.DiscardHandler)

// hostFolder is an environment variable: if it is set, the test binary runs a server with that folder.
const hostFolder = "GVRWATCH_TEST_HOST"

func TestMain(m *testing.M) {
	dir := os.Getenv(hostFolder)
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := jetstream.StartServer(context.Background(), dir, discard); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

// startHost starts a process that runs a server.
func startHost(t testing.TB, dir string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hostFolder+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	t.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the host says %q, %v", line, err)
	}
	return kill
}

// TestServer: one server at a time has a folder, only those who can read the folder can use it, and others find it.
func TestServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if _, err := jetstream.FindServer(dir); err == nil || !strings.Contains(err.Error(), "no relay runs") {
		t.Errorf("before the first: %v", err)
	}
	server := startServer(t, dir)
	first := urlOf(t, dir)
	startServer(t, dir) // waits for the end of the first
	if url := urlOf(t, dir); url != first {
		t.Errorf("while the first runs, the URL changes from %q to %q", first, url)
	}
	if conn, err := nats.Connect("nats://" + first[strings.Index(first, "@")+1:]); err == nil {
		conn.Close()
		t.Error("a client without the token is connected")
	}
	for _, path := range []string{dir, filepath.Join(dir, "nats.json")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v: others can read it", path, info.Mode(), err)
		}
	}
	server.Stop()
	eventually(t, func() error {
		if url, err := jetstream.FindServer(dir); err != nil || url == first {
			return fmt.Errorf("the second has not taken over: %q, %w", url, err)
		}
		return nil
	})
}

// TestHostIsKilled: when the process that runs the server is killed, one that shares the folder runs it, with what the
// server has stored, and a client finds it.
func TestHostIsKilled(t *testing.T) {
	dir := t.TempDir()
	kill := startHost(t, dir)
	startServer(t, dir)
	log := connect(t, dir, jetstream.Options{})
	p := engine.Part{Unit: pods, Messages: []engine.Message{object(engine.Added, "a", "u1", "1")}}
	p.Revision = publish(t, log, p)
	kill()
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
}

// TestTokenIsForTheServer: what listens at the address of a server that has ended gets no token, and the next server
// has another one.
func TestTokenIsForTheServer(t *testing.T) {
	dir := t.TempDir()
	kill := startHost(t, dir)
	old := urlOf(t, dir)
	log := connect(t, dir, jetstream.Options{})
	kill()
	l, err := net.Listen("tcp", old[strings.Index(old, "@")+1:])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var connected atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			connected.Add(1)
			conn.Close()
		}
	}()
	if url, err := jetstream.FindServer(dir); err == nil || !strings.Contains(err.Error(), "has ended without a word") {
		t.Errorf("the server that was killed is found: %q, %v", url, err)
	}
	_, err = jetstream.Connect(t.Context(), jetstream.Options{
		Connection: jetstream.Connection{Dir: dir}, ReadOnly: true, Lease: time.Second,
	})
	if err == nil || !strings.Contains(err.Error(), "no relay runs") {
		t.Errorf("a command connects to no server: %v", err)
	}
	startServer(t, dir)
	if url := urlOf(t, dir); strings.Split(url, "@")[0] == strings.Split(old, "@")[0] {
		t.Error("the next server has the same token")
	}
	eventually(t, func() error { return log.Join(t.Context(), engine.Member{ID: "one"}) })
	if n := connected.Load(); n > 0 {
		t.Errorf("%d clients have connected to the listener at the old address", n)
	}
}

func TestFindServerRefusesDamage(t *testing.T) {
	dir := t.TempDir()
	startServer(t, dir)
	for _, text := range []string{"{", "{}", `{"url":"nats://127.0.0.1:4222"}`} {
		if err := os.WriteFile(filepath.Join(dir, "nats.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := jetstream.FindServer(dir); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: the error is %v", text, err)
		}
	}
}
