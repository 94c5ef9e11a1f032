package top

import "time"

// churn counts the changes of each row in the last minute, to the second. Its size is bounded by the number of rows
// that have changed in each second.
type churn struct {
	seconds [60]map[*row]int // changes in each of the last seconds
	now     int64            // the last one
}

// add counts a change of a row.
func (c *churn) add(r *row) {
	second := &c.seconds[c.now%int64(len(c.seconds))]
	if *second == nil {
		*second = map[*row]int{}
	}
	(*second)[r]++
	r.perMin++
}

// advance subtracts what is older than a minute, and calls changed for each row whose count has changed.
func (c *churn) advance(now time.Time, changed func(*row)) {
	to, n := now.Unix(), int64(len(c.seconds))
	for c.now = max(c.now, to-n); c.now < to; {
		c.now++
		second := &c.seconds[c.now%n]
		for r, count := range *second {
			r.perMin -= count
			changed(r)
		}
		*second = nil
	}
}
