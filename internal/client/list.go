package client

import (
	"bytes"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// listBody is the body of a list. It is decoded when client-go begins to read it, which
// then reads no more than a note, unless it is for client-go to decode.
type listBody struct {
	io.ReadCloser
	call   *call
	answer io.Reader // what client-go reads; nil before that is known
}

// note is what client-go reads of a list that it need not decode.
const note = `{"kind":"List","apiVersion":"v1","metadata":{},"items":[],"note":"gvrwatch decoded this list"}`

func (b *listBody) Read(p []byte) (int, error) {
	if b.answer == nil {
		c := readList(b.ReadCloser)
		if b.call.list = c.decode(b.call.decoders); b.call.list != nil {
			b.answer = strings.NewReader(note)
			recycleList(c.data)
		} else {
			b.answer = io.MultiReader(bytes.NewReader(c.data), failing{c.err})
		}
	}
	return b.answer.Read(p)
}

const (
	// smallList is decoded when all of it has come, and others in pieces of that.
	smallList = 32 << 10
	// mostGrown is by how much a buffer is made larger at once, or a quarter if that is
	// more.
	maxGrowth = 16 << 20
	// mostRoom is the largest buffer that is kept for other lists.
	maxRecycled = 8 << 20
)

// rooms are buffers that lists were read into.
var listBuffers sync.Pool

func recycleList(data []byte) {
	if data = data[:0]; cap(data) >= smallList && cap(data) <= maxRecycled {
		listBuffers.Put(&data)
	}
}

// coming is a list that is being read.
type listReader struct {
	arrived wait.Signal // has one when more has come

	mu       sync.Mutex
	data     []byte // that has come
	err      error  // io.EOF when that is all
	panicked any    // by who is read from
}

// readList begins to read a list. What is small has been read when it returns.
func readList(r io.Reader) *listReader {
	c := &listReader{arrived: wait.NewSignal()}
	if room, ok := listBuffers.Get().(*[]byte); ok {
		c.data = *room
	}
	for c.err == nil && len(c.data) < smallList {
		c.read(r)
	}
	if c.err == nil {
		go c.readAll(r)
	}
	return c
}

// readAll reads until the end. A panic is for who decodes.
func (c *listReader) readAll(r io.Reader) {
	ended := false
	defer func() {
		p := recover()
		if p == nil && !ended {
			p = "the goroutine that reads a list was ended"
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

// read reads once. It returns false when there is nothing more.
func (c *listReader) read(r io.Reader) bool {
	// Only who reads changes data, and nobody else looks at what is beyond its length.
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

// await waits until more than so much has come, or all, and returns it. err is io.EOF
// when it is all.
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

// decode decodes the list while it comes. It returns nil if that is for client-go to
// do. All of it has come then.
func (c *listReader) decode(from *decoders) *unstructured.UnstructuredList {
	dec := from.get()
	defer from.put(dec)
	l := dec.Lister()
	for n := 0; ; {
		data, end := c.await(n)
		err := l.Decode(data)
		switch {
		case err != nil && err != decode.ErrShort, end != nil && end != io.EOF:
			c.await(math.MaxInt)
			return nil
		case end == nil:
			// What is left is decoded anew, so that an item that is large waits until twice
			// as much of it has come.
			n = len(data) + max(smallList, l.Undecoded(len(data)))
			continue
		}
		list, err := l.List()
		if err != nil {
			return nil
		}
		return list
	}
}
