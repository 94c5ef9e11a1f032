package top

import (
	"cmp"
	"slices"
	"strings"
)

// Sort is an order of rows. Rows that are equal in it are in the order of their names.
type Sort string

// Orders. ByChurn has those first that change most, and ByAge the newest.
const (
	ByChurn Sort = "churn"
	ByAge   Sort = "age"
	ByName  Sort = "name"
)

// next returns the order that follows when the user asks for another.
func (s Sort) next() Sort {
	all := []Sort{ByChurn, ByAge, ByName}
	return all[(slices.Index(all, s)+1)%len(all)]
}

func (s Sort) compare(a, b *row) int {
	n := 0
	switch s {
	case ByChurn:
		n = b.perMin - a.perMin
	case ByAge:
		n = b.created.Compare(a.created)
	}
	return cmp.Or(n, strings.Compare(a.key.namespace, b.key.namespace),
		strings.Compare(a.key.resource, b.key.resource), strings.Compare(a.key.name, b.key.name))
}

// order keeps rows sorted. Only rows that may have moved are sorted again, and merged with the others: of 20,000
// objects some hundreds change in a second.
type order struct {
	by    Sort
	rows  []*row
	moved []*row
	spare []*row // the rows of before, to be used again
}

// move says that a row is new, has changed its place, or is gone.
func (o *order) move(r *row) {
	if !r.moved {
		r.moved = true
		o.moved = append(o.moved, r)
	}
}

// sort changes the order.
func (o *order) sort(by Sort) {
	o.by = by
	o.sorted()
	slices.SortFunc(o.rows, by.compare)
}

// sorted returns all rows in order, until the next call.
func (o *order) sorted() []*row {
	if len(o.moved) == 0 {
		return o.rows
	}
	moved := slices.DeleteFunc(o.moved, func(r *row) bool { return r.gone })
	slices.SortFunc(moved, o.by.compare)
	merged := o.spare[:0]
	for _, r := range o.rows {
		if r.moved {
			continue
		}
		for len(moved) > 0 && o.by.compare(moved[0], r) < 0 {
			merged, moved = append(merged, moved[0]), moved[1:]
		}
		merged = append(merged, r)
	}
	merged = append(merged, moved...)
	for _, r := range merged {
		r.moved = false
	}
	clear(o.rows) // so that rows that are gone can be collected
	o.spare, o.rows, o.moved = o.rows[:0], merged, nil
	return o.rows
}
