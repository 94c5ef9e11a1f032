package stream

import "k8s.io/apimachinery/pkg/types"

// doubts are about what an earlier run was told, where the server has gone back
// in time since: of times that are no more, which nobody can tell of. So whatever
// is known from that run is told as changed once more.
type doubts struct {
	resumed bool // what is known is from an earlier run, but for what has been touched
	touched map[types.NamespacedName]bool
	doubted map[types.NamespacedName]bool // until the end of the next list
}

// resume says that all that is known is from an earlier run.
func (d *doubts) resume() { *d = doubts{resumed: true, touched: map[types.NamespacedName]bool{}} }

// trust says that all that is known has been confirmed.
func (d *doubts) trust() { *d = doubts{} }

// touch says whether an object that is told of now was doubted.
func (d *doubts) touch(name types.NamespacedName) bool {
	if d.resumed {
		d.touched[name] = true
	}
	was := d.doubted[name]
	delete(d.doubted, name)
	return was
}

// doubt begins to doubt what is known from an earlier run.
func (x *index) doubt() {
	if !x.resumed {
		return
	}
	x.doubted = map[types.NamespacedName]bool{}
	for k := range x.all() {
		if !x.touched[k.NamespacedName] {
			x.doubted[k.NamespacedName] = true
		}
	}
}
