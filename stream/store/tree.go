package store

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"strings"

	"github.com/gvrwatch/gvrwatch/internal/compact"
)

// node is a node of a treap: a binary search tree by key, and a heap by priority. The priority is a hash of the key,
// so that the shape depends on the keys alone, whatever the order of the changes. A tree is its root; nil is empty.
//
// A published node never changes. An editor copies the path to what it changes, so that two versions of a tree share
// the rest, and [differences] can skip that.
type node struct {
	left, right *node
	value       string // of an index; empty in a tree of objects
	record      compact.Record
	priority    uint64
	edit        uint64 // the edit that made the node, and may change it
}

// key is the order of a tree: first the value, then the namespace, then the name.
type key struct{ value, namespace, name string }

func (n *node) key() key {
	namespace, name := n.record.Name()
	return key{n.value, namespace, name}
}

func (k key) compare(other key) int {
	if c := strings.Compare(k.value, other.value); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(k.namespace, other.namespace), strings.Compare(k.name, other.name))
}

// get returns the node with a key, or nil.
func (n *node) get(k key) *node {
	for n != nil {
		switch c := k.compare(n.key()); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n
		}
	}
	return nil
}

// from calls yield with each node whose key is at least k, in order, until yield returns false. It returns whether
// yield never did.
func (n *node) from(k key, yield func(*node) bool) bool {
	for n != nil && k.compare(n.key()) > 0 {
		n = n.right
	}
	return n == nil || n.left.from(k, yield) && yield(n) && n.right.all(yield)
}

// all is from without a least key.
func (n *node) all(yield func(*node) bool) bool {
	return n == nil || n.left.all(yield) && yield(n) && n.right.all(yield)
}

// editor changes trees. It changes nodes of its own edit in place, and copies the others. What was made in one edit is
// published together: then freeze begins the next edit.
type editor struct {
	seed maphash.Seed
	edit uint64
}

// freeze makes the nodes so far immutable.
func (e *editor) freeze() { e.edit++ }

// priority returns the hash of a key. The seed is random, so that nobody can choose names that make a tree deep.
func (e *editor) priority(k key) uint64 {
	h := maphash.String(e.seed, k.name) ^ bits.RotateLeft64(maphash.String(e.seed, k.namespace), 21)
	if k.value != "" {
		h ^= bits.RotateLeft64(maphash.String(e.seed, k.value), 42)
	}
	return h
}

// put returns the tree with a record under a value, in the place of the one of the same key.
func (e *editor) put(n *node, value string, r compact.Record) *node {
	namespace, name := r.Name()
	k := key{value, namespace, name}
	return e.insert(n, k, &node{value: value, record: r, priority: e.priority(k), edit: e.edit})
}

func (e *editor) insert(n *node, k key, added *node) *node {
	if n == nil || n.priority < added.priority { // no node below has the key, or its priority would be as high
		added.left, added.right = e.split(n, k)
		return added
	}
	n = e.own(n)
	switch c := k.compare(n.key()); {
	case c < 0:
		n.left = e.insert(n.left, k, added)
	case c > 0:
		n.right = e.insert(n.right, k, added)
	default:
		n.value, n.record = added.value, added.record
	}
	return n
}

// remove returns the tree without a key.
func (e *editor) remove(n *node, k key) *node {
	if n == nil {
		return nil
	}
	switch c := k.compare(n.key()); {
	case c < 0:
		if left := e.remove(n.left, k); left != n.left {
			n = e.own(n)
			n.left = left
		}
	case c > 0:
		if right := e.remove(n.right, k); right != n.right {
			n = e.own(n)
			n.right = right
		}
	default:
		n = e.merge(n.left, n.right)
	}
	return n
}

// own returns n or a copy, which e may change.
func (e *editor) own(n *node) *node {
	if n.edit == e.edit {
		return n
	}
	c := *n
	c.edit = e.edit
	return &c
}

// split returns the nodes before and after a key that n does not have.
func (e *editor) split(n *node, k key) (before, after *node) {
	if n == nil {
		return nil, nil
	}
	n = e.own(n)
	if k.compare(n.key()) < 0 {
		before, n.left = e.split(n.left, k)
		return before, n
	}
	n.right, after = e.split(n.right, k)
	return n, after
}

// merge joins two trees. All keys of the first are before those of the second.
func (e *editor) merge(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority >= b.priority:
		a = e.own(a)
		a.right = e.merge(a.right, b)
		return a
	}
	b = e.own(b)
	b.left = e.merge(a, b.left)
	return b
}

// differences calls yield with the nodes of each key whose records differ, in order, until yield returns false. The
// node of a tree that lacks the key is nil. It returns whether yield never returned false. Subtrees that both trees
// share are skipped.
func differences(a, b *node, yield func(old, new *node) bool) bool {
	x, y := cursor{{a, true}}, cursor{{b, true}}
	for {
		s, t := x.next(), y.next()
		order := 0 // of the next single nodes
		switch {
		case s.node == nil && t.node == nil:
			return true
		case s.whole && t.whole && s.node == t.node:
			x, y = x[:len(x)-1], y[:len(y)-1]
			continue
		case s.whole && (!t.whole || s.node.priority >= t.node.priority):
			x.open() // the higher one first, so that both cursors come to the subtrees that they share
			continue
		case t.whole:
			y.open()
			continue
		case s.node == nil:
			order = 1
		case t.node == nil:
			order = -1
		default:
			order = s.node.key().compare(t.node.key())
		}
		if order <= 0 {
			x = x[:len(x)-1]
		} else {
			s.node = nil
		}
		if order >= 0 {
			y = y[:len(y)-1]
		} else {
			t.node = nil
		}
		if (order != 0 || s.node.record != t.node.record) && !yield(s.node, t.node) {
			return false
		}
	}
}

// cursor is what is left of a tree, the next part last.
type cursor []part

// part is a subtree, or its root alone. It may be a subtree without nodes.
type part struct {
	node  *node
	whole bool
}

// next returns the next part that has nodes, or the zero part at the end.
func (c *cursor) next() part {
	for n := len(*c) - 1; n >= 0; n-- {
		if p := (*c)[n]; p.node != nil {
			return p
		}
		*c = (*c)[:n]
	}
	return part{}
}

// open divides the next part into what is left of its root, the root, and what is right of it.
func (c *cursor) open() {
	n := len(*c) - 1
	root := (*c)[n].node
	*c = append((*c)[:n], part{root.right, true}, part{root, false}, part{root.left, true})
}
