package main

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/gvrwatch/gvrwatch/stream"
)

// summary counts the objects that were printed.
type summary map[summaryKey]*[3]int // by the index of the type in eventTypes

type summaryKey struct{ resource, namespace string }

func (s summary) add(ev stream.Event) {
	i := slices.Index(eventTypes[:3], ev.Type)
	if i < 0 {
		return
	}
	key := summaryKey{ev.Resource.String(), ev.Meta().GetNamespace()}
	if s[key] == nil {
		s[key] = &[3]int{}
	}
	s[key][i]++
}

// print prints a table, with the sum of several rows last.
func (s summary) print(w io.Writer) error {
	t := newTable(w, []string{"TYPE", "NAMESPACE", "ADDED", "MODIFIED", "DELETED"})
	var total [3]int
	add := func(resource, namespace string, n [3]int) error {
		return addRow(t, resource, namespace, strconv.Itoa(n[0]), strconv.Itoa(n[1]), strconv.Itoa(n[2]))
	}
	for _, key := range slices.SortedFunc(maps.Keys(s), func(a, b summaryKey) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.namespace, b.namespace))
	}) {
		if err := add(key.resource, key.namespace, *s[key]); err != nil {
			return err
		}
		for i, n := range s[key] {
			total[i] += n
		}
	}
	if len(s) != 1 {
		if err := add("total", "", total); err != nil {
			return err
		}
	}
	return t.Flush()
}
