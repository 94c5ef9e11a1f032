package recording

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/gvrwatch/gvrwatch/stream"
)

const (
	flushAfter = 500 * time.Millisecond // how long a line waits in memory
	flushSize  = 256 << 10              // how much text waits there
	aliveAfter = time.Minute            // how often an idle writer says that it is there
)

// Writer appends a run to a recording. Its methods may be called from any goroutine.
type Writer struct {
	file *os.File
	lock *flock.Flock // nil where there is none
	stop chan struct{}
	done chan struct{} // closed when the goroutine that flushes has ended

	closing sync.Once
	closed  error // of Close

	mu      sync.Mutex
	gzip    *gzip.Writer
	waiting int       // bytes of text that are not flushed
	written []func()  // to call when they are
	last    time.Time // when something was written
	err     error     // the first one

	defined map[string]bool   // resources
	columns map[string][]byte // of the last row of a resource
}

// Create opens a recording to append a run, or creates it, readable for its owner only. It mends what a killed writer
// has left. It refuses a file that is no recording, or damaged (*Error), one of another cluster, and one that another
// Writer has open. An empty file is a new one.
func Create(path string, h Header) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	w := &Writer{
		file: f, stop: make(chan struct{}), done: make(chan struct{}),
		defined: map[string]bool{}, columns: map[string][]byte{},
	}
	if err := w.open(path, h); err != nil {
		return nil, errors.Join(err, w.release())
	}
	go w.flushOften()
	return w, nil
}

func (w *Writer) open(path string, h Header) error {
	if runtime.GOOS != "windows" { // where a lock keeps its owner from writing through another handle
		w.lock = flock.New(path, flock.SetFlag(os.O_RDWR))
		switch locked, err := w.lock.TryLock(); {
		case err != nil:
			return err
		case !locked:
			return &Error{path, 0, errors.New("another process writes it")}
		}
	}
	if info, err := w.file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, &Error{path, 0, errors.New("must be a regular file")})
	}
	if err := mend(w.file, path); err != nil {
		return err
	}
	if err := checkCluster(path, h.Cluster); err != nil {
		return err
	}
	if _, err := w.file.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	w.gzip = gzip.NewWriter(w.file)
	h.Format = format
	w.append(line{Type: typeRun, Time: time.Now().UTC(), Run: &h})
	w.flush()
	return w.err
}

// checkCluster returns an error if the file has a run of another cluster.
func checkCluster(path, cluster string) error {
	r, err := Open(path)
	var invalid *Error
	if errors.As(err, &invalid) && invalid.Line == 0 { // empty: mend has read the rest
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	for e, err := range r.Entries() {
		switch {
		case err != nil:
			return err
		case e.Run != nil && e.Run.Cluster != cluster:
			return &Error{path, 0, fmt.Errorf("it is of the cluster %s (%s), not of %s: use another file",
				e.Run.Cluster, e.Run.Server, cluster)}
		}
		break // each run was checked when it began
	}
	return nil
}

// Add appends an event with the row of its object, which may be nil. It calls written, which may be nil, when the file
// has the event: before Add returns, or in a goroutine. Its error, the first of the Writer, is also that of each later
// call.
func (w *Writer) Add(at time.Time, ev stream.Event, rowOfObject json.RawMessage, written func()) error {
	l := lineOf(at, ev)
	var r row
	if rowOfObject != nil {
		if err := json.Unmarshal(rowOfObject, &r); err != nil {
			return fmt.Errorf("record an event of %s: its row is no JSON", ev.Resource)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.defined[l.Resource] {
		w.defined[l.Resource] = true
		w.append(line{Type: typeResource, Time: l.Time, Resource: l.Resource, Definition: definitionOf(ev.Resource)})
	}
	if l.Cells = r.Cells; r.Cells != nil && !bytes.Equal(w.columns[l.Resource], r.Columns) {
		l.Columns, w.columns[l.Resource] = r.Columns, bytes.Clone(r.Columns)
	}
	w.append(l)
	if written != nil {
		w.written = append(w.written, written)
	}
	if w.waiting >= flushSize {
		w.flush()
	}
	return w.err
}

// append adds a line to what waits.
func (w *Writer) append(l line) {
	if w.err != nil {
		return
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if w.err = e.Encode(l); w.err == nil {
		w.waiting += b.Len()
		_, w.err = w.gzip.Write(b.Bytes())
	}
}

// flush writes what waits so that it can be read.
func (w *Writer) flush() {
	if w.err == nil {
		w.err = w.gzip.Flush()
	}
	w.waiting, w.last = 0, time.Now()
	if w.err != nil {
		return
	}
	for _, f := range w.written {
		f()
	}
	w.written = nil
}

// flushOften flushes what has waited, and says from time to time that the writer is there.
func (w *Writer) flushOften() {
	defer close(w.done)
	tick := time.NewTicker(flushAfter)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		w.mu.Lock()
		if w.waiting == 0 && time.Since(w.last) >= aliveAfter {
			w.append(line{Type: typeAlive, Time: time.Now().UTC()})
		}
		if w.waiting > 0 {
			w.flush()
		}
		w.mu.Unlock()
	}
}

// Close ends the run. It returns the first error of the Writer, each time.
func (w *Writer) Close() error {
	w.closing.Do(func() {
		close(w.stop)
		<-w.done
		w.mu.Lock()
		defer w.mu.Unlock()
		w.append(line{Type: typeAlive, Time: time.Now().UTC()})
		w.flush()
		w.closed = w.err
		if w.err == nil {
			w.closed = errors.Join(w.gzip.Close(), w.file.Sync())
		}
		w.closed = errors.Join(w.closed, w.release())
		w.err = os.ErrClosed
	})
	return w.closed
}

func (w *Writer) release() error {
	if w.lock != nil {
		_ = w.lock.Close()
	}
	return w.file.Close()
}
