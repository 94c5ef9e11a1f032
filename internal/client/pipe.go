package client

import (
	"io"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/wait"
)

const (
	// minRead and maxRead bound how much is read at once: an idle watch has a small buffer, a busy one makes few system
	// calls.
	minRead, maxRead = 1 << 10, 64 << 10
	// quickRead is how long a Read takes at most that need not wait. After busyReads of them in a row, another
	// goroutine reads ahead. It ends after a Read that took longer than idleRead.
	quickRead, idleRead = 100 * time.Microsecond, 5 * time.Millisecond
	busyReads           = 8
	// maxIdle is how much memory a watch keeps in each of its buffers while nothing arrives.
	maxIdle = 16 << 10
	// maxAhead is how much may be read before it is taken.
	maxAhead = 128 << 10
	// maxFrame is the limit of client-go (streaming.NewDecoder).
	maxFrame = 16 << 20
)

// pipe passes what is read from a watch to the goroutine that decodes it, in pieces that end where a frame ends, as far
// as the format shows that. Each watch has its own.
//
// The receiver of a quiet watch reads in its own goroutine. While Reads need not wait, another goroutine reads ahead.
// With readAhead it does so from the beginning and until the end.
type pipe struct {
	format format
	body   io.ReadCloser
	small  []byte // to read into while little arrives
	lastRead

	mu sync.Mutex
	arrived
	reading

	room  wait.Signal // is sent when something was taken
	ready wait.Signal // is sent when there may be something to take
}

// lastRead is how the last Read went. Whoever reads next needs it.
type lastRead struct {
	full  bool          // it has filled its buffer
	took  time.Duration // its duration
	quick int           // how many took at most quickRead in a row
}

// arrived is what has been read and not taken.
type arrived struct {
	data     []byte
	complete int // the end of the last complete frame
	scan         // of the frame that begins at complete
	ending       // what follows data
}

// reading says who reads the body.
type reading struct {
	ahead   chan struct{} // closed when the goroutine that reads ahead has ended; nil if there is none
	always  bool          // that goroutine reads until the end
	stopped bool          // by the receiver
	silent  bool          // silence was called
	some    bool          // something has arrived since beginWait
}

func newPipe(f format, body io.ReadCloser) *pipe {
	return &pipe{format: f, body: body, small: make([]byte, minRead), arrived: arrived{scan: scan{frame: f.newFrame()}},
		room: wait.NewSignal(), ready: wait.NewSignal()}
}

// readAhead reads in a goroutine until the end.
func (p *pipe) readAhead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.always = true; p.ahead == nil {
		p.fillAhead()
	}
}

func (p *pipe) fillAhead() {
	p.ahead = make(chan struct{})
	go p.fill(p.ahead)
}

// readHere reads once, unless another goroutine reads or the watch is over. It returns false if it did not read.
func (p *pipe) readHere() bool {
	p.mu.Lock()
	not := p.ahead != nil || p.over || p.stopped
	p.mu.Unlock()
	if not {
		return false
	}
	if err := p.read(); err != nil {
		p.finish(err)
	}
	if p.quick++; p.took > quickRead {
		p.quick = 0
	}
	if p.quick == busyReads {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.quick = 0
		p.fillAhead()
	}
	return true
}

// read reads once, into a large buffer if the last Read has filled its buffer.
func (p *pipe) read() error {
	buf := p.small
	if p.full {
		big := bigBuffers.Get().(*[]byte)
		defer bigBuffers.Put(big)
		buf = *big
	}
	began := time.Now()
	n, err := p.body.Read(buf)
	p.full, p.took = n == len(buf), time.Since(began)
	p.add(buf[:n], err)
	return err
}

// silence ends the watch because nothing has arrived in time.
func (p *pipe) silence() {
	p.mu.Lock()
	p.silent = true
	p.ready.Send()
	p.mu.Unlock()
	_ = p.body.Close()
}

// beginWait notes that the receiver waits.
func (p *pipe) beginWait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.some = false
}

// isSilent reports whether the watch has ended because nothing has arrived in time.
func (p *pipe) isSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent && !p.some
}

// drain waits for the goroutine that reads ahead, at most ClosingTime.
func (p *pipe) drain() {
	p.mu.Lock()
	ahead := p.ahead
	p.mu.Unlock()
	if ahead == nil {
		return
	}
	select {
	case <-ahead:
	case <-time.After(ClosingTime):
	}
}

// bigBuffers are for watches that have filled their small buffers.
var bigBuffers = sync.Pool{New: func() any { b := make([]byte, maxRead); return &b }}

// fill reads the body to its end, or until nothing has arrived for a moment.
func (p *pipe) fill(ended chan struct{}) {
	defer close(ended)
	for {
		err := p.read()
		if err == nil && !p.await() {
			err = io.EOF
		}
		if err != nil {
			p.finish(err)
			return
		}
		if p.took > idleRead && p.receiverReads() {
			return
		}
	}
}

// receiverReads leaves it to the receiver to read on. It returns false if the goroutine that reads ahead has to.
func (p *pipe) receiverReads() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.always {
		return false
	}
	p.ahead = nil
	p.ready.Send()
	return true
}

// pieces are buffers for the waiting data of busy watches.
var pieces = sync.Pool{New: func() any { b := make([]byte, 0, 2*maxAhead); return &b }}

// appendPiece appends to data. If data outgrows a small buffer, it moves to one of pieces.
func appendPiece(data, more []byte) []byte {
	n := len(data) + len(more)
	if n <= cap(data) || n <= maxIdle || n > 2*maxAhead {
		return append(data, more...)
	}
	piece := *pieces.Get().(*[]byte)
	return append(append(piece[:0], data...), more...)
}

// recyclePiece empties a buffer. It returns a small one, and keeps a large one in pieces.
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
func (p *pipe) add(read []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.some = p.some || len(read) > 0 || err == io.EOF
	p.data = appendPiece(p.data, read)
	if n := p.format.lineEnd(read); n > 0 {
		p.frameEndsAt(len(p.data) - len(read) + n)
	}
	p.ready.Send()
}

// frameEndsAt notes that a frame ends at i.
func (p *pipe) frameEndsAt(i int) {
	p.complete, p.scanned = i, i
	p.frame.Reset()
}

// hasFrame reports whether there is a complete frame. Line ends show that at once. A search takes longer, so that is
// done only if there is nothing else to decode.
func (p *pipe) hasFrame() bool {
	if p.complete > 0 {
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
	case !p.frame.Begun(): // only white space
		p.frameEndsAt(len(p.data))
	case len(p.data)-p.complete > maxFrame:
		p.complete = len(p.data) // too large: the receiver reports that
	}
	return p.complete > 0
}

// await waits while enough has been read ahead. It returns false if the receiver has stopped.
func (p *pipe) await() bool {
	for {
		p.mu.Lock()
		stopped, enough := p.stopped, len(p.data) >= maxAhead && p.hasFrame()
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

// take removes and returns the complete frames. The pipe uses spare for later data. over says that nothing follows, and
// err why; then the data may end within a frame.
func (p *pipe) take(spare []byte) (data []byte, over bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, over, err := p.available()
	if n == 0 {
		return nil, over, err
	}
	data = p.data[:n]
	p.data = appendPiece(spare[:0], p.data[n:])
	p.complete, p.scanned = 0, p.scanned-n
	p.room.Send()
	if p.over {
		p.ready.Send() // the receiver has not seen the end yet
	}
	return data, over, err
}

// available returns how many bytes there are to take. If there are none, it releases a large buffer.
func (p *pipe) available() (n int, over bool, err error) {
	switch {
	case p.stopped:
		return 0, true, io.EOF
	case p.hasFrame():
		return p.complete, false, nil
	case p.over:
		n, over, err = len(p.data), true, p.err
	}
	if len(p.data) == 0 {
		p.data = recyclePiece(p.data)
	}
	return n, over, err
}

// stop ends the goroutine that reads and the one that receives.
func (p *pipe) stop() {
	p.mu.Lock()
	p.stopped = true
	p.room.Send()
	p.ready.Send()
	p.mu.Unlock()
	_ = p.body.Close() // ends a Read
}
