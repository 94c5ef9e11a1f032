// Package test shows how to test a program that watches: its test runs on an API server in the test's process, with
// faults that the test scripts.
package test

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/gvrwatch/gvrwatch/stream"
)

// Names is the program: it calls changed with the names that exist, sorted, at each SYNCED and after each change.
func Names(ctx context.Context, seq iter.Seq2[stream.Event, error], changed func([]string)) error {
	names, synced := map[string]bool{}, false
	for ev, err := range seq {
		if err != nil {
			return err
		}
		switch ev.Type {
		case stream.Added, stream.Modified:
			names[ev.NamespacedName().String()] = true
		case stream.Deleted:
			delete(names, ev.NamespacedName().String())
		case stream.Gap:
			synced = false // the differences follow, then SYNCED
		case stream.Synced:
			synced = true
		}
		if synced {
			changed(slices.Sorted(maps.Keys(names)))
		}
	}
	return ctx.Err()
}
