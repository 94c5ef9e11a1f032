package guard

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// limits bound the body of an answer.
type limits struct {
	bytes int64 // decompressed
	// objects is how many JSON objects it may have: an empty one has two bytes, and takes a hundred times that in
	// memory. Zero means no limit.
	objects int64
}

var (
	// A page of 500 Pods has 1 to 5 MiB.
	answers = limits{bytes: 64 << 20}
	// The document of 10,000 CRDs has about 6 MB, and 70,000 JSON objects.
	documents = limits{bytes: 16 << 20, objects: 400_000}
	// A Status has a few KiB.
	failures = limits{bytes: 1 << 20}
)

// apply makes the body of an answer end with an error where it exceeds its limits. A watch has none: its events do.
func (l limits) apply(r *http.Request, resp *http.Response) {
	failed := resp.StatusCode >= http.StatusBadRequest
	switch {
	case resp.Body == nil || resp.Body == http.NoBody:
		return
	case failed:
		l = failures
	case r.URL.Query().Get("watch") == "true": // as client-go writes it
		return
	case strings.Contains(r.URL.Path, "/openapi/"):
		l = answers
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, limits: l, failed: failed}
}

// limitedBody is the body of an answer that may be too large.
type limitedBody struct {
	io.ReadCloser
	limits
	read   limits // so far
	failed bool   // the request failed, and another try may succeed
	err    error
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	b.read.bytes += int64(n)
	if b.objects > 0 {
		b.read.objects += int64(bytes.Count(p[:n], []byte{'{'}))
	}
	switch {
	case b.read.bytes > b.bytes && b.failed:
		b.err = fmt.Errorf("the server's answer to a request that failed has more than %d MiB", b.bytes>>20)
	case b.read.bytes > b.bytes:
		b.err = TooLarge(fmt.Sprintf("the server's answer has more than %d MiB", b.bytes>>20))
	case b.objects > 0 && b.read.objects > b.objects:
		b.err = TooLarge(fmt.Sprintf("the server's answer has more than %d JSON objects", b.objects))
	default:
		return n, err
	}
	return 0, b.err
}
