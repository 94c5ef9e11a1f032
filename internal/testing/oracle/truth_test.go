package oracle_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// The promises that a violation of CheckTruth names.
const truthful, current, reliable = "truthful", "current", "reliable"

func isB(u *unstructured.Unstructured) bool { return u.GetName() == "b" }

func TestCheckTruth(t *testing.T) {
	// Change n is at second n-1. The versions of a and b are in no order. The second c replaces the first.
	const h = "ADDED a(u1)@9; ADDED b(u2)@5; MODIFIED a(u1)@12; DELETED b(u2)@6; " +
		"ADDED c(u3)@3; DELETED c(u3)@4; ADDED c(u4)@2"
	const first = "ADDED a(u1)@9; ADDED b(u2)@5; SYNCED @9; "
	const all = first + "MODIFIED a(u1)@12; DELETED b(u2)@6; ADDED c(u3)@3; DELETED c(u3)@4; ADDED c(u4)@2"
	tests := []struct {
		why    string
		events string
		times  []int
		lists  []int // when snapshots were requested
		opts   streamtest.CheckOptions
		want   string
	}{
		{"each change", all, []int{1, 1, 1, 2, 3, 4, 5, 6}, []int{1}, streamtest.CheckOptions{}, ""},
		{"late, but in the end", all, []int{1, 1, 1, 9, 9, 9, 9, 9}, []int{1}, streamtest.CheckOptions{}, ""},
		{"a GAP in the place of what came and went", first + "GAP unordered 9..9; MODIFIED a(u1)@12 inferred; " +
			"DELETED b(u2)@5 inferred; ADDED c(u4)@2 inferred; SYNCED @12", []int{1, 1, 1, 8, 8, 8, 8, 8},
			[]int{1, 8}, streamtest.CheckOptions{}, ""},
		{"a snapshot that takes long may lack what is new", "ADDED a(u1)@9; SYNCED @9; ADDED b(u2)@5; " +
			"MODIFIED a(u1)@12; DELETED b(u2)@6; ADDED c(u3)@3; DELETED c(u3)@4; ADDED c(u4)@2",
			[]int{1, 1, 2, 2, 3, 4, 5, 6}, []int{0}, streamtest.CheckOptions{}, ""},
		{"after a rewind all may come again", first + "GAP rewound 9..9; MODIFIED a(u1)@9 inferred; SYNCED @9; " +
			"MODIFIED a(u1)@12; DELETED b(u2)@6; ADDED c(u3)@3; DELETED c(u3)@4; ADDED c(u4)@2",
			[]int{1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6}, []int{1, 1}, streamtest.CheckOptions{}, ""},
		{"an object that is not selected", "ADDED b(u2)@5; SYNCED @9; DELETED b(u2)@6", []int{1, 1, 3}, []int{1},
			streamtest.CheckOptions{Selected: isB}, ""},

		{"a new object is missing", first + "MODIFIED a(u1)@12; DELETED b(u2)@6; ADDED c(u3)@3; DELETED c(u3)@4",
			[]int{1, 1, 1, 2, 3, 4, 5}, []int{1}, streamtest.CheckOptions{}, current},
		{"a deletion is missing", first + "MODIFIED a(u1)@12; ADDED c(u3)@3; DELETED c(u3)@4; ADDED c(u4)@2",
			[]int{1, 1, 1, 2, 4, 5, 6}, []int{1}, streamtest.CheckOptions{}, current},
		{"a change is missing", first + "DELETED b(u2)@6; ADDED c(u3)@3; DELETED c(u3)@4; ADDED c(u4)@2",
			[]int{1, 1, 1, 3, 4, 5, 6}, []int{1}, streamtest.CheckOptions{}, current},
		{"what came and went is missing, without a GAP", first + "MODIFIED a(u1)@12; DELETED b(u2)@6; ADDED c(u4)@2",
			[]int{1, 1, 1, 2, 3, 6}, []int{1}, streamtest.CheckOptions{}, reliable},
		{"at SYNCED a new object is missing", first + "GAP unordered 9..9; MODIFIED a(u1)@12 inferred; " +
			"DELETED b(u2)@5 inferred; SYNCED @12; ADDED c(u4)@2", []int{1, 1, 1, 8, 8, 8, 8, 9}, []int{1, 8},
			streamtest.CheckOptions{}, current},
		{"at SYNCED a deletion is missing", first + "GAP unordered 9..9; MODIFIED a(u1)@12 inferred; " +
			"ADDED c(u4)@2 inferred; SYNCED @12; DELETED b(u2)@5", []int{1, 1, 1, 8, 8, 8, 8, 9}, []int{1, 8},
			streamtest.CheckOptions{}, current},
		{"in the future", "MODIFIED a(u1)@12", []int{1}, nil, streamtest.CheckOptions{}, truthful},
		{"no such object", "ADDED a(u9)@9", []int{1}, nil, streamtest.CheckOptions{}, truthful},
		{"no such version", "ADDED a(u1)@10", []int{1}, nil, streamtest.CheckOptions{}, truthful},
		{"twice", "ADDED a(u1)@9; MODIFIED a(u1)@9", []int{1, 1}, nil, streamtest.CheckOptions{}, truthful},
		{"back in time", "ADDED a(u1)@12; MODIFIED a(u1)@9", []int{5, 5}, nil, streamtest.CheckOptions{}, truthful},
		{"ADDED of a known object", "ADDED a(u1)@9; ADDED a(u1)@12", []int{5, 5}, nil, streamtest.CheckOptions{},
			truthful},
		{"MODIFIED of an unknown object", "MODIFIED a(u1)@9", []int{5}, nil, streamtest.CheckOptions{}, truthful},
		{"DELETED of an object that exists", "ADDED a(u1)@9; DELETED a(u1)@9 inferred", []int{1, 1}, nil,
			streamtest.CheckOptions{}, truthful},
		{"DELETED before the deletion", "ADDED b(u2)@5; DELETED b(u2)@5 inferred", []int{1, 2}, nil,
			streamtest.CheckOptions{}, truthful},
		{"DELETED of an unknown object", "DELETED b(u2)@5", []int{5}, nil, streamtest.CheckOptions{}, truthful},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			history := oracle.History(t, h)
			for _, at := range tt.lists {
				history.Requests = append(history.Requests, streamtest.Request{Verb: "list", Limit: 500,
					At: oracle.Began.Add(time.Duration(at) * time.Second)})
			}
			tt.opts.Complete = tt.want != truthful
			oracle.WantBroken(t, oracle.CheckTruth(history, recordingOf(t, tt.events, 60, tt.times...), &tt.opts),
				tt.want)
		})
	}
}
