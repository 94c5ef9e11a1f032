//go:build lab

package e2e

import "testing"

// TestLabSameObjects: all objects of a kube-apiserver are the same through both clients.
func TestLabSameObjects(t *testing.T) {
	n := compareClients(t, labConfig(t, "GVRWATCH_LAB_ADMIN"))
	if n["ADDED"] < 100 {
		t.Errorf("compared only %v events, want at least 100 ADDED", n)
	}
}
