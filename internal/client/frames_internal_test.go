package client

import (
	"bytes"
	"io"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

// newTestFrames returns the frames of a watch that has received data.
func newTestFrames(data []byte) *frames {
	from := newDecoders(&jsonFormat{false, runtime.SerializerInfo{}}, false)
	f := newFrames(from, newPipe(from.format, io.NopCloser(bytes.NewReader(nil))))
	f.pipe.add(data, nil)
	return f
}

// Once everything is decoded, a watch keeps nothing of a burst.
func TestQuietWatchKeepsNoPiece(t *testing.T) {
	var burst []byte
	for i := range 50 {
		burst = append(burst, decodetest.PodEvent(i)...)
	}
	f := newTestFrames(burst)
	events := 0
	for {
		_, ok, _ := f.next()
		if !ok {
			break
		}
		events++
	}
	if events != 50 {
		t.Errorf("%d events, want 50", events)
	}
	if n := cap(f.rest.data) + cap(f.rest.buffer) + cap(f.pipe.arrived.data); n > maxIdle {
		t.Errorf("%d bytes are kept, want at most %d", n, maxIdle)
	}
}

// A receiver that has skipped the last events waits. The end, which came with them, wakes it.
func TestSkippedEventsDoNotHideTheEnd(t *testing.T) {
	f := newTestFrames(decodetest.PodEvent(0))
	f.filter = func(*decode.MetadataView) Choice { return Skip }
	f.pipe.finish(io.EOF)
	<-f.pipe.ready // for both
	if _, ok, over := f.next(); ok || over {
		t.Errorf("an event: %v, the end: %v, want neither before the receiver has waited", ok, over)
	}
	select {
	case <-f.pipe.ready:
	default:
		t.Error("the receiver would wait for ever")
	}
	if _, ok, over := f.next(); ok || !over {
		t.Errorf("an event: %v, the end: %v, want the end", ok, over)
	}
}
