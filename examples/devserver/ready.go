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

// probeCRD is only created in a dry run.
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

// waitReady returns when the server is ready for clients.
func (s *Server) waitReady(ctx context.Context) error {
	client, err := rest.HTTPClientFor(s.clients.config)
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
		case <-s.running.done:
			return errors.Join(errors.New("the API server ended unexpectedly"), s.running.err)
		case <-ctx.Done():
			return fmt.Errorf("wait until ready: %w (%w)", context.Cause(ctx), err)
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
	const dryRun = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"
	return s.request(ctx, client, http.MethodPost, dryRun, probeCRD, "Probe")
}

// request sends a request and returns an error unless the response has want in its body.
func (s *Server) request(ctx context.Context, client *http.Client, method, path, body, want string) error {
	r, err := http.NewRequestWithContext(ctx, method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if path == "/apis" {
		r.Header.Set("Accept", acceptAggregated)
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, path, err)
	case response.StatusCode >= http.StatusBadRequest:
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	case !strings.Contains(string(text), want):
		return fmt.Errorf("%s %s: the response does not contain %q", method, path, want)
	}
	return nil
}
