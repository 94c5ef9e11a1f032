package stream

import (
	"fmt"
	"slices"
	"strings"
)

// ClientOptions say how a client of NewClient reads lists and watches. The zero
// value is the default.
type ClientOptions struct {
	// DropManagedFields leaves metadata.managedFields out of the objects of lists and
	// watches. They are often a third of an object, and nobody is asked to look at them.
	DropManagedFields bool
	// Drop leaves out more: the paths of fields as unstructured.RemoveNestedField takes
	// them, {"status"} or {"metadata", "annotations", "example.com/huge"}. No path leads
	// into a list. What tells objects apart can't be left out: apiVersion, kind,
	// metadata, and of that name, namespace, uid and resourceVersion.
	//
	// Options.Select does not see it either. An object that lacks a part must not be
	// sent back with Update, which would delete that part. What a server sends though
	// nobody asked for it, and is not JSON (CBOR), is whole.
	Drop [][]string
	// DecodeWorkers is how many goroutines decode the events of one watch. Their order
	// stays what it was. Zero means 1: the goroutine of the Stream, or one that a plain
	// Watch has for that. More pay where one watch is so busy that one core does not
	// keep up with it. Each watch has so many goroutines then, and up to twice as many
	// pieces of 16 KiB, or of one event, decoded ahead: as objects they take five to
	// eight times as much memory.
	DecodeWorkers int
	// Compression asks the server to compress lists and watches with gzip, as client-go
	// does, whatever rest.Config.DisableCompression says. Inflating alone takes half as
	// long as decoding (10 us for an event of 2.8 KB), and the server has to deflate for
	// each watch, so it is for a slow network.
	Compression bool
}

// maxDecodeWorkers is more than a machine has cores to spare.
const maxDecodeWorkers = 64

func (o *ClientOptions) check() (ClientOptions, error) {
	if o == nil {
		return ClientOptions{DecodeWorkers: 1}, nil
	}
	c := *o
	if c.DecodeWorkers < 0 || c.DecodeWorkers > maxDecodeWorkers {
		return c, &OptionsError{"ClientOptions.DecodeWorkers", fmt.Sprintf("%d: it should be between 1 and %d, or 0 for 1", c.DecodeWorkers, maxDecodeWorkers)}
	}
	c.DecodeWorkers = max(c.DecodeWorkers, 1)
	c.Drop = nil
	for _, path := range o.Drop {
		if reason := whyKept(path); reason != "" {
			return c, &OptionsError{"ClientOptions.Drop", fmt.Sprintf("%q %s", strings.Join(path, "."), reason)}
		}
		c.Drop = append(c.Drop, slices.Clone(path))
	}
	if c.DropManagedFields {
		c.Drop = append(c.Drop, []string{"metadata", "managedFields"})
	}
	return c, nil
}

// whyKept says why a path can't be dropped, if it can't.
func whyKept(path []string) string {
	switch {
	case len(path) == 0 || slices.Contains(path, ""):
		return "is no path: it has an empty part, or none"
	case len(path) == 1 && slices.Contains([]string{"apiVersion", "kind", "metadata"}, path[0]),
		path[0] == "metadata" && len(path) > 1 && slices.Contains([]string{"name", "namespace", "uid", "resourceVersion"}, path[1]):
		return "can't be left out: objects could not be told apart without it"
	}
	return ""
}
