package guard_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	cmp "github.com/google/go-cmp/cmp"

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
		limit     int64  // of what is read
		err       string // in part
		why       string
	}{
		{"/api/v1/pods", false, 64 << 20, "more than 64 MiB", "a list"},
		{"/api/v1/pods?labelSelector=watch%3Dtrue", false, 64 << 20, "more than 64 MiB", "not a watch"},
		{"/api/v1/pods?watch=true", false, never, "", "a watch never ends; its frames are bounded"},
		{"/apis", true, 16 << 20, "more than 16 MiB", "a discovery document"},
		{"/openapi/v3/apis/apps/v1", true, 64 << 20, "more than 64 MiB", "OpenAPI documents are larger"},
	} {
		body := &endless{}
		resp := get(t, tt.url, tt.discovery, &http.Response{StatusCode: 200, Body: body})
		_, err := io.CopyN(io.Discard, resp.Body, never)
		var refused *guard.Error
		errors.As(err, &refused)
		switch {
		case tt.err == "" && err != nil, tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: %v, want %q", tt.why, err, tt.err)
		case err != nil && (refused == nil || !refused.TooLarge):
			t.Errorf("%s: the error is a %T", tt.why, err)
		case body.read < tt.limit || body.read > tt.limit+1<<20:
			t.Errorf("%s: %d bytes were read, want %d", tt.why, body.read, tt.limit)
		}
		if n, again := resp.Body.Read(make([]byte, 1)); err != nil && (n != 0 || again != err) {
			t.Errorf("%s: the next Read returns %d, %v", tt.why, n, again)
		}
	}
}

func get(t *testing.T, url string, discovery bool, resp *http.Response) *http.Response {
	t.Helper()
	wrap := guard.Wrap
	if discovery {
		wrap = guard.WrapDiscovery
	}
	resp.Header = http.Header{"Content-Type": {"text/plain"}}
	client := http.Client{Transport: wrap(transportFunc(func(r *http.Request) (*http.Response, error) {
		resp.Request = r
		return resp, nil
	}))}
	got, err := client.Get("https://a.test" + url)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// The code of a failure decides what happens next, so it stays. What is cut off is the Status of no API server.
func TestLongErrorsBecomeAText(t *testing.T) {
	body := &endless{}
	resp := get(t, "/api/v1/pods?watch=true", false, &http.Response{StatusCode: 410, Body: body})
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("the server answered 410 with more than 1 MiB", string(text)); diff != "" ||
		resp.StatusCode != 410 || resp.Header.Get("Content-Type") != "text/plain" {
		t.Errorf("%d, %v (-want +got):\n%s", resp.StatusCode, resp.Header, diff)
	}
	if body.read > 2<<20 {
		t.Errorf("%d bytes were read", body.read)
	}

	broken := errors.New("broken")
	for _, end := range []error{nil, broken} {
		short := io.Reader(strings.NewReader("short"))
		if end != nil {
			short = io.MultiReader(short, iotest.ErrReader(end))
		}
		resp := get(t, "/api/v1/pods", false, &http.Response{StatusCode: 500, Body: io.NopCloser(short)})
		if text, err := io.ReadAll(resp.Body); string(text) != "short" || err != end {
			t.Errorf("a short error becomes %q, %v, want an end with %v", text, err, end)
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
		resp := get(t, "/apis", tt.discovery, &http.Response{StatusCode: 200, Body: body})
		if _, err := io.ReadAll(resp.Body); tt.err == "" && err != nil ||
			tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %q", tt.why, err, tt.err)
		}
	}
}
