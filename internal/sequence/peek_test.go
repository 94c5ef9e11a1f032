package sequence

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/client"
)

// endlessWatch always has another event, whose object takes so many bytes.
type endlessWatch struct {
	client.Watch
	size, n int
}

func (w *endlessWatch) Next() (ev client.Event, ok, over bool) {
	w.n++
	return client.Event{Event: watch.Event{Type: watch.Added, Object: &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": fmt.Sprint("n", w.n), "resourceVersion": fmt.Sprint(w.n)},
		"spec":     strings.Repeat("x", w.size),
	}}}}, true, false
}

// Objects are read ahead up to a number and a size, counted with those that were read before.
func TestPeekObjectsIsBounded(t *testing.T) {
	for size, want := range map[int]int{1: client.Buffer, 1 << 20: 16, 64 << 20: 1} {
		c := &connection{scope: scope{target: NewTarget(Config{})}, watch: &endlessWatch{size: size}}
		for range 2 {
			if got := len(c.peekObjects()); got != want {
				t.Errorf("of objects of %d bytes, %d are read ahead, want %d", size, got, want)
			}
		}
	}
}
