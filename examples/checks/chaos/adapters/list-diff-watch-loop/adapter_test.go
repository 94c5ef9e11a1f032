package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/loop"
)

// refused answers no list.
type refused struct {
	dynamic.ResourceInterface
	lists int
}

func (r *refused) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	r.lists++
	return nil, errors.New("refused")
}

// TestPause: after an error it waits for a second, as the other loops do. The judge compares the time back.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
		defer cancel()
		server := &refused{}
		watchOne(ctx, loop.Watched{
			ResourceInterface: server, Judge: &adapter.Judge{Lines: adapter.NewLines(io.Discard)},
		})
		if server.lists != 10 {
			t.Errorf("it lists %d times in 9.5 s, want 10", server.lists)
		}
	})
}
