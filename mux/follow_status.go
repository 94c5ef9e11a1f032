package mux

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/discovery"
)

// heard keeps what is not known of what is served.
func (f *follow) heard(c discovery.Change) {
	if c.Subject() == discovery.OfResource {
		return // its own watch says how it is doing
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.Type == discovery.Known {
		delete(f.down, c.Resource.GroupVersion())
		return
	}
	f.down[c.Resource.GroupVersion()] = c.Err
	if f.options.Mux.Logger != nil {
		f.options.Mux.Logger.Warn("it is not known what is served", "api", c.Resource.GroupVersion().String(), "error", c.Err)
	}
}

// checkSynced ends the sequence if that is wanted and nothing is to be waited for.
func (f *follow) checkSynced() {
	if !f.options.UntilSynced {
		return
	}
	f.mu.Lock()
	looked, subjects := f.looked, slices.Collect(maps.Values(f.subjects))
	f.mu.Unlock()
	if looked && !slices.ContainsFunc(subjects, func(s *subject) bool { return !s.isSettled() && f.mux.has(s) }) {
		f.mux.Drain()
	}
}

// status adds what is followed to that of the Mux.
func (f *follow) status(st *Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, gv := range slices.SortedFunc(maps.Keys(f.down), func(a, b schema.GroupVersion) int { return cmp.Compare(a.String(), b.String()) }) {
		err := f.down[gv]
		if !gv.Empty() {
			err = fmt.Errorf("%s: %w", gv, err)
		}
		st.Discovery = errors.Join(st.Discovery, err)
	}
	for _, n := range f.named {
		if !n.bound {
			st.Followed = append(st.Followed, n.status)
		}
	}
	for _, s := range f.subjects {
		one := s.followed()
		if !f.mux.has(s) && one.State != FollowGone {
			one.State = FollowDropped
		}
		for _, n := range f.named {
			if n.bound && n.of == one.Resource.GroupResource() {
				one.Ref = n.ref
			}
		}
		st.Followed = append(st.Followed, one)
	}
	slices.SortFunc(st.Followed, func(a, b Followed) int {
		return cmp.Or(cmp.Compare(a.Resource.GroupResource().String(), b.Resource.GroupResource().String()), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
}
