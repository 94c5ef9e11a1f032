package stream

import (
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/client"
)

// ClientOptions say how a client of NewClient reads lists and watches. The zero
// value is the default.
type ClientOptions struct {
	// DropManagedFields leaves metadata.managedFields out of the objects of lists and
	// watches. They are often a third of an object, and nobody is asked to look at them:
	// whether they are right JSON is not checked then.
	DropManagedFields bool
	// DecodeWorkers is how many goroutines decode the events of one watch, whose order
	// they keep. Zero means 1: the goroutine of the Stream, or one that a plain Watch has
	// for that. More pay where one watch is so busy that one core does not keep up with
	// it. Each watch then has that many goroutines, and up to twice as many pieces of
	// 16 KiB, or of one event, decoded ahead: as objects they take five to eight times as
	// much memory. With Options.Select it is always 1.
	DecodeWorkers int
}

// maxDecodeWorkers is more than a machine has cores to spare.
const maxDecodeWorkers = 64

// NewClient returns a dynamic client that suits watching. cfg is copied; its Timeout
// applies to everything but watches, each of which it would end. opts may be nil.
//
// It is client-go's own (requests, credentials, rate limits, retries, warnings and
// errors), except that it decodes the JSON of lists and watches in one pass instead of
// several, with the same objects as a result. What differs from the JSON of a
// kube-apiserver it leaves to client-go's decoder, whose result, or error, it then
// returns. It asks for lists and watches in JSON and not compressed. What comes
// in another content type is client-go's, managedFields included. A watch is read up to
// 256 KiB ahead of who receives its events, or one event, and up to 16 of those are decoded
// ahead, or what DecodeWorkers says. A list is decoded while it comes; client-go reads, logs and
// measures (rest_client_response_size_bytes) a short note in its place.
//
// Strings that many objects have are shared by them; a string that is kept of an
// object keeps up to 4 KiB of that object's other strings in memory.
//
// For a Stream it also asks for metadata alone (Options.MetadataOnly), leaves the
// waits that a Retry-After header asks for to the Stream, which shows them in its
// Status, and reads the next page of a list while the Stream delivers one.
//
// The README says how fast it is. Where a program does little but decode, Go's garbage
// collector takes most of the rest: a program with a small heap gains a lot from a
// higher GOGC (400, with GOMEMLIMIT as a bound).
func NewClient(cfg *rest.Config, opts *ClientOptions) (dynamic.Interface, error) {
	var o ClientOptions
	if opts != nil {
		o = *opts
	}
	if o.DecodeWorkers < 0 || o.DecodeWorkers > maxDecodeWorkers {
		return nil, &OptionsError{"ClientOptions.DecodeWorkers",
			fmt.Sprintf("%d: it should be between 1 and %d, or 0 for 1", o.DecodeWorkers, maxDecodeWorkers)}
	}
	return client.New(cfg, client.Options{DropManagedFields: o.DropManagedFields, DecodeWorkers: max(o.DecodeWorkers, 1)})
}
