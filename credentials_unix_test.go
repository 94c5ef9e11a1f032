//go:build unix

package gvrwatch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// rotating is a server whose token is another one from a certain request on. A credential plugin knows the new one.
type rotating struct {
	server *streamtest.Server
	file   string

	mu    sync.Mutex
	valid string
	at    string // a part of the request before which the token changes; empty: no more
	known bool   // to the plugin
}

func (s *rotating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.at != "" && strings.Contains(r.URL.String(), s.at) {
		s.at, s.valid = "", s.valid+"+"
		if s.known {
			_ = os.WriteFile(s.file, []byte(s.valid), 0o600)
		}
	}
	valid := s.valid
	s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+valid {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized",`+
			`"code":401}`)
		return
	}
	s.server.ServeHTTP(w, r)
}

var widget = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
	Kind:                 "Widget", Namespaced: true,
}

// newRotating returns a server, and a configuration with a credential plugin, which gives tokens without an expiry.
func newRotating(t *testing.T) (*rotating, *rest.Config) {
	dir := t.TempDir()
	s := &rotating{server: streamtest.NewServer(widget), file: filepath.Join(dir, "token"), valid: t.Name()}
	hs := httptest.NewServer(s)
	t.Cleanup(hs.Close)
	t.Cleanup(s.server.Close)
	plugin := filepath.Join(dir, "plugin")
	script := `#!/bin/sh
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$(cat ` +
		s.file + `)"`
	for name, text := range map[string]string{plugin: script, s.file: s.valid} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s, &rest.Config{Host: hs.URL, ExecProvider: &clientcmdapi.ExecConfig{
		Command: plugin, APIVersion: "client.authentication.k8s.io/v1",
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}
}

// TestTokenThatExpiredBeforeTheStart: client-go runs a credential plugin again only after a 401, whatever the request.
func TestTokenThatExpiredBeforeTheStart(t *testing.T) {
	for _, paged := range []bool{false, true} {
		for _, at := range []string{"/api", "/apis", "widgets?", "watch=true", "kube-system"} {
			t.Run(fmt.Sprintf("%s paged:%v", at, paged), func(t *testing.T) {
				t.Parallel() // most of the time passes between attempts
				testExpiredToken(t, at, paged)
			})
		}
	}
}

func testExpiredToken(t *testing.T, at string, paged bool) {
	s, cfg := newRotating(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	run := func() error {
		if at == "kube-system" {
			_, err := clusterOf(ctx, cfg)
			return err
		}
		o := &stream.Options{Requests: stream.Requests{PagedLists: paged}}
		for ev, err := range gvrwatch.Watch(ctx, cfg, "widgets", o) {
			if err != nil {
				return err
			}
			if ev.Type == stream.Synced {
				return nil
			}
		}
		return nil
	}
	expires := func(known bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.at, s.known = at, known
	}
	if err := run(); err != nil {
		t.Errorf("before the token changes: %v", err)
	}
	expires(true)
	if err := run(); err != nil {
		t.Errorf("the token changes: %v", err)
	}
	s.mu.Lock()
	if s.at != "" {
		t.Errorf("no request for %q was sent", at)
	}
	s.mu.Unlock()
	expires(false)
	began := time.Now()
	if err := run(); !apierrors.IsUnauthorized(err) || ctx.Err() != nil {
		t.Errorf("the plugin does not know the token: %v after %v", err, time.Since(began))
	}
}
