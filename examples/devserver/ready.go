package devserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// probeCRD is created in a dry run, which leaves nothing behind.
const probeCRD = `{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {"name": "probes.devserver.gvrwatch.example.com"},
  "spec": {
    "group": "devserver.gvrwatch.example.com", "scope": "Cluster",
    "names": {"plural": "probes", "kind": "Probe"},
    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]
  }
}`

const readyPoll = 10 * time.Millisecond

// waitReady returns when a client can work with the server.
func (s *Server) waitReady(ctx context.Context) error {
	client, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		err := s.probe(ctx, client)
		if err == nil {
			return nil
		}
		select {
		case <-s.runDone:
			return errors.Join(errors.New("the API server ended by itself"), s.runErr)
		case <-ctx.Done():
			return fmt.Errorf("wait until it is ready: %w (%w)", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

func (s *Server) probe(ctx context.Context, client *http.Client) error {
	if err := s.request(ctx, client, http.MethodGet, "/readyz", "", "ok"); err != nil {
		return err
	}
	if err := s.request(ctx, client, http.MethodGet, "/apis", "", "customresourcedefinitions"); err != nil {
		return err
	}
	return s.request(ctx, client, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All", probeCRD, "Probe")
}

// ask sends one request and looks for a word in the answer.
func (s *Server) request(ctx context.Context, client *http.Client, method, path, body, want string) error {
	r, err := http.NewRequestWithContext(ctx, method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if path == "/apis" {
		r.Header.Set("Accept", acceptAggregated)
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, path, err)
	case answer.StatusCode >= http.StatusBadRequest:
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	case !strings.Contains(string(text), want):
		return fmt.Errorf("%s %s: the answer lacks %q", method, path, want)
	}
	return nil
}
