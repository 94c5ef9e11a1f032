package stream

import (
	"bytes"
	"io"
	"sync"

	"github.com/gvrwatch/gvrwatch/internal/decode"
)

const (
	// leastRead and mostRead bound what is read at once: an idle watch has a small
	// buffer, a busy one few system calls.
	leastRead, mostRead = 4 << 10, 64 << 10
	// mostAhead is how much may have been read of what nobody has taken yet.
	mostAhead = 128 << 10
	// biggestFrame is what client-go takes (streaming.NewDecoder).
	biggestFrame = 16 << 20
)

// pipe hands what one goroutine reads from a watch to those who decode it, in
// pieces that end where a frame does, as far as line ends and brackets tell. Each
// watch has one.
type pipe struct {
	mu       sync.Mutex
	data     []byte // that has come and has not been taken
	complete int    // of it, up to the end of its last frame
	frame    decode.Frame
	looked   int  // where frame has got to
	stopped  bool // by who takes
	over     bool // by who reads
	err      error

	room  chan struct{} // has one when something was taken
	ready chan struct{} // has one when there may be something to take
}

func newPipe() *pipe {
	return &pipe{room: make(chan struct{}, 1), ready: make(chan struct{}, 1)}
}

// fill reads until the end, and returns why that came.
func (p *pipe) fill(r io.Reader) error {
	buf := make([]byte, leastRead)
	for {
		n, err := r.Read(buf)
		buf = p.add(buf, n)
		if err != nil {
			p.finish(err)
			return err
		}
		if !p.await() {
			p.finish(io.EOF)
			return io.EOF
		}
	}
}

// add appends what has been read in buf, and returns the buffer to read into next.
func (p *pipe) add(buf []byte, n int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	full := n == len(buf)
	if len(p.data) == 0 && !full && cap(p.data) >= leastRead {
		buf, p.data = p.data[:cap(p.data)], buf[:n] // nothing has to be copied
	} else {
		p.data = append(p.data, buf[:n]...)
	}
	p.look()
	if p.complete > 0 {
		wake(p.ready)
	}
	switch {
	case full && len(buf) < mostRead:
		return make([]byte, 2*len(buf))
	case n < len(buf)/16 && len(buf) > leastRead:
		return make([]byte, len(buf)/2)
	}
	return buf[:min(len(buf), mostRead)]
}

// look finds the end of the last frame that has come: the last line's, or, where
// lines don't end, that which the brackets show.
func (p *pipe) look() {
	if i := bytes.LastIndexByte(p.data[p.looked:], '\n'); i >= 0 {
		p.complete = p.looked + i + 1
		p.looked = p.complete
		p.frame = decode.Frame{}
	}
	for p.looked < len(p.data) {
		n := p.frame.End(p.data[p.looked:])
		if n < 0 {
			p.looked = len(p.data)
			break
		}
		p.looked += n
		p.complete = p.looked
	}
	if len(p.data)-p.complete > biggestFrame {
		p.complete = len(p.data) // whoever takes it will say that it is too much
	}
}

// await waits while enough has been read ahead. It returns false if nobody wants
// more.
func (p *pipe) await() bool {
	for {
		p.mu.Lock()
		stopped, enough := p.stopped, p.complete > 0 && len(p.data) >= mostAhead
		p.mu.Unlock()
		if stopped || !enough {
			return !stopped
		}
		<-p.room
	}
}

func (p *pipe) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over, p.err = true, err
	wake(p.ready)
}

// take returns frames that have come, of at most so many bytes if they are on
// several lines, and takes spare for those to come. over says that there will be
// nothing more, and err why: then what is taken may end within a frame.
func (p *pipe) take(spare []byte, most int) (data []byte, over bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, true, io.EOF
	}
	n := p.complete
	if n > most {
		if i := bytes.LastIndexByte(p.data[:most], '\n'); i >= 0 {
			n = i + 1
		}
	}
	if n == 0 && p.over {
		n, over, err = len(p.data), true, p.err
		wake(p.ready)
	}
	if n == 0 {
		return nil, over, err
	}
	data = p.data[:n:n]
	p.data = append(spare[:0], p.data[n:]...)
	p.complete -= n
	p.looked = max(p.looked-n, 0)
	wake(p.room)
	if p.complete > 0 || p.over {
		wake(p.ready) // there is more, or others are to see that there is not
	}
	return data, over, err
}

// stop lets everybody go.
func (p *pipe) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	wake(p.room)
	wake(p.ready)
}

// wake makes sure that there is something in a channel that has room for one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
