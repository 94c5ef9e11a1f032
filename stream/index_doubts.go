package stream

import "k8s.io/apimachinery/pkg/types"

// doubts are about what is known where the server has gone back in time: it may
// use a version again, for something else; and what an earlier run was told of times
// that are no more nobody knows. So everything is told as changed once more, by the
// next list that is told to its end.
type doubts map[types.NamespacedName]bool

// doubt begins to doubt all that is known.
func (x *index) doubt() {
	x.doubts = doubts{}
	for k := range x.all() {
		x.doubts[k.NamespacedName] = true
	}
}

// doubtOne begins to doubt one.
func (x *index) doubtOne(name types.NamespacedName) {
	if x.doubts == nil {
		x.doubts = doubts{}
	}
	x.doubts[name] = true
}

// confirm says whether an object that is told of now was doubted, and ends that.
func (x *index) confirm(name types.NamespacedName) bool {
	was := x.doubts[name]
	delete(x.doubts, name)
	return was
}
