package guard

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gvrwatch/gvrwatch/internal/size"
)

// limits bound the body of an answer.
type limits struct {
	bytes  int64 // decompressed
	memory int64 // that it takes when it is decoded: up to 50 times as much
}

var (
	// A page of 500 Pods has 1 to 5 MiB.
	answers = limits{64 << 20, 256 << 20}
	// The document of 10,000 CRDs has about 6 MB.
	documents = limits{16 << 20, 128 << 20}
)

// apply makes the body of an answer end with an error where it exceeds its limits. A watch has none: its events do.
func (l limits) apply(r *http.Request, resp *http.Response) {
	switch {
	case resp.Body == nil || resp.Body == http.NoBody:
		return
	case resp.StatusCode >= http.StatusBadRequest:
		settle(resp)
		return
	case r.URL.Query().Get("watch") == "true": // as client-go writes it
		return
	case strings.Contains(r.URL.Path, "/openapi/"):
		l = answers
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, limit: l}
}

// BytesOnly removes the limit of memory from the body of an answer. The caller has one of its own.
func BytesOnly(body io.ReadCloser) {
	if b, ok := body.(*limitedBody); ok {
		b.limit.memory = 0
	}
}

// limitedBody is the body of an answer that may be too large.
type limitedBody struct {
	io.ReadCloser
	limit  limits
	read   int64
	needed size.Scanner
	err    error
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if b.limit.memory > 0 {
		b.needed.Add(p[:n])
	}
	switch {
	case b.read > b.limit.bytes:
		b.err = TooLarge(fmt.Sprintf("invalid answer: it has more than %d MiB, the limit", b.limit.bytes>>20))
	case b.limit.memory > 0 && b.needed.Size > b.limit.memory:
		b.err = TooLarge(fmt.Sprintf("invalid answer: it takes more than %d MiB of memory, the limit",
			b.limit.memory>>20))
	default:
		return n, err
	}
	return 0, b.err
}
