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
	looked   int  // where frame has got to, from complete on
	small    int  // times in a row that little was taken
	stopped  bool // by who takes
	over     bool // by who reads
	err      error

	room  chan struct{} // has one when something was taken
	ready chan struct{} // has one when there may be something to take
}

func newPipe() *pipe {
	return &pipe{room: make(chan struct{}, 1), ready: make(chan struct{}, 1)}
}

// fill reads until the end.
func (p *pipe) fill(r io.Reader) {
	b := readBuffer{bytes: make([]byte, leastRead)}
	for {
		n, err := r.Read(b.bytes)
		p.add(b.bytes[:n])
		if err == nil && !p.await() {
			err = io.EOF
		}
		if err != nil {
			p.finish(err)
			return
		}
		b.fit(n)
	}
}

// readBuffer is as large as what comes at once.
type readBuffer struct {
	bytes []byte
	small int // reads in a row that would not have needed half of it
}

func (b *readBuffer) fit(n int) {
	size := len(b.bytes)
	if b.small++; n > size/4 {
		b.small = 0
	}
	switch {
	case n == size && size < mostRead:
		b.bytes = make([]byte, 2*size)
	case b.small > 100 && size > leastRead:
		*b = readBuffer{bytes: make([]byte, size/2)}
	}
}

// add appends what has been read.
func (p *pipe) add(read []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data = append(p.data, read...)
	if i := bytes.LastIndexByte(read, '\n'); i >= 0 {
		p.ends(len(p.data) - len(read) + i + 1)
	}
	wake(p.ready)
}

// ends notes the end of a frame.
func (p *pipe) ends(i int) { p.complete, p.looked, p.frame = i, i, decode.Frame{} }

// look finds the end of a frame whose line has not ended, from its brackets. That
// takes longer, so it is for when nothing else is there to be decoded.
func (p *pipe) look() {
	for p.looked < len(p.data) {
		n := p.frame.End(p.data[p.looked:])
		if n < 0 {
			p.looked = len(p.data)
			break
		}
		p.ends(p.looked + n)
	}
	if len(p.data)-p.complete > biggestFrame {
		p.complete = len(p.data) // whoever takes it will say that it is too much
	}
}

// await waits while enough has been read ahead. It returns false if nobody wants
// more.
func (p *pipe) await() bool {
	for {
		stopped, enough := p.enough()
		if stopped || !enough {
			return !stopped
		}
		<-p.room
	}
}

func (p *pipe) enough() (stopped, enough bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.data) < mostAhead {
		return p.stopped, false
	}
	if p.complete == 0 {
		p.look()
	}
	return p.stopped, p.complete > 0
}

func (p *pipe) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over, p.err = true, err
	wake(p.ready)
}

// take returns frames that have come, at least one, and others up to so many bytes
// if they are on lines of their own, and takes spare for those to come. over says
// that there will be nothing more, and err why: then what is taken may end within a
// frame.
func (p *pipe) take(spare []byte, most int) (data []byte, over bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, true, io.EOF
	}
	if p.complete == 0 {
		p.look()
	}
	n := p.complete
	if n > most {
		if i := bytes.LastIndexByte(p.data[:most], '\n'); i >= 0 {
			n = i + 1
		}
	}
	if n == 0 && p.over {
		n, over, err = len(p.data), true, p.err
	}
	if n > 0 {
		if p.small++; n > cap(spare)/8 {
			p.small = 0
		}
		if p.small > 100 && cap(spare) > mostRead {
			spare = nil // from a busier time
		}
		data = p.data[:n]
		p.data = append(spare[:0], p.data[n:]...)
		p.complete, p.looked = max(p.complete-n, 0), max(p.looked-n, 0)
		wake(p.room)
	}
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
