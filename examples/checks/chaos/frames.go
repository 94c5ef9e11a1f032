package main

import (
	"bufio"
	"errors"
	"io"
)

var errBroken = errors.New("the fault breaks the response")

// frames is the body of a watch, whose frames are lines. It can be cut, and frames can be added.
type frames struct {
	forget func(*frames) // by the proxy
	conn   *proxyConn
	source io.ReadCloser
	lines  chan []byte
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
func (p *proxy) newFrames(source io.ReadCloser, conn *proxyConn) *frames {
	f := &frames{
		forget: p.forgetWatch, conn: conn, source: source,
		lines: make(chan []byte), orders: make(chan frameOrder, 8), closed: make(chan struct{}),
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

func (f *frames) read() {
	defer close(f.lines)
	r := bufio.NewReader(f.source)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			select {
			case f.lines <- line:
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
		case line, more := <-f.lines:
			if f.rest = line; !more {
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
		if line, more := <-f.lines; more {
			f.rest = line[:len(line)/2]
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
