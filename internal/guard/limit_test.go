package guard_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/guard"
)

// endless is a body that never ends: a string.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	if clear(p); e.read == 0 {
		p[0] = '"'
	}
	e.read += int64(len(p))
	return len(p), nil
}

func (e *endless) Close() error { return nil }

func TestBodiesAreBounded(t *testing.T) {
	const never = 100 << 20
	for _, tt := range []struct {
		url       string
		discovery bool
		code      int
		limit     int64  // of what is read
		err       string // in part
		temporary bool
		why       string
	}{
		{"/api/v1/pods", false, 200, 64 << 20, "more than 64 MiB", false, "a list"},
		{"/api/v1/pods?labelSelector=watch%3Dtrue", false, 200, 64 << 20, "more than 64 MiB", false, "not a watch"},
		{"/api/v1/pods?watch=true", false, 200, never, "", false, "a watch never ends; its frames are bounded"},
		{"/api/v1/pods?watch=true", false, 410, 1 << 20, "more than 1 MiB", true, "the error of a watch"},
		{"/api/v1/pods", false, 500, 1 << 20, "more than 1 MiB", true, "another try may succeed"},
		{"/apis", true, 200, 16 << 20, "more than 16 MiB", false, "a discovery document"},
		{"/openapi/v3/apis/apps/v1", true, 200, 64 << 20, "more than 64 MiB", false, "OpenAPI documents are larger"},
		{"/apis", true, 503, 1 << 20, "more than 1 MiB", true, "an error of discovery"},
	} {
		body := &endless{}
		wrap := guard.Wrap
		if tt.discovery {
			wrap = guard.WrapDiscovery
		}
		client := http.Client{Transport: wrap(transportFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: tt.code, Body: body, Request: r}, nil
		}))}
		resp, err := client.Get("https://a.test" + tt.url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.CopyN(io.Discard, resp.Body, never)
		refused, _ := errors.AsType[*guard.Error](err)
		switch {
		case tt.err == "" && err != nil, tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: %v, want %q", tt.why, err, tt.err)
		case err != nil && (refused == nil) != tt.temporary, refused != nil && !refused.TooLarge:
			t.Errorf("%s: the error is a %T, temporary %t", tt.why, err, tt.temporary)
		case body.read < tt.limit || body.read > tt.limit+1<<20:
			t.Errorf("%s: %d bytes were read, want %d", tt.why, body.read, tt.limit)
		}
		if n, again := resp.Body.Read(make([]byte, 1)); err != nil && (n != 0 || again != err) {
			t.Errorf("%s: the next Read returns %d, %v", tt.why, n, again)
		}
	}
}

// JSON of empty objects takes 50 times as much memory.
func TestMemoryOfAnswersIsBounded(t *testing.T) {
	for _, tt := range []struct {
		text      string
		discovery bool
		err       string
		why       string
	}{
		{`{"":{}},`, true, "more than 128 MiB of memory", "small maps"},
		{`{"":{}},`, false, "more than 256 MiB of memory", "also in other answers"},
		{`"{{{{{{{{",`, true, "", "what is in strings takes no more"},
	} {
		body := &body{Reader: strings.NewReader(strings.Repeat(tt.text, 1_000_000))}
		wrap := guard.Wrap
		if tt.discovery {
			wrap = guard.WrapDiscovery
		}
		client := http.Client{Transport: wrap(transportFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: body, Request: r}, nil
		}))}
		resp, err := client.Get("https://a.test/apis")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); tt.err == "" && err != nil ||
			tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %q", tt.why, err, tt.err)
		}
	}
}
