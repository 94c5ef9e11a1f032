package tables_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/tables"
)

func TestRequests(t *testing.T) {
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io,"
	for _, tt := range []struct{ method, url, accept, wantAccept, wantQuery, why string }{
		{"GET", "/api/v1/pods?limit=5", "application/json", table + "application/json",
			"includeObject=Metadata&limit=5", "a list"},
		{"GET", "/api/v1/pods?sendInitialEvents=true&watch=true",
			"application/json;drop=metadata.managedFields,application/json",
			table + "application/json;drop=metadata.managedFields,application/json",
			"includeObject=Metadata&sendInitialEvents=true&watch=true", "a watch without managedFields"},
		{"GET", "/api/v1/pods?limit=5",
			"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
			"", "limit=5", "metadata"},
		{"GET", "/api/v1/pods?limit=5", "application/vnd.kubernetes.protobuf", "", "limit=5", "protobuf"},
		{"GET", "/api/v1/namespaces/a", "application/json", "", "", "an object"},
		{"POST", "/api/v1/pods?limit=5", "application/json", "", "limit=5", "a write"},
	} {
		cfg, _ := tables.Wrap(&rest.Config{}, false)
		var got *http.Request
		transport := cfg.WrapTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
			got = r
			return nil, io.EOF
		}))
		r := httptest.NewRequest(tt.method, "https://a.test"+tt.url, http.NoBody)
		r.Header.Set("Accept", tt.accept)
		if _, err := transport.RoundTrip(r); err != io.EOF {
			t.Errorf("%s: %v, want the error of the next transport", tt.why, err)
		}
		if tt.wantAccept == "" {
			tt.wantAccept = tt.accept
		}
		if got.Header.Get("Accept") != tt.wantAccept || got.URL.RawQuery != tt.wantQuery {
			t.Errorf("%s: requested %q with %q", tt.why, got.URL.RawQuery, got.Header.Get("Accept"))
		}
		if r.Header.Get("Accept") != tt.accept || strings.Contains(r.URL.RawQuery, "includeObject") {
			t.Errorf("%s: the caller's request has changed", tt.why)
		}
	}
	if cfg, tbl := tables.Wrap(nil, false); cfg != nil || tbl == nil {
		t.Errorf("Wrap(nil) = %v, %v", cfg, tbl)
	}
}

// Without a Table the answer is that of the server.
func TestOtherAnswersPass(t *testing.T) {
	text := table(rows(row("a", `[1]`)))
	for _, tt := range []struct {
		code     int
		header   http.Header
		requests int
		why      string
	}{
		{410, http.Header{"Content-Type": {"application/json"}}, 1, "an error"},
		{406, http.Header{"Content-Type": {"application/json"}}, 2, "a server that refuses Tables is asked without"},
		{200, http.Header{"Content-Type": {"application/cbor"}}, 1, "another format"},
		{200, http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, 1, "compressed"},
	} {
		cfg, _ := tables.Wrap(&rest.Config{}, false)
		var accepts []string
		resp, err := cfg.WrapTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
			accepts = append(accepts, r.Header.Get("Accept"))
			return &http.Response{StatusCode: tt.code, Header: tt.header, Body: io.NopCloser(strings.NewReader(text)),
				ContentLength: 7}, nil
		})).RoundTrip(get(t, listURL))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if diff := cmp.Diff(text, string(got)); diff != "" || err != nil || resp.ContentLength != 7 {
			t.Errorf("%s: %v (-want +got):\n%s", tt.why, err, diff)
		}
		if len(accepts) != tt.requests || accepts[len(accepts)-1] != "application/json" && tt.requests == 2 {
			t.Errorf("%s: requests with %q", tt.why, accepts)
		}
	}
}

// serve serves a watch that sends one frame and then nothing. It returns the body after the frame has been read.
func serve(t *testing.T, ctx context.Context) io.ReadCloser {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// No line end: a frame is complete at its last bracket.
		both := frame("ADDED", table(columns, rows(row("a", `[1]`), row("b", `[2]`))))
		_, _ = io.WriteString(w, strings.TrimSpace(both))
		_, _ = io.WriteString(w, `{"type":`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	cfg, tbl := tables.Wrap(&rest.Config{Host: server.URL}, false)
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(get(t, server.URL+"/api/v1/pods?watch=true").WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	want := frame("ADDED", object("a", `[1]`)) + frame("ADDED", object("b", `[2]`))
	want = strings.ReplaceAll(want, "KEY", tables.Key(tbl))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
		t.Fatalf("%v: %s", err, got)
	}
	return resp.Body
}

// A frame does not wait for the next one, and a Read that waits ends with the body or the context.
func TestBlockedReadsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	for _, end := range []struct {
		how string
		f   func(io.Closer)
	}{
		{"Close", func(c io.Closer) { _ = c.Close() }},
		{"cancel", func(io.Closer) { cancel() }},
	} {
		body := serve(t, ctx)
		read := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, body)
			read <- err
		}()
		end.f(body)
		if err := <-read; err == nil || end.how == "cancel" && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the Read ended with %v", end.how, err)
		}
		_ = body.Close()
	}
}
