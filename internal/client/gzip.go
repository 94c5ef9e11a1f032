package client

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
)

// encodings is a transport next to the network. It requests snapshots with compression, and inflates the answers of all
// calls. The config's WrapTransport sees neither, as with Go's own transport. That one would request watches with
// compression, too, and would keep an inflater for each.
type encodings struct {
	next     http.RoundTripper
	compress bool // unless the config forbids it
}

func (t encodings) RoundTrip(r *http.Request) (*http.Response, error) {
	c, _ := r.Context().Value(callKey{}).(*call)
	if c == nil {
		return t.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Accept-Encoding", "identity") // without the header, Go's transport would ask for gzip
	if t.compress && (!c.watch || r.URL.Query().Get("sendInitialEvents") == "true") {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil || resp.Body == nil || !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return resp, err
	}
	resp.Body = &inflated{ReadCloser: resp.Body}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength, resp.Uncompressed = -1, true
	return resp, nil
}

func (t encodings) WrappedRoundTripper() http.RoundTripper { return t.next }

// inflater takes 43 KiB. A body has one only while it reads a gzip member.
type inflater struct {
	gzip   gzip.Reader
	buffer *bufio.Reader // of the body
}

var inflaters = sync.Pool{New: func() any { return &inflater{buffer: bufio.NewReader(nil)} }}

// inflated is a body that was compressed: any number of gzip members. A kube-apiserver makes one of each list, and one
// of each flush of a watch (perFlushGzipWriter). What a member has is returned before the next one is read, so a watch
// that is silent between two members has no inflater.
type inflated struct {
	io.ReadCloser           // compressed
	inflater      *inflater // nil between members, if nothing after them was read
	begun         bool      // inflater has read the header of a member, and not its end
	begin         [64]byte  // of a member
	err           error
}

func (b *inflated) Read(p []byte) (n int, err error) {
	for n == 0 && b.err == nil && len(p) > 0 {
		if !b.begun {
			b.err = b.header()
			continue
		}
		if n, err = b.inflater.gzip.Read(p); err == nil {
			continue
		}
		b.begun = false
		switch {
		case err != io.EOF:
			b.err = err
		case b.inflater.buffer.Buffered() == 0:
			b.release()
		}
	}
	if b.err != nil {
		b.release()
	}
	if n > 0 {
		return n, nil
	}
	return 0, b.err
}

// header reads the header of the next member. It returns io.EOF at the end of the body.
func (b *inflated) header() error {
	if b.inflater == nil {
		n, err := b.ReadCloser.Read(b.begin[:])
		if n == 0 {
			return err
		}
		z := inflaters.Get().(*inflater)
		z.buffer.Reset(io.MultiReader(bytes.NewReader(b.begin[:n]), b.ReadCloser))
		b.inflater = z
	}
	err := b.inflater.gzip.Reset(b.inflater.buffer)
	b.inflater.gzip.Multistream(false)
	b.begun = err == nil
	return err
}

func (b *inflated) release() {
	if z := b.inflater; z != nil {
		z.buffer.Reset(nil)
		inflaters.Put(z)
		b.inflater = nil
	}
}
