//go:build !linux

package jetstream_test

import "testing"

func smallDisk(t *testing.T) string {
	t.Skip("a disk of 6 MB is mounted on Linux only")
	return ""
}
