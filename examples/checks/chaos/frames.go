package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
)

var errBroken = errors.New("the fault breaks the response")

// frames is the body of a watch. It can be cut, and frames can be added.
type frames struct {
	forget func(*frames) // by the proxy
	conn   *proxyConn
	source io.ReadCloser
	next   func(*bufio.Reader) ([]byte, error) // returns a frame
	each   chan []byte
	orders chan frameOrder
	closed chan struct{}

	rest []byte // of the current frame
	end  func() error
}

// frameOrder changes a watch once. The zero value ends it cleanly.
type frameOrder struct {
	add  []byte           // a frame that is sent before the end
	half bool             // half of the next frame is sent before the end
	goOn bool             // the watch does not end
	by   func(*proxyConn) // ends the watch by its connection
	err  error            // nil is a clean end
}

// newFrames wraps the body of a watch.
func (p *proxy) newFrames(watch *http.Response, conn *proxyConn) *frames {
	f := &frames{
		forget: p.forgetWatch, conn: conn, source: watch.Body, next: untilNewline,
		each: make(chan []byte), orders: make(chan frameOrder, 8), closed: make(chan struct{}),
	}
	if strings.Contains(watch.Header.Get("Content-Type"), "protobuf") {
		f.next = withLength
	}
	p.state.mu.Lock()
	p.state.watches[f] = true
	if p.state.answer != nil && p.state.answer.frame != nil {
		f.orders <- frameOrder{add: p.state.answer.frame, goOn: p.state.answer.goOn}
	}
	p.state.mu.Unlock()
	go f.read()
	return f
}

// untilNewline returns a frame of a watch in JSON.
func untilNewline(r *bufio.Reader) ([]byte, error) { return r.ReadBytes('\n') }

// withLength returns a frame of a watch in protobuf, which its length in four bytes precedes.
func withLength(r *bufio.Reader) ([]byte, error) {
	var length [4]byte
	n, err := io.ReadFull(r, length[:])
	if err != nil {
		return length[:n], err
	}
	frame := make([]byte, len(length)+int(binary.BigEndian.Uint32(length[:])))
	n, err = io.ReadFull(r, frame[copy(frame, length[:]):])
	return frame[:len(length)+n], err
}

func (f *frames) read() {
	defer close(f.each)
	r := bufio.NewReader(f.source)
	for {
		frame, err := f.next(r)
		if len(frame) > 0 {
			select {
			case f.each <- frame:
			case <-f.closed:
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				f.order(frameOrder{err: err})
			}
			return
		}
	}
}

func (f *frames) Read(b []byte) (int, error) {
	for len(f.rest) == 0 {
		if f.end != nil {
			return 0, f.end()
		}
		select {
		case o := <-f.orders:
			f.obey(o)
			continue
		default:
		}
		select {
		case o := <-f.orders:
			f.obey(o)
		case frame, more := <-f.each:
			if f.rest = frame; !more {
				return f.last()
			}
		}
	}
	n := copy(b, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// last returns how the source ended.
func (f *frames) last() (int, error) {
	select {
	case o := <-f.orders:
		if o.err != nil {
			return 0, o.err
		}
	default:
	}
	return 0, io.EOF
}

func (f *frames) obey(o frameOrder) {
	switch {
	case o.add != nil:
		f.rest = o.add
	case o.half:
		if frame, more := <-f.each; more {
			f.rest = frame[:len(frame)/2]
		}
	}
	if o.goOn {
		return
	}
	f.end = func() error {
		if o.by != nil {
			o.by(f.conn)
		}
		if o.err == nil {
			return io.EOF
		}
		return o.err
	}
}

// order gives an order, unless the watch is about to end anyway.
func (f *frames) order(o frameOrder) {
	select {
	case f.orders <- o:
	default:
	}
}

func (f *frames) Close() error {
	f.forget(f)
	return f.source.Close()
}

func (p *proxy) forgetWatch(f *frames) {
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	if p.state.watches[f] {
		delete(p.state.watches, f)
		close(f.closed)
	}
}

// orderAll gives an order to all open watches.
func (p *proxy) orderAll(o frameOrder) {
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	for f := range p.state.watches {
		f.order(o)
	}
}
