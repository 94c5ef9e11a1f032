package discovery

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// remembering is a transport that asks for a document it remembers only if that
// has changed, and hands it back as if it had been sent again.
type remembering struct {
	next  http.RoundTripper
	pages sync.Map // of *page, by pageKey: two documents, in the few forms in which they can be asked for
}

// pageKey has what the answer depends on ("Vary: Accept"), of what is not the same in
// all requests. The server has the last word: it is asked each time.
type pageKey struct{ url, accept string }

// page is a document as the server sent it. It is never changed.
type page struct {
	etag   string
	header http.Header
	body   []byte
}

func (t *remembering) RoundTrip(r *http.Request) (*http.Response, error) {
	if !rememberable(r) {
		return t.next.RoundTrip(r)
	}
	key := pageKey{r.URL.String(), r.Header.Get("Accept")}
	remembered, _ := t.pages.Load(key)
	known, _ := remembered.(*page)
	asked := r
	if known != nil {
		asked = r.Clone(r.Context())
		asked.Header.Set("If-None-Match", known.etag)
	}
	response, err := t.next.RoundTrip(asked)
	switch {
	case err != nil:
	case response.StatusCode == http.StatusNotModified && known != nil:
		_ = response.Body.Close()
		return known.response(r), nil
	case response.StatusCode == http.StatusOK:
		err = t.remember(key, response)
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// rememberable says whether r is for one of the two documents that have ETags, and no
// other form of it.
func rememberable(r *http.Request) bool {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if r.Header.Get("If-None-Match")+r.Header.Get("Range")+r.Header.Get("Accept-Encoding") != "" {
		return false
	}
	return r.Method == http.MethodGet && (strings.HasSuffix(path, "/api") || strings.HasSuffix(path, "/apis"))
}

// remember reads the body of an answer, which it replaces by what it read, and keeps
// it if it can be asked for by its ETag.
func (t *remembering) remember(key pageKey, response *http.Response) error {
	// A proxy that compresses makes the ETag a weak one, which the kube-apiserver would
	// not know again. The document is the same.
	etag := strings.TrimPrefix(response.Header.Get("ETag"), "W/")
	if etag == "" {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return fmt.Errorf("the discovery document broke off: %w", err) // client-go repeats what is an io.EOF at once
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	t.pages.Store(key, &page{etag, response.Header.Clone(), body})
	return nil
}

// response is the document as an answer to r.
func (p *page) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: p.header.Clone(), Body: io.NopCloser(bytes.NewReader(p.body)), ContentLength: int64(len(p.body)), Request: r,
	}
}
