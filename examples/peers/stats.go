package main

import (
	"math"
	"slices"
)

// median returns the middle value, or the mean of the two middle ones. values must not be empty.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// latency has percentiles of events' latencies, in microseconds.
type latency struct {
	Rate          int     `json:"rate"`    // target, in events/s
	Reached       float64 `json:"reached"` // events/s that the peer received
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

// quantile returns the smallest value that is at least as large as a share q of all values.
func quantile(sorted []int64, q float64) int64 {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
