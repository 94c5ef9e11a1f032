package stream

import (
	"cmp"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// ClientOptions configure how a client of [NewClient] reads lists and watches. The zero value is the default.
type ClientOptions struct {
	// DropManagedFields leaves metadata.managedFields out of the objects of lists and watches. They are often a third
	// of an object. Servers that can do so (KEP-5958) do not send them. Dropped fields are not checked for valid JSON.
	DropManagedFields bool
	// RetriesPerSecond is how many requests per second all Streams of the client send together after a request failed
	// or a watch broke. It doubles with each second in which at least four of five answers are good, until there is
	// no limit; an answer is good unless it is 429, 5xx, no list, or missing. Zero means 50. Streams of other clients
	// have that limit, too: share one client in a process.
	RetriesPerSecond int
}

// NewClient returns client-go's dynamic client with another decoder for lists and watches, which makes the same objects
// several times faster. cfg is copied; its Timeout applies to all requests except watches. opts may be nil. NewClient
// returns an [*OptionsError], or an error of client-go.
//
// All Streams of a client share its HTTP/2 connection, and a budget of requests after failures
// ([ClientOptions.RetriesPerSecond]). Wrapped in another type, it is to a Stream like any other dynamic.Interface.
//
// The client has a rate limit only if cfg has QPS or a RateLimiter. client-go's default of 5 requests per second would
// delay programs with many Streams, which limit their own requests. As in client-go, opening a watch does not count.
//
// Requests, credentials, retries, warnings and errors are those of client-go, with two exceptions:
//
//   - The client refuses the answer 101 Switching Protocols, and redirects to another scheme, host or port.
//   - An answer other than a watch may have 64 MiB, and an object in a list or watch 16 MiB. Decoded, an answer or an
//     event may take about 256 MiB of memory. A Stream whose page is too large requests fewer objects, down to one. An
//     event that is too large is unreadable.
//
// A run that meets a refused answer, or a page of one object that is too large, ends with a [*RequestError], or retries
// the request if SYNCED was delivered before.
//
// https://github.com/gvrwatch/gvrwatch/blob/main/docs/architecture.md#the-client has what else differs: decoding,
// compression, reading ahead, connections.
func NewClient(cfg *rest.Config, opts *ClientOptions) (dynamic.Interface, error) {
	if cfg == nil {
		return nil, invalid.New("cfg", "", "must not be nil")
	}
	o := *cmp.Or(opts, &ClientOptions{})
	if err := invalid.Negative("ClientOptions.RetriesPerSecond", o.RetriesPerSecond); err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options(o))
	return c, guard.Redact(err)
}
