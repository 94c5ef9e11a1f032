package client

import (
	"bytes"
	"io"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

// Once everything is decoded, a watch keeps nothing of a burst.
func TestQuietWatchKeepsNoPiece(t *testing.T) {
	from := newDecoders(&jsonFormat{false, runtime.SerializerInfo{}}, false)
	f := newFrames(from, newPipe(from.format, io.NopCloser(bytes.NewReader(nil))), 1)
	var burst []byte
	for i := range 50 {
		burst = append(burst, decodetest.PodEvent(i)...)
	}
	f.pipe.add(burst, nil)
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
	if n := cap(f.data) + cap(f.buffer) + cap(f.pipe.data); n > maxIdle {
		t.Errorf("%d bytes are kept, want at most %d", n, maxIdle)
	}
}
