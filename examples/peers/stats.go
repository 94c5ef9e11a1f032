package main

import (
	"math"
	"slices"
)

// median is the middle of some values, the mean of the two in the middle if they
// are even. There must be one.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// latency is how long events took, in microseconds.
type latency struct {
	Rate          int     `json:"rate"`    // asked of the server, events/s
	Reached       float64 `json:"reached"` // by the peer, events/s
	P50, P99, Max float64
}

func latencyOf(delays []int64, seconds float64) latency {
	if len(delays) == 0 || seconds <= 0 {
		return latency{}
	}
	slices.Sort(delays)
	us := func(q float64) float64 { return float64(quantile(delays, q)) / 1e3 }
	return latency{Reached: float64(len(delays)) / seconds, P50: us(0.5), P99: us(0.99), Max: us(1)}
}

// quantile is the smallest value that at least a share q of all are not above.
func quantile(sorted []int64, q float64) int64 {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
