package guard_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/guard"
)

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

func TestRedirectsStayAtTheServer(t *testing.T) {
	const secret = "hunter2"
	for _, tt := range []struct {
		from, location string
		code           int
		follows        bool
		why            string
	}{
		{"https://a.test/x", "/y", 302, true, "a path"},
		{"https://a.test/x", "https://a.test/y", 301, true, "the same host"},
		{"https://a.test/x", "https://A.TEST:443/y", 307, true, "written differently"},
		{"http://a.test:80/x", "//a.test/y", 308, true, "the default port of http"},
		{"https://a.test/x", "https://b.test/y", 302, false, "another host"},
		{"https://a.test/x", "//b.test/y", 303, false, "another host, same scheme"},
		{"https://a.test/x", "https://a.test:8443/y", 307, false, "another port is another server"},
		{"https://a.test/x", "http://a.test/y", 308, false, "without TLS"},
		{"http://a.test/x", "https://a.test/y", 301, false, "another port and scheme"},
		{"https://a.test/x", "https://" + secret + ":" + secret + "@b.test/" + secret, 302, false, "with credentials"},
		{"https://a.test/x", "https://b.test/\x7f" + secret, 302, false, "not a URL"},
		{"https://user:" + secret + "@a.test/x", "https://b.test", 302, false, "the first URL has credentials"},
	} {
		requests, first := 0, &body{Reader: strings.NewReader("")}
		client := http.Client{Transport: guard.Wrap(transportFunc(func(r *http.Request) (*http.Response, error) {
			if requests++; requests > 1 {
				return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
			}
			return &http.Response{StatusCode: tt.code, Header: http.Header{"Location": {tt.location}}, Body: first,
				Request: r}, nil
		}))}
		resp, err := client.Get(tt.from)
		refused := errors.As(err, new(*guard.Error))
		switch {
		case tt.follows && (err != nil || resp.StatusCode != 200):
			t.Errorf("%s: was not followed: %v", tt.why, err)
		case !tt.follows && (!refused || requests != 1 || !first.closed):
			t.Errorf("%s: %v after %d requests, body closed: %v", tt.why, err, requests, first.closed)
		case err != nil && strings.Contains(err.Error(), secret):
			t.Errorf("%s: the error has credentials: %v", tt.why, err)
		}
	}
}

func TestOtherAnswersPass(t *testing.T) {
	for _, code := range []int{200, 204, 300, 304, 404, 500} {
		client := http.Client{Transport: guard.Wrap(transportFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: code, Header: http.Header{"Location": {"https://b.test"}},
				Body: http.NoBody, Request: r}, nil
		}))}
		if resp, err := client.Get("https://a.test"); err != nil || resp.StatusCode != code {
			t.Errorf("%d: %v", code, err)
		}
	}
}
