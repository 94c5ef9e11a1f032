package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
)

// rawBuffer is the size of the read buffer, in bytes.
const rawBuffer = 256 << 10

// dial opens a watch without a client. It uses HTTP/1.0, which has no chunked encoding, so that the body consists of
// frames only, one on each line.
func dial(l *lap) (net.Conn, *bufio.Reader, error) {
	to, err := url.Parse(l.URL)
	if err != nil {
		return nil, nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(l.ctx, "tcp", to.Host)
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReaderSize(conn, rawBuffer)
	fmt.Fprintf(conn, "GET %s/api/v1/pods?watch=1&resourceVersion=%d HTTP/1.0\r\nHost: %s\r\n\r\n",
		to.Path, firstVersion, to.Host)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			conn.Close()
			return nil, nil, fmt.Errorf("reading the response header: %w", err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			return conn, in, nil
		}
	}
}

// rawSocket measures the cost of reading the bytes.
func rawSocket(l *lap) error {
	conn, in, err := dial(l)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := l.synced(); err != nil {
		return err
	}
	bookmarks := []byte(`{"type":"BOOKMARK"`)
	for {
		if _, err := in.Peek(1); err != nil {
			return err
		}
		text, _ := in.Peek(in.Buffered())
		// The buffer may end with the bookmark that follows the last event.
		n := bytes.Count(text, []byte{'\n'})
		if l.n+n >= l.want {
			n -= bytes.Count(text, bookmarks)
		}
		if l.events(n) {
			return nil
		}
		if _, err := in.Discard(len(text)); err != nil {
			return err
		}
	}
}

var errNoMetadata = errors.New("frame without metadata")

// metadataScan measures the cost of finding each event's metadata without decoding it.
func metadataScan(l *lap) error {
	conn, in, err := dial(l)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := l.synced(); err != nil {
		return err
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if metadataOf(line) == nil {
			return errors.Join(errNoMetadata, io.ErrUnexpectedEOF)
		}
		if l.events(1) {
			return nil
		}
	}
}

// metadataOf returns the first object under the key "metadata", or nil.
func metadataOf(frame []byte) []byte {
	const key = `"metadata":{`
	from := bytes.Index(frame, []byte(key))
	if from < 0 {
		return nil
	}
	from += len(key) - 1
	depth := 0
	for i := from; i < len(frame); i++ {
		switch frame[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return frame[from : i+1]
			}
		case '"':
			if i = endOfString(frame, i+1); i < 0 {
				return nil
			}
		}
	}
	return nil
}

// endOfString returns the index of the quote that ends the string around i, or -1.
func endOfString(text []byte, i int) int {
	for {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		slashes := 0
		for text[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
		i++
	}
}
