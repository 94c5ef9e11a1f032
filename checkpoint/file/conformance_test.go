package file_test

import (
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestStoreConforms: the file does what the documentation of checkpoint.Store demands.
func TestStoreConforms(t *testing.T) {
	path := inMemory(t)
	err := streamtest.CheckStore(func() (checkpoint.Store, error) {
		s, err := file.Open(path)
		if err != nil {
			return nil, err // not a nil *file.Store
		}
		return s, nil
	})
	if err != nil {
		t.Error(err)
	}
}
