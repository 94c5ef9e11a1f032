package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		why    string
		values []float64
		want   float64
	}{
		{"one value is its own median", []float64{7}, 7},
		{"the median is the middle value, not the mean", []float64{9, 1, 2}, 2},
		{"an even number has the mean of the two middle values", []float64{4, 1, 100, 2}, 3},
		{"an outlier does not count", []float64{5, 5, 5, 5, 1e9}, 5},
	} {
		if got := median(tt.values); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.why, got, tt.want)
		}
	}
}

func TestLatencyOf(t *testing.T) {
	var hundred []int64
	for i := range int64(100) {
		hundred = append(hundred, (100-i)*1000)
	}
	for _, tt := range []struct {
		why     string
		delays  []int64
		seconds float64
		want    latency
	}{
		{"no delays have zero percentiles", nil, 1, latency{}},
		{"one delay is all percentiles", []int64{3000}, 2, latency{Reached: 0.5, P50: 3, P99: 3, Max: 3}},
		{"the delays may come in any order", hundred, 10, latency{Reached: 10, P50: 50, P99: 99, Max: 100}},
		{"the 99th percentile of a few is the largest", []int64{1000, 2000, 9000}, 1,
			latency{Reached: 3, P50: 2, P99: 9, Max: 9}},
	} {
		if diff := cmp.Diff(tt.want, latencyOf(tt.delays, tt.seconds)); diff != "" {
			t.Errorf("%s: %s", tt.why, diff)
		}
	}
}

func TestMetadataOf(t *testing.T) {
	for _, tt := range []struct{ why, frame, want string }{
		{"the first metadata is the object's",
			`{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a"},"spec":{"metadata":{"x":1}}}}`,
			`{"name":"a"}`},
		{"metadata may contain objects",
			`{"metadata":{"labels":{"a":"b"},"list":[{"c":{}}]},"spec":{}}`,
			`{"labels":{"a":"b"},"list":[{"c":{}}]}`},
		{"braces in a string do not count", `{"metadata":{"a":"}}{"},"spec":{}}`, `{"a":"}}{"}`},
		{"an escaped quote does not end a string", `{"metadata":{"a":"\"}"},"spec":{}}`, `{"a":"\"}"}`},
		{"a quote after an escaped backslash ends it", `{"metadata":{"a":"\\"},"spec":{}}`, `{"a":"\\"}`},
		{"a frame may have no metadata", `{"spec":{}}`, ""},
		{"a frame may end within the metadata", `{"metadata":{"a":`, ""},
		{"a frame may end within a string", `{"metadata":{"a":"b`, ""},
	} {
		if got := string(metadataOf([]byte(tt.frame))); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.why, got, tt.want)
		}
	}
}
