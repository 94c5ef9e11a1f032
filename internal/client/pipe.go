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
	small  []byte      // to read into while little arrives
	last   lastRead    // only who reads uses it
	room   wait.Signal // is sent when something was taken
	ready  wait.Signal // is sent when there may be something to take

	mu      sync.Mutex
	arrived arrived
	reading reading
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
	complete int    // the end of the last complete frame
	search   search // from complete on
	ending   ending // what follows data
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
	return &pipe{format: f, body: body, small: make([]byte, minRead), room: wait.NewSignal(), ready: wait.NewSignal(),
		arrived: arrived{search: search{frame: f.newFrame()}}}
}

// readAhead reads in a goroutine until the end.
func (p *pipe) readAhead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reading.always = true; p.reading.ahead == nil {
		p.fillAhead()
	}
}

// readOnce lets a goroutine read, if none does: it waits for what arrives next, and the receiver need not.
func (p *pipe) readOnce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reading.ahead == nil && !p.arrived.ending.over && !p.reading.stopped {
		p.fillAhead()
	}
}

func (p *pipe) fillAhead() {
	p.reading.ahead = make(chan struct{})
	go p.fill(p.reading.ahead)
}

// readHere reads once, unless another goroutine reads or the watch is over. It returns false if it did not read.
func (p *pipe) readHere() bool {
	p.mu.Lock()
	not := p.reading.ahead != nil || p.arrived.ending.over || p.reading.stopped
	p.mu.Unlock()
	if not {
		return false
	}
	if err := p.read(); err != nil {
		p.finish(err)
	}
	if p.last.quick++; p.last.took > quickRead {
		p.last.quick = 0
	}
	if p.last.quick == busyReads {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last.quick = 0
		p.fillAhead()
	}
	return true
}

// read reads once, into a large buffer if the last Read has filled its buffer.
func (p *pipe) read() error {
	buf := p.small
	if p.last.full {
		big := bigBuffers.Get().(*[]byte)
		defer bigBuffers.Put(big)
		buf = *big
	}
	began := time.Now()
	n, err := p.body.Read(buf)
	p.last.full, p.last.took = n == len(buf), time.Since(began)
	p.add(buf[:n], err)
	return err
}

// silence ends the watch because nothing has arrived in time.
func (p *pipe) silence() {
	p.mu.Lock()
	p.reading.silent = true
	p.ready.Send()
	p.mu.Unlock()
	_ = p.body.Close()
}

// beginWait notes that the receiver waits.
func (p *pipe) beginWait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading.some = false
}

// isSilent reports whether the watch has ended because nothing has arrived in time.
func (p *pipe) isSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reading.silent && !p.reading.some
}

// drain waits for the goroutine that reads ahead, at most ClosingTime.
func (p *pipe) drain() {
	p.mu.Lock()
	ahead := p.reading.ahead
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
		if p.last.took > idleRead && p.receiverReads() {
			return
		}
	}
}

// receiverReads leaves it to the receiver to read on. It returns false if the goroutine that reads ahead has to.
func (p *pipe) receiverReads() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reading.always {
		return false
	}
	p.reading.ahead = nil
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
	p.reading.some = p.reading.some || len(read) > 0 || err == io.EOF
	p.arrived.data = appendPiece(p.arrived.data, read)
	if n := p.format.lineEnd(read); n > 0 {
		p.arrived.frameEndsAt(len(p.arrived.data) - len(read) + n)
	}
	p.ready.Send()
}

// frameEndsAt notes that a frame ends at i.
func (a *arrived) frameEndsAt(i int) {
	a.complete, a.search.at = i, i
	a.search.frame.Reset()
}

// hasFrame reports whether there is a complete frame. Line ends show that at once. A search takes longer, so that is
// done only if there is nothing else to decode.
func (a *arrived) hasFrame() bool {
	if a.complete > 0 {
		return true
	}
	for a.search.at < len(a.data) {
		n := a.search.frame.End(a.data[a.search.at:])
		if n < 0 {
			a.search.at = len(a.data)
			break
		}
		a.frameEndsAt(a.search.at + n)
	}
	switch {
	case !a.search.frame.Begun(): // only white space
		a.frameEndsAt(len(a.data))
	case len(a.data)-a.complete > maxFrame:
		a.complete = len(a.data) // too large: the receiver reports that
	}
	return a.complete > 0
}

// await waits while enough has been read ahead. It returns false if the receiver has stopped.
func (p *pipe) await() bool {
	for {
		p.mu.Lock()
		stopped, enough := p.reading.stopped, len(p.arrived.data) >= maxAhead && p.arrived.hasFrame()
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
	p.arrived.ending = ending{true, err}
	p.ready.Send()
}

// take removes and returns the complete frames. The pipe uses spare for later data. over says that nothing follows, and
// err why; then the data may end within a frame.
func (p *pipe) take(spare []byte) (data []byte, over bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	switch {
	case p.reading.stopped:
		return nil, true, io.EOF
	case p.arrived.hasFrame():
		n = p.arrived.complete
	case p.arrived.ending.over:
		n, over, err = len(p.arrived.data), true, p.arrived.ending.err
	}
	if data = p.arrived.take(n, spare); n == 0 {
		return nil, over, err
	}
	p.room.Send()
	if p.arrived.ending.over {
		p.ready.Send() // the receiver has not seen the end yet
	}
	return data, over, err
}

// take removes and returns the first n bytes, and uses spare for later data. If there are none, it releases a large
// buffer.
func (a *arrived) take(n int, spare []byte) (taken []byte) {
	switch {
	case n > 0:
		taken, a.data = a.data[:n], appendPiece(spare[:0], a.data[n:])
		a.complete, a.search.at = 0, a.search.at-n
	case len(a.data) == 0:
		a.data = recyclePiece(a.data)
	}
	return taken
}

// stop ends the goroutine that reads and the one that receives.
func (p *pipe) stop() {
	p.mu.Lock()
	p.reading.stopped = true
	p.room.Send()
	p.ready.Send()
	p.mu.Unlock()
	_ = p.body.Close() // ends a Read
}
