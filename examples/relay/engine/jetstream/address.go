package jetstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats.go"
)

const (
	lockFile    = "lock"      // held by the process that runs the server
	addressFile = "nats.json" // of the server, while it runs
)

// errNoServer is wrapped by the errors of findServer if no server runs now: one may start.
var errNoServer = errors.New("no relay runs")

// address is what the file has, which only the owner can read.
type address struct {
	URL string `json:"url"`
}

// writeAddress writes the file as a whole.
func writeAddress(dir, url string) error {
	data, err := json.Marshal(address{url})
	if err != nil {
		return err
	}
	name := filepath.Join(dir, addressFile)
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// FindServer returns the URL, with the token, of the server that runs with a folder.
func FindServer(dir string) (string, error) {
	u, err := findServer(dir)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// findServer returns the URL of the server that runs with a folder. The address is read before the lock is tested: if
// the lock is held then, the address is that of a server which ran until now, and its token opens no later one.
func findServer(dir string) (*url.URL, error) {
	data, err := os.ReadFile(filepath.Join(dir, addressFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w with the folder %s", errNoServer, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("find NATS: %w", err)
	}
	lock := flock.New(filepath.Join(dir, lockFile))
	free, err := lock.TryRLock()
	if free {
		_ = lock.Unlock()
		err = fmt.Errorf("%w with the folder %s: it has ended without a word", errNoServer, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("find NATS: %w", err)
	}
	var a address
	damaged := fmt.Errorf("find NATS: %s is damaged: start the relay again", filepath.Join(dir, addressFile))
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, damaged
	}
	u, err := url.Parse(a.URL)
	if err != nil || u.Host == "" || u.User.Username() == "" {
		return nil, damaged
	}
	return u, nil
}

// dialer connects to the server that runs with a folder now, and knows its token.
type dialer struct {
	dir   string
	token atomic.Value // of the last server to which it has connected
}

// dialerURL stands for the server with the folder: the dialer ignores the address.
const dialerURL = "nats://127.0.0.1"

// options are those of a client.
func (d *dialer) options() []nats.Option {
	return []nats.Option{nats.SetCustomDialer(d), nats.TokenHandler(func() string {
		token, _ := d.token.Load().(string)
		return token
	})}
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, _ string) (net.Conn, error) {
	u, err := findServer(d.dir)
	if err != nil {
		return nil, err
	}
	d.token.Store(u.User.Username())
	return net.DialTimeout(network, u.Host, 2*time.Second)
}
