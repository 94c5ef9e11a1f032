package stream

import (
	"context"
	"net/http"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// NewClient returns a dynamic client that suits watching: cfg is copied, and its
// Timeout, which would end every watch, is left out of the copy. It can ask for
// metadata alone (Options.MetadataOnly), which client-go's own can't: that always
// accepts whole objects. In all else it is client-go's own.
func NewClient(cfg *rest.Config) (dynamic.Interface, error) {
	c := rest.CopyConfig(cfg)
	c.Timeout = 0
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return accepting{next} })
	return dynamic.NewForConfig(c)
}

// onlyMetadata marks the context of requests that ask for no more.
type onlyMetadata struct{}

// asking is the context for requests with these options.
func (s *Stream) asking(ctx context.Context) context.Context {
	if s.options.MetadataOnly {
		return context.WithValue(ctx, onlyMetadata{}, true)
	}
	return ctx
}

// What client-go's metadata client accepts. A server that does not know it sends
// whole objects. Lists and watches are asked differently: a kube-apiserver takes
// the first clause that it knows, and can't make a list of an event.
const (
	acceptMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	acceptMetadata     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

// accepting asks for metadata alone where the context says so.
type accepting struct{ next http.RoundTripper }

func (a accepting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(onlyMetadata{}) != nil {
		r = r.Clone(r.Context())
		accept := acceptMetadataList
		if r.URL.Query().Has("watch") {
			accept = acceptMetadata
		}
		r.Header.Set("Accept", accept)
	}
	return a.next.RoundTrip(r)
}

func (a accepting) WrappedRoundTripper() http.RoundTripper { return a.next }
