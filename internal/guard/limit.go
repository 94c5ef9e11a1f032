package guard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		limitError(resp)
		return
	case r.URL.Query().Get("watch") == "true": // as client-go writes it
		return
	case strings.Contains(r.URL.Path, "/openapi/"):
		l = answers
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, limit: l}
}

// errorBytes is how long the answer to a request that failed may be. A Status has a few KiB.
const errorBytes = 1 << 20

// limitError replaces the body of an answer that is too long by a Status with the same code: the code decides what
// happens next.
func limitError(resp *http.Response) {
	body := resp.Body
	read, err := io.ReadAll(io.LimitReader(body, errorBytes+1))
	if len(read) <= errorBytes {
		resp.Body = struct { // read again
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(read), &ending{err}), body}
		return
	}
	_ = body.Close()
	status := metav1.Status{Status: metav1.StatusFailure, Code: int32(resp.StatusCode),
		Message: fmt.Sprintf("the server answered %d with more than %d MiB", resp.StatusCode, errorBytes>>20)}
	status.Kind, status.APIVersion = "Status", "v1"
	text, _ := json.Marshal(status) // has only texts and numbers
	resp.Header.Set("Content-Type", "application/json")
	resp.ContentLength = int64(len(text))
	resp.Body = io.NopCloser(bytes.NewReader(text))
}

// ending ends a body with err, or if that is nil, as usual.
type ending struct{ err error }

func (e *ending) Read([]byte) (int, error) { return 0, cmp.Or(e.err, io.EOF) }

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
