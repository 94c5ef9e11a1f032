package host

import (
	"slices"
	"sync"

	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// Namespaces is a set of namespaces to watch that may change during a run. A namespace that is added is listed,
// compared with what is known of it, and watched. One that is removed is no longer watched; what is known of its
// objects is kept until it is added again. The watches of the others go on.
type Namespaces struct {
	refused func(namespace string, err error)
	changed wait.Signal

	mu    sync.Mutex
	names []string
}

// NewNamespaces returns a set of names. A run that begins with an empty set watches the whole cluster, and a later
// Set does not change that. If the server refuses a namespace that has not been listed yet, refused is called, and the
// namespace counts as removed until the next Set that names it. If refused is nil, a refusal ends the run.
func NewNamespaces(names []string, refused func(namespace string, err error)) *Namespaces {
	n := &Namespaces{refused: refused, changed: wait.NewSignal()}
	n.Set(names)
	return n
}

// Set replaces the names. Empty names are left out.
func (n *Namespaces) Set(names []string) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	n.mu.Lock()
	n.names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	n.mu.Unlock()
	n.changed.Send()
}

// Get returns the names, sorted.
func (n *Namespaces) Get() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names
}

// Changed receives a value after Set. On nil it returns nil.
func (n *Namespaces) Changed() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.changed
}

// HandlesRefusal reports whether a refusal goes to Refuse and does not end the run. On nil it returns false.
func (n *Namespaces) HandlesRefusal() bool { return n != nil && n.refused != nil }

// Refuse reports that the server has refused a namespace.
func (n *Namespaces) Refuse(namespace string, err error) { n.refused(namespace, err) }
