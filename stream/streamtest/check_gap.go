package streamtest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

// problem is a broken promise that is not reported yet: another world may have none.
type problem struct {
	promise error
	why     string
}

// difference checks an event of a snapshot: it is new to the sequence, and was so
// at some time. Whether it still was at the end is for SYNCED to show.
func (s *source) difference(i int, ev stream.Event) {
	if p := s.marking(ev); p != nil && !s.complained {
		s.report(p.promise, i, p.why)
		s.complained = true
	}
	if ev.Type == stream.Deleted && s.isUnacked(s.worlds[0], ev) {
		if p := s.goneNews(s.worlds[0], ev); p != nil {
			s.report(p.promise, i, p.why)
		}
		delete(s.unacked, ev.Object.GetUID())
		return // another one of the name may be known, and still is
	}
	var fit []world
	var first *problem
	for _, w := range s.worlds {
		p := s.news(w, ev)
		if p == nil {
			fit = append(fit, w)
		} else if first == nil {
			first = p
		}
	}
	if len(fit) > 0 {
		s.worlds = fit
	} else if first != nil {
		s.report(first.promise, i, first.why)
		if first.promise == ErrInvented && ev.Type == stream.Deleted {
			if r, ok := s.lookup(s.worlds[0], keyOf(ev.Object)); !ok || r.uid != ev.Object.GetUID() {
				return
			}
		}
	}
	s.tell(i, ev)
}

// marking checks that what is inferred is marked so. Several namespaces are live
// one by one before they are SYNCED, which does not show.
func (s *source) marking(ev stream.Event) *problem {
	switch {
	case s.joint || s.opts.Latest || s.opts.IndexNone && ev.Type == stream.Added:
		return nil
	case s.phase == initial && s.opts.Now:
		return &problem{ErrSilent, "what exists is not to be told before SYNCED if the start is now"}
	case s.phase == initial && ev.Type == stream.Added && ev.Inferred:
		return &problem{ErrSilent, "a first snapshot is not inferred"}
	case s.phase == initial && ev.Type != stream.Added && !ev.Inferred:
		return &problem{ErrSilent, "it can't come from the server before SYNCED"}
	case s.phase == gap && !ev.Inferred:
		return &problem{ErrSilent, "before the SYNCED after a GAP all is inferred"}
	}
	return nil
}

// news checks an event against what is known in a world.
func (s *source) news(w world, ev stream.Event) *problem {
	if ev.Type == stream.Deleted {
		return s.goneNews(w, ev)
	}
	key, now := keyOf(ev.Object), refOf(ev)
	was, known := s.lookup(w, key)
	switch {
	case known && was.uid != now.uid:
		return &problem{ErrRemoval, fmt.Sprintf("the object with uid %q was there, and its removal was not told", was.uid)}
	case known && was.rv == now.rv && now.rv != "":
		return s.toldAgain(ev)
	case known && ev.Type == stream.Added:
		return &problem{ErrInvented, "the object is known: a change of it is MODIFIED"}
	case !known && ev.Type == stream.Modified && !s.unknown && !s.hides(key):
		return &problem{ErrInvented, "the object is not known: it is ADDED"}
	case s.opts.IndexNone && !s.joint && !s.opts.Latest && ev.Type == stream.Modified:
		return &problem{ErrInvented, "without an index there is nothing that it could differ from"}
	case known && older(now.rv, was.rv) && !s.mayGoBack(w):
		return &problem{ErrBackInTime, "version " + was.rv + " of it is known"}
	}
	found := false
	for _, t := range s.timelines[w.epoch:] {
		for _, e := range t {
			if e.exists && e.key == key && e.ref == now {
				if sameContent(e.object, ev.Object) {
					return nil
				}
				found = true
			}
		}
	}
	if found {
		return &problem{ErrInvented, "the object was never like that"}
	}
	return &problem{ErrInvented, "there never was such an object"}
}

func (s *source) goneNews(w world, ev stream.Event) *problem {
	key := keyOf(ev.Object)
	was, known := s.lookup(w, key)
	switch {
	case s.joint && !ev.Inferred && (known && was.uid == ev.Object.GetUID() || s.unknown || s.hides(key)):
		return s.goneLive(w, ev)
	case s.opts.Latest && !ev.Inferred && !known && s.wasUnacked(ev):
		return s.goneLive(w, ev) // it was merged with the ADDED that was told again
	case !ev.Inferred && known && s.goneLive(w, ev) == nil:
		return nil // that it comes too early is told elsewhere
	case s.opts.IndexNone:
		return &problem{ErrInvented, "without an index no removal can be inferred"}
	case !known && s.hides(key) && s.was(ev):
		was = refOf(ev)
	case s.isUnacked(w, ev):
		was = refOf(ev)
	case !known:
		return &problem{ErrInvented, "the object is not known"}
	case was.uid != ev.Object.GetUID():
		return &problem{ErrRemoval, fmt.Sprintf("the object that is known has the uid %q", was.uid)}
	case was.rv != ev.ResourceVersion && !(s.opts.Latest && s.was(ev)):
		return &problem{ErrInvented, "the version that is known is " + was.rv}
	}
	if !identityOnly(ev.Object) {
		return &problem{ErrInvented, "of a removal that is inferred only the identity is known"}
	}
	if !s.hasKind(ev) {
		return &problem{ErrInvented, "its apiVersion and kind are not those of the objects of this resource"}
	}
	for epoch, t := range s.timelines {
		if epoch < w.epoch {
			continue
		}
		from := w.pos
		if epoch > w.epoch || s.mayGoBack(w) {
			from = 0
		}
		if _, gone := t.lives(from, key, was.uid); gone {
			return nil
		}
	}
	return &problem{ErrInvented, "the object was never removed"}
}

// goneLive checks a removal told by the server between a GAP and the SYNCED of
// several namespaces.
func (s *source) goneLive(w world, ev stream.Event) *problem {
	for _, t := range s.timelines[w.epoch:] {
		for _, e := range t {
			if s.is(w, e, ev) && sameContent(e.object, ev.Object) {
				return nil
			}
		}
	}
	return &problem{ErrInvented, "that never happened"}
}

// isUnacked says whether ev is the end of an object that may have been told before
// the sequence went on, and is not known besides.
func (s *source) isUnacked(w world, ev stream.Event) bool {
	uid := ev.Object.GetUID()
	was, known := s.lookup(w, keyOf(ev.Object))
	u, ok := s.unacked[uid]
	if ok && s.opts.Latest && ev.Coalesced > 0 && s.was(ev) {
		u.rv = ev.ResourceVersion // it was merged with the ADDED that was told again
	}
	return ok && u.rv == ev.ResourceVersion && ev.Type == stream.Deleted && !(known && was.uid == uid)
}

// wasUnacked says whether the object of ev may have been told before the sequence went
// on.
func (s *source) wasUnacked(ev stream.Event) bool {
	_, ok := s.unacked[ev.Object.GetUID()]
	return ok
}

// hides says whether the sequence may know of a name what it did not tell.
func (s *source) hides(key types.NamespacedName) bool {
	if s.joint && s.opts.IndexNone && s.opts.Selected != nil {
		return true // it does not know itself what it has told
	}
	_, ok := s.told[key]
	return (s.silent || s.unknown && s.lost) && !ok
}

// hasKind says whether the object is of the kind that the others are.
func (s *source) hasKind(ev stream.Event) bool {
	if s.opts.Transform != nil {
		return true // it may have changed that
	}
	for _, t := range s.timelines {
		for _, e := range t {
			if e.object != nil {
				return e.object.GroupVersionKind() == ev.Object.GroupVersionKind()
			}
		}
	}
	return true
}

// was says whether the object ever had the version of ev.
func (s *source) was(ev stream.Event) bool {
	for _, t := range s.timelines {
		for _, e := range t {
			if e.exists && e.key == keyOf(ev.Object) && e.ref == refOf(ev) {
				return true
			}
		}
	}
	return false
}

// toldAgain is an object told once more as it was.
func (s *source) toldAgain(ev stream.Event) *problem {
	t, ok := s.told[keyOf(ev.Object)]
	if u, ok := s.unacked[ev.Object.GetUID()]; ok && u.rv != ev.ResourceVersion {
		return nil // it may have been told otherwise
	}
	switch {
	case s.opts.Latest && ev.Coalesced > 0:
		return nil // it may have been told otherwise in between
	case ok && t.index > s.opened:
		return &problem{ErrRepeated, "it has been told before"}
	case s.rewound:
		return nil // the version may have been that of something else, which is no more
	case s.resuming:
		return &problem{ErrResumed, "the position knows it, with this version"}
	}
	return &problem{ErrSilent, "it is as it was, and only differences follow a GAP"}
}

// mayGoBack says whether states of the past can be right: when that was said, or
// when the server did so and it did not show in its versions. If GAP.To already
// tells that they are wrong, SYNCED is where to say so.
func (s *source) mayGoBack(w world) bool {
	return s.rewound || s.hidden || older(s.to, s.cursor) || w.epoch < len(s.timelines)-1
}

// identityOnly says whether u holds no more than the identity of an object.
func identityOnly(u *unstructured.Unstructured) bool {
	for k := range u.Object {
		if k != "apiVersion" && k != "kind" && k != "metadata" {
			return false
		}
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	for k := range metadata {
		switch k {
		case "namespace", "name", "uid", "resourceVersion":
		default:
			return false
		}
	}
	return true
}
