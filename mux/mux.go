package mux

import (
	"context"
	"iter"

	"github.com/gvrwatch/gvrwatch/stream"
)

// Mux merges sources into one sequence. Its methods may be called from any
// goroutine, and from the loop body.
type Mux struct{}

// New ...
func New(opts *Options, sources ...Source) (*Mux, error) { return nil, nil }

// Add ...
func (m *Mux) Add(s Source, opts *SourceOptions) error { return nil }

// Remove ...
func (m *Mux) Remove(key string) bool { return false }

// Events ...
func (m *Mux) Events(ctx context.Context) iter.Seq2[stream.Event, error] { return nil }

// Stop ...
func (m *Mux) Stop() {}

// Drain ...
func (m *Mux) Drain() {}

// Status ...
func (m *Mux) Status() Status { return Status{} }

// Status ...
type Status struct{}
