package stream

import (
	"errors"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gvrwatch/gvrwatch/internal/decode"
)

// codecs are client-go's, but for the decoding of lists and watches in JSON.
type codecs struct {
	runtime.NegotiatedSerializer
	types    []runtime.SerializerInfo
	workers  int
	objects  *decoders
	metadata *decoders // the same of metadata alone
}

func (o ClientOptions) codecs(stock runtime.NegotiatedSerializer) (*codecs, error) {
	c := &codecs{NegotiatedSerializer: stock, types: slices.Clone(stock.SupportedMediaTypes()), workers: o.DecodeWorkers}
	for i, info := range c.types {
		if info.MediaType != runtime.ContentTypeJSON || info.StreamSerializer == nil {
			continue
		}
		c.objects = newDecoders(decode.Options{Drop: o.Drop}, info)
		c.metadata = newDecoders(decode.Options{Drop: o.Drop, MetadataOnly: true}, info)
		stream := *info.StreamSerializer
		stream.Framer = tapFramer{stream.Framer}
		c.types[i].Serializer = listSerializer{info.Serializer, c.objects}
		c.types[i].StreamSerializer = &stream
		return c, nil
	}
	return nil, errors.New("stream: client-go has no serializer for JSON")
}

func (c *codecs) SupportedMediaTypes() []runtime.SerializerInfo { return c.types }

// tap is where the events of a watch are to go, in the context of its request.
type tap struct{ pipe *pipe }

type tapKey struct{}

// tappedBody carries the tap from the transport, which knows the request, to the
// framer, which knows that it is JSON.
type tappedBody struct {
	io.ReadCloser
	*tap
}

// tapFramer is client-go's Framer, but for watches that are tapped.
type tapFramer struct{ runtime.Framer }

func (f tapFramer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	body, ok := r.(tappedBody)
	if !ok {
		return f.Framer.NewFrameReader(r)
	}
	body.tap.pipe = newPipe()
	return tapReader{body.ReadCloser, body.tap.pipe}
}

// tapReader has no frames for client-go, whose goroutine fills the pipe instead.
type tapReader struct {
	body io.ReadCloser
	pipe *pipe
}

func (r tapReader) Read([]byte) (int, error) {
	r.pipe.fill(r.body)
	return 0, io.EOF
}

// Close is also how client-go's goroutine ends, when not everything has been taken.
func (r tapReader) Close() error { return r.body.Close() }
