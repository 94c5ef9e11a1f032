package jetstream_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
)

var discard = slog.New(slog.DiscardHandler)

// TestServer: one server at a time has a folder, only those who can read the folder can use it, and others find it.
func TestServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if _, err := jetstream.FindServer(dir); err == nil || !strings.Contains(err.Error(), "no relay has run") {
		t.Errorf("before the first: %v", err)
	}
	server, err := jetstream.StartServer(t.Context(), dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	if _, err := jetstream.StartServer(t.Context(), dir, discard); !errors.Is(err, jetstream.ErrInUse) {
		t.Errorf("a second server: %v, want ErrInUse", err)
	}
	if url, err := jetstream.FindServer(dir); err != nil || url != server.URL() {
		t.Errorf("found %q, %v, want %q", url, err, server.URL())
	}
	host := server.URL()[strings.Index(server.URL(), "@")+1:]
	if conn, err := nats.Connect("nats://" + host); err == nil {
		conn.Close()
		t.Error("a client without the token is connected")
	}
	for _, path := range []string{dir, filepath.Join(dir, "nats.json")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v: others can read it", path, info.Mode(), err)
		}
	}
}

func TestFindServerRefusesDamage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nats.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := jetstream.FindServer(dir); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("the error is %v", err)
	}
}
