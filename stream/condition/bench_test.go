package condition_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
)

// many delivers many objects, and then SYNCED, before which it calls a function.
type many struct {
	objects int
	status  string
	synced  func()
}

func (m many) Synced(friend.Access) (all, whole bool) { return true, true }

func (m many) Events(context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		for i := range m.objects {
			conditions := []any{map[string]any{"type": "Ready", "status": m.status}}
			o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": conditions}}}
			o.SetNamespace("shop")
			o.SetName(fmt.Sprint("widget-", i))
			o.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)))
			if !yield(stream.Event{Type: stream.Added, Resource: widgets, Object: o}, nil) {
				return
			}
		}
		m.synced()
		yield(stream.Event{Type: stream.Synced, Resource: widgets}, nil)
	}
}

// BenchmarkWait measures what Wait keeps of each object, with those that meet the condition and those that do not.
func BenchmarkWait(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for _, status := range []string{"True", "False"} {
		b.Run(status, func(b *testing.B) {
			const objects = 100_000
			var per float64
			for b.Loop() {
				before := heap()
				source := many{objects, status, func() { per = (heap() - before) / objects }}
				err := condition.Wait(b.Context(), source, all(condition.MustParse("condition=Ready"))...)
				if (err == nil) != (status == "True") {
					b.Fatal(err)
				}
			}
			b.ReportMetric(per, "B/object")
		})
	}
}

// BenchmarkMet measures one evaluation of a condition.
func BenchmarkMet(b *testing.B) {
	o := object(b, `{"metadata":{"generation":2},"status":{"phase":"Running","conditions":[
		{"type":"Initialized","status":"True"},{"type":"Ready","status":"True"}]}}`)
	for _, text := range []string{
		"condition=Ready", "jsonpath={.status.phase}=Running",
		`jsonpath={.status.conditions[?(@.type=="Ready")].status}=True`,
	} {
		c := must(condition.Parse(text))
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if met, err := c.Met(o); !met || err != nil {
					b.Fatal(met, err)
				}
			}
		})
	}
}
