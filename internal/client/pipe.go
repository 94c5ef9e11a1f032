package client

import (
	"bytes"
	"io"
	"sync"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

const (
	// leastRead and mostRead bound what is read at once: an idle watch has a small
	// buffer, a busy one few system calls.
	minRead, maxRead = 4 << 10, 64 << 10
	// mostIdle is what a watch keeps of each of its buffers when nothing has come.
	maxIdle = 16 << 10
	// mostAhead is how much may have been read of what nobody has taken yet.
	maxAhead = 128 << 10
	// biggestFrame is what client-go takes (streaming.NewDecoder).
	maxFrame = 16 << 20
)

// pipe hands what one goroutine reads from a watch to those who decode it, in
// pieces that end where a frame does, as far as line ends and brackets tell. Each
// watch has one.
type pipe struct {
	mu       sync.Mutex
	data     []byte // that has come
	begin    int    // of it, what has not been taken
	complete int    // up to the end of its last frame
	scan            // from complete on
	stopped  bool   // by the receiver
	ending          // of what is read

	room  wait.Signal // has one when something was taken
	ready wait.Signal // has one when there may be something to take
}

func newPipe() *pipe {
	return &pipe{room: wait.NewSignal(), ready: wait.NewSignal()}
}

// bigBuffers are for watches whose small ones were full.
var bigBuffers = sync.Pool{New: func() any { b := make([]byte, maxRead); return &b }}

// fill reads until the end.
func (p *pipe) fill(r io.Reader) {
	small, full := make([]byte, minRead), false
	for {
		buf := small
		var big *[]byte
		if full {
			big = bigBuffers.Get().(*[]byte)
			buf = *big
		}
		n, err := r.Read(buf)
		full = n == len(buf)
		p.add(buf[:n])
		if big != nil {
			bigBuffers.Put(big)
		}
		if err == nil && !p.await() {
			err = io.EOF
		}
		if err != nil {
			p.finish(err)
			return
		}
	}
}

// pieces are buffers for what waits, of watches that are busy.
var pieces = sync.Pool{New: func() any { b := make([]byte, 0, 2*maxAhead); return &b }}

// appendPiece is append, to a small buffer, or to one of pieces.
func appendPiece(data, more []byte) []byte {
	n := len(data) + len(more)
	if n <= cap(data) || n <= maxIdle || n > 2*maxAhead {
		return append(data, more...)
	}
	piece := *pieces.Get().(*[]byte)
	return append(append(piece[:0], data...), more...)
}

// dropPiece returns the buffer without what was in it, if it is a small one.
func recyclePiece(data []byte) []byte {
	if cap(data) <= maxIdle {
		return data[:0]
	}
	if data = data[:0]; cap(data) == 2*maxAhead {
		pieces.Put(&data)
	}
	return nil
}

// add appends what has been read.
func (p *pipe) add(read []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begin > 0 && len(p.data)+len(read) > cap(p.data) {
		p.data = p.data[:copy(p.data, p.data[p.begin:])]
		p.complete, p.scanned, p.begin = p.complete-p.begin, p.scanned-p.begin, 0
	}
	p.data = appendPiece(p.data, read)
	if i := bytes.LastIndexByte(read, '\n'); i >= 0 {
		p.frameEndsAt(len(p.data) - len(read) + i + 1)
	}
	p.ready.Send()
}

// ends notes the end of a frame.
func (p *pipe) frameEndsAt(i int) { p.complete, p.scanned, p.frame = i, i, decode.Frame{} }

// has says whether there is a frame. Where a line has not ended brackets tell; that
// takes longer, so it is for when nothing else is there to be decoded.
func (p *pipe) hasFrame() bool {
	if p.complete > p.begin {
		return true
	}
	for p.scanned < len(p.data) {
		n := p.frame.End(p.data[p.scanned:])
		if n < 0 {
			p.scanned = len(p.data)
			break
		}
		p.frameEndsAt(p.scanned + n)
	}
	switch {
	case !p.frame.Begun(): // white space, that nobody need keep
		p.frameEndsAt(len(p.data))
	case len(p.data)-p.complete > maxFrame:
		p.complete = len(p.data) // whoever takes it will say what is wrong with it
	}
	return p.complete > p.begin
}

// await waits while enough has been read ahead. It returns false if nobody wants
// more.
func (p *pipe) await() bool {
	for {
		p.mu.Lock()
		stopped, enough := p.stopped, len(p.data)-p.begin >= maxAhead && p.hasFrame()
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
	p.ready.Send()
}

// take returns the frames that have come, and takes spare for those to come. over
// says that there will be nothing more, and err why: then what is taken may end
// within a frame.
func (p *pipe) take(spare []byte) (data []byte, over bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, over, err := p.available()
	if n == 0 {
		return nil, over, err
	}
	end := p.begin + n
	data = p.data[p.begin:end]
	p.data = appendPiece(spare[:0], p.data[end:])
	p.complete, p.scanned, p.begin = max(p.complete-end, 0), max(p.scanned-end, 0), 0
	p.signalTaken()
	return data, over, err
}

// cut is take for one of many: it takes one frame, or as many as are on lines of
// their own within so many bytes, and appends them to data.
func (p *pipe) cut(data []byte, most int) (_ []byte, over bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, over, err := p.available()
	offered := p.data[p.begin : p.begin+n]
	if n > most && !over {
		i := bytes.LastIndexByte(offered[:most], '\n')
		if i < 0 {
			i = new(decode.Frame).End(offered) - 1
		}
		if i >= 0 {
			n = i + 1
		}
	}
	data = append(data, offered[:n]...)
	p.begin += n
	p.scanned = max(p.scanned, p.begin)
	p.signalTaken()
	return data, over, err
}

// offer says how much there is to take. Where that is nothing it lets go of a large
// buffer.
func (p *pipe) available() (n int, over bool, err error) {
	switch {
	case p.stopped:
		return 0, true, io.EOF
	case p.hasFrame():
		return p.complete - p.begin, false, nil
	case p.over:
		n, over, err = len(p.data)-p.begin, true, p.err
	}
	if p.begin == len(p.data) {
		p.data, p.begin, p.complete, p.scanned = recyclePiece(p.data), 0, 0, 0
	}
	return n, over, err
}

// taken tells whom it concerns that something was taken.
func (p *pipe) signalTaken() {
	p.room.Send()
	if p.complete > p.begin || p.over {
		p.ready.Send() // there is more, or others are to see that there is not
	}
}

// stop lets everybody go.
func (p *pipe) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.room.Send()
	p.ready.Send()
}
