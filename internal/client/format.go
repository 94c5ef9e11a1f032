package client

import (
	"bytes"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/size"
)

// format is a content type of lists and watches.
type format interface {
	newDecoder() decoder
	newLister(d decoder, raw bool) lister
	newFrame() frame
	// space returns the length of the white space between frames that data begins with.
	space(data []byte) int
	// lineEnd returns where the last frame of data ends, if that shows without what is before data, or 0.
	lineEnd(data []byte) int
	// memory estimates how much memory apimachinery's decoder may take for data.
	memory(data []byte) int64
	// stock returns apimachinery's decoders, for what a decoder has declined.
	stock() runtime.SerializerInfo
	// list decodes what a lister has declined, or returns nil if client-go has to decode it.
	list(data []byte) (*unstructured.UnstructuredList, error)
}

// decoder decodes the events of a watch. It is not for concurrent use.
type decoder interface {
	// Event decodes the event that data begins with, and returns its length. Its error says that the event is not
	// complete, or that the stock decoder has to decode it.
	Event(data []byte) (decode.Event, int, error)
	// Metadata returns a view of the metadata in the event that data begins with, and the event's length, or nil if the
	// event must be decoded. The caller wants so much of it.
	Metadata(data []byte, to decode.Extent) (*decode.MetadataView, int)
}

// lister decodes a list while it arrives, as decode.Lister does.
type lister interface {
	Decode(data []byte) error
	Undecoded(arrived int) int
	List() (*unstructured.UnstructuredList, []decode.Raw, error)
}

// frame finds the ends of frames. Each byte is given to it once, as the bytes arrive.
type frame interface {
	// Begun reports whether a frame has begun.
	Begun() bool
	// End returns where the frame ends in data, and prepares for the next frame. If the frame does not end in data, End
	// returns a negative number.
	End(data []byte) int
	// Reset prepares for the next frame.
	Reset()
}

// jsonFormat is application/json.
type jsonFormat struct {
	dropManaged bool
	serializers runtime.SerializerInfo // client-go's
}

func (f *jsonFormat) newDecoder() decoder { return decode.New(f.dropManaged) }

func (*jsonFormat) newLister(d decoder, raw bool) lister {
	return d.(*decode.Decoder).Lister(raw)
}

func (*jsonFormat) newFrame() frame { return new(decode.Frame) }

func (*jsonFormat) space(data []byte) (n int) {
	for n < len(data) && (data[n] == '\n' || data[n] == ' ' || data[n] == '\r' || data[n] == '\t') {
		n++
	}
	return n
}

func (*jsonFormat) lineEnd(data []byte) int { return bytes.LastIndexByte(data, '\n') + 1 }

func (*jsonFormat) memory(data []byte) int64 { return size.OfJSON(data) }

func (f *jsonFormat) stock() runtime.SerializerInfo { return f.serializers }

func (*jsonFormat) list([]byte) (*unstructured.UnstructuredList, error) { return nil, nil }
