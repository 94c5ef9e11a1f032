package client

import (
	"bytes"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// listBody is the body of a list. The first Read decodes all of it. Then client-go reads a short replacement, or, if
// the Decoder has declined a list in JSON, the original.
type listBody struct {
	io.ReadCloser
	call   *call
	from   *decoders
	reader *listReader
	answer io.Reader // for client-go; nil before the first Read
}

// note is what client-go reads in the place of a list that is already decoded.
const note = `{"kind":"List","apiVersion":"v1","metadata":{},"items":[],"note":"gvrwatch decoded this list"}`

func (b *listBody) Read(p []byte) (int, error) {
	if b.answer == nil {
		c := readList(b.ReadCloser)
		b.reader = c
		list, raws, err := c.decode(b.from, b.call.objects == Raw)
		refused, _ := err.(*guard.Error)
		switch {
		case refused != nil: // client-go would log the error, and advise to try again
			b.call.refused, b.answer = refused, strings.NewReader(note)
		case err != nil:
			b.answer = failing{err}
		case list == nil:
			list, b.call.refused = b.from.format.list(c.data)
			b.call.list, b.answer = List{UnstructuredList: list}, strings.NewReader(note)
			if list == nil && b.call.refused == nil {
				b.answer = bytes.NewReader(c.data)
			}
		default:
			b.call.list, b.answer = List{list, raws}, strings.NewReader(note)
			recycleList(c.data)
		}
	}
	return b.answer.Read(p)
}

// Close waits up to ClosingTime for the goroutine that reads a list which was refused before its end.
func (b *listBody) Close() error {
	err := b.ReadCloser.Close()
	if b.reader != nil && b.reader.done != nil {
		select {
		case <-b.reader.done:
		case <-time.After(ClosingTime):
		}
	}
	return err
}

var (
	errItemTooLarge = guard.TooLarge("invalid list: one of its objects has more than 16 MiB, the limit")
	errListTooLarge = guard.TooLarge("invalid list: its objects take more than 256 MiB of memory, the limit")
)

const (
	// smallList is the size up to which a list is decoded at once. A larger one is decoded in pieces of at least that.
	smallList = 32 << 10
	// maxGrowth bounds how much a buffer grows at once, unless a quarter of it is more.
	maxGrowth = 16 << 20
	// maxRecycled is the largest buffer that is kept for other lists.
	maxRecycled = 8 << 20
)

// listBuffers are buffers to read lists into.
var listBuffers sync.Pool

func recycleList(data []byte) {
	if data = data[:0]; cap(data) >= smallList && cap(data) <= maxRecycled {
		listBuffers.Put(&data)
	}
}

// listReader reads a list while another goroutine decodes it.
type listReader struct {
	arrived wait.Signal   // is sent when more has been read
	done    chan struct{} // closed at the end of the goroutine that reads; nil if there is none

	mu       sync.Mutex
	data     []byte // read so far
	err      error  // io.EOF at the end of the list
	panicked any    // the value of a panic of the body's Read
}

// readList begins to read a list. It returns when a small one has been read, and reads a larger one in the background.
func readList(r io.Reader) *listReader {
	c := &listReader{arrived: wait.NewSignal()}
	if room, ok := listBuffers.Get().(*[]byte); ok {
		c.data = *room
	}
	for c.err == nil && len(c.data) < smallList {
		c.read(r)
	}
	if c.err == nil {
		c.done = make(chan struct{})
		go c.readAll(r)
	}
	return c
}

// readAll reads until the end. A panic is passed on to the goroutine that decodes.
func (c *listReader) readAll(r io.Reader) {
	ended := false
	defer close(c.done)
	defer func() {
		p := recover()
		if p == nil && !ended {
			p = "the Read of a list's body called runtime.Goexit"
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.panicked = p
		c.arrived.Send()
	}()
	for c.read(r) {
	}
	ended = true
}

// read reads once. It returns false at the end.
func (c *listReader) read(r io.Reader) bool {
	// Only this goroutine changes c.data, and others read it only up to its length.
	data := c.data
	if len(data) == cap(data) {
		data = slices.Grow(data, min(max(len(data), minRead), maxGrowth))
	}
	n, err := r.Read(data[len(data):cap(data)])
	c.mu.Lock()
	defer c.mu.Unlock()
	c.data, c.err = data[:len(data)+n], err
	c.arrived.Send()
	return err == nil
}

// await waits until more than n bytes have been read, or all, and returns them. At the end err is io.EOF.
func (c *listReader) await(n int) (data []byte, err error) {
	for {
		c.mu.Lock()
		data, err = c.data, c.err
		panicked := c.panicked
		c.mu.Unlock()
		if panicked != nil {
			panic(panicked)
		}
		if err != nil || len(data) > n {
			return data, err
		}
		<-c.arrived
	}
}

// decode decodes the list while it is read. It returns neither a list nor an error if the lister has declined it; then
// all of it has been read.
func (c *listReader) decode(from *decoders, raw bool) (*unstructured.UnstructuredList, []decode.Raw, error) {
	dec := from.get()
	defer from.put(dec)
	l := from.format.newLister(dec, raw)
	for n := 0; ; {
		data, end := c.await(n)
		err := l.Decode(data)
		switch {
		case end != nil && end != io.EOF:
			return nil, nil, end
		case err == decode.ErrTooLarge:
			return nil, nil, errItemTooLarge
		case err != nil && err != decode.ErrShort:
			return nil, nil, c.decline(from.format)
		case end == nil:
			// An item that is cut off is decoded again from its beginning. To keep that cheap, wait until twice as much
			// of it has been read.
			n = len(data) + max(smallList, l.Undecoded(len(data)))
			continue
		}
		list, raws, err := l.List()
		if err != nil {
			return nil, nil, c.decline(from.format)
		}
		return list, raws, nil
	}
}

// decline reads the rest of a list that the lister has declined. It returns an error unless apimachinery may decode it.
func (c *listReader) decline(f format) error {
	data, err := c.await(math.MaxInt)
	switch {
	case err != io.EOF:
		return err
	case f.memory(data) > decode.MaxMemory:
		return errListTooLarge
	}
	return nil
}
