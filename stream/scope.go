package stream

import (
	"maps"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Scope makes a Stream one that may be begun again with other Namespaces, or with
// none: for who may not watch all that is wanted, and watches what can be watched
// at the moment. A range goes on (From, Checkpoint) where another one was that had
// other Namespaces: nothing that was told is told again, and what happened
// meanwhile is told, as far as the server still knows it; what is known of other
// namespaces is kept for later ranges that see them again.
type Scope struct {
	// Namespaces that are wanted, of which Options.Namespaces are a part. Empty means
	// all of the cluster. It is what a Checkpoint is compared by.
	Namespaces []string
}

// floors are the versions up to which a watch of the cluster, which begins at the
// lowest of them, has told everything already. It is never changed once made.
type floors struct {
	versions checkpoint.Versions
	highest  string
	listing  bool // what has no version is being listed
}

// covers says whether a snapshot has nothing to tell of a namespace.
func (f *floors) covers(namespace string) bool {
	return f != nil && f.listing && f.versions.Of(namespace) != ""
}

// isOld says whether a version has been told in a namespace.
func (f *floors) isOld(namespace, rv string) bool {
	return f != nil && notAfter(rv, f.versions.Of(namespace))
}

// listed says that what had no version has been listed at rv.
func (f *floors) listed(rv string) *floors {
	of := checkpoint.Versions{"": rv}
	for n, one := range f.versions {
		if one != "" {
			of[n] = one
		}
	}
	return newFloors(of)
}

// passed says whether a watch that is at rv is past all of them.
func (f *floors) passed(rv string) bool { return f != nil && !f.listing && notAfter(f.highest, rv) }

func newFloors(v checkpoint.Versions) *floors {
	f := &floors{versions: v}
	for _, rv := range v {
		if f.highest == "" || before(f.highest, rv) {
			f.highest = rv
		}
	}
	return f
}

// join is where a watch of the cluster begins that was, at least in part, watched
// by namespaces before.
func (b *beginning) join(v checkpoint.Versions) *floors {
	lowest, listed, ok := v.Lowest()
	f := newFloors(maps.Clone(v))
	b.floor = f.highest
	switch {
	case !ok:
		b.unordered = true
		return nil
	case listed:
		b.covered, f.listing = lowest, true
	default:
		b.rv = lowest
	}
	return f
}

// elsewhere is what a Stream with a Scope knows of the namespaces that it does not
// watch.
type elsewhere struct {
	versions checkpoint.Versions
	index    *index
}

// elsewhereOf takes from p what is not of the namespaces that are watched.
func elsewhereOf(p checkpoint.Position, watched []string) *elsewhere {
	here := map[string]bool{}
	for _, n := range watched {
		here[n] = true
	}
	if here[""] {
		return nil
	}
	e := &elsewhere{versions: checkpoint.Versions{}, index: newIndex()}
	for n, rv := range p.ResourceVersions {
		if !here[n] {
			e.versions[n] = rv
		}
	}
	for _, o := range p.Objects {
		if here[o.Namespace] {
			continue
		}
		if k := knownObject(o); o.Unacked {
			e.index.haunt(k.identity)
		} else {
			e.index.enter(k)
		}
	}
	return e
}

// position adds what is known elsewhere to p, which has what the lanes know.
func (e *elsewhere) position(p *checkpoint.Position, lanes []*lane) {
	if e == nil {
		return
	}
	for _, l := range lanes {
		if _, ok := p.ResourceVersions[l.namespace]; !ok && e.versions[""] != "" {
			p.ResourceVersions[l.namespace] = "" // within a snapshot, and not where the others are
		}
	}
	maps.Copy(p.ResourceVersions, e.versions)
	for _, i := range e.index.allGhosts() {
		p.Objects = append(p.Objects, i.unacked())
	}
	for k := range e.index.all() {
		p.Objects = append(p.Objects, k.object())
	}
}

func (l *lane) setFloors(f *floors) {
	l.floors = f
	l.report.mu.Lock()
	defer l.report.mu.Unlock()
	l.report.floors = f
}

// forgetFloors is for a snapshot that tells everything, and for a watch that is past
// them all.
func (l *lane) forgetFloors() {
	if l.floors == nil {
		return
	}
	l.setFloors(nil)
	if l.progress != nil {
		l.progress.Anew()
	}
}

// floorsListed ends a snapshot that has told only what had no version.
func (l *lane) floorsListed(rv string) {
	if l.floors == nil {
		return
	}
	l.setFloors(l.floors.listed(rv))
	if l.progress != nil {
		l.progress.Base(rv)
	}
}
