package store

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// state is everything that readers see. It never changes: the writer publishes a new one.
type state struct {
	shards []shard // one for each watched namespace, by name; or one for the cluster
	synced bool    // the run has delivered SYNCED, and no GAP since
	gaps   int     // how often synced became false
	syncs  int     // how often it became true
	ended  error   // of the last run; nil during a run, and before the first

	replaced chan struct{} // closed when the writer publishes the next state
}

// shard is what exists in one watched namespace, or in the cluster.
type shard struct {
	namespace string  // as in stream.Options.Namespaces
	objects   *node   // by namespace and name
	indexes   []*node // by value, namespace and name; in the order of Store.names
	count     int
	version   string // everything up to it is in the trees; empty if that is unknown
}

// in returns the shards that may have objects of a namespace; empty means any.
func (st *state) in(namespace string) []shard {
	if namespace == "" || len(st.shards) == 1 {
		return st.shards
	}
	i, found := slices.BinarySearchFunc(st.shards, namespace, func(s shard, n string) int {
		return strings.Compare(s.namespace, n)
	})
	if !found {
		return nil
	}
	return st.shards[i : i+1]
}

// Query selects objects of a Store. The zero Query selects all.
type Query struct {
	// Namespace selects the objects in it. Empty means any namespace.
	Namespace string
	// Index is the name of an index, of [Options.Indexes]: it selects the objects that have the Value there. Empty
	// means no index, and Value must be empty, too.
	Index, Value string
	// Labels selects objects by their labels. The metadata of all objects that the other fields select is decoded for
	// that, so an index is faster. Nil selects every object.
	Labels labels.Selector
}

// Get returns the object with a namespace and a name, and whether it exists. The namespace of an object of a
// cluster-scoped resource is empty.
func (s *Store) Get(namespace, name string) (Object, bool) {
	if s == nil || s.codec == nil {
		return Object{}, false
	}
	k := key{namespace: namespace, name: name}
	for _, shard := range s.state.Load().in(namespace) {
		if n := shard.objects.get(k); n != nil {
			return Object{n.record, s.codec}, true
		}
	}
	return Object{}, false
}

// Len returns the number of objects.
func (s *Store) Len() (n int) {
	if s == nil || s.codec == nil {
		return 0
	}
	for _, shard := range s.state.Load().shards {
		n += shard.count
	}
	return n
}

// List returns the objects that a Query selects, by namespace and name. All are of the state that the Store had when
// List was called, however long the loop takes. With an Index, it touches only objects that have the Value.
//
// It returns a [*stream.OptionsError] if there is no such index.
func (s *Store) List(q Query) (iter.Seq[Object], error) {
	if s == nil || s.codec == nil {
		return nil, errNotMade
	}
	index := -1
	switch i, found := slices.BinarySearch(s.names, q.Index); {
	case found:
		index = i
	case q.Index != "":
		return nil, invalid.New("Index", q.Index, "must be a key of Options.Indexes")
	case q.Value != "":
		return nil, invalid.New("Value", q.Value, "requires Index")
	}
	shards := s.state.Load().in(q.Namespace)
	return func(yield func(Object) bool) {
		for _, shard := range shards {
			tree := shard.objects
			if index >= 0 {
				tree = shard.indexes[index]
			}
			stopped := false
			tree.from(key{value: q.Value, namespace: q.Namespace}, func(n *node) bool {
				o := Object{n.record, s.codec}
				if n.value != q.Value || q.Namespace != "" && o.Namespace() != q.Namespace {
					return false // the rest of the tree is greater
				}
				stopped = q.selects(o) && !yield(o)
				return !stopped
			})
			if stopped {
				return
			}
		}
	}, nil
}

func (q Query) selects(o Object) (selected bool) {
	if q.Labels == nil || q.Labels.Empty() {
		return true
	}
	_ = o.read(func(json []byte) error { // as o.Meta, without a copy of the JSON
		selected = q.Labels.Matches(labels.Set(decode.NewMeta(json).GetLabels()))
		return nil
	})
	return selected
}
