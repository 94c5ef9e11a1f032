//go:build lab

package e2e

import "testing"

// TestLabSameObjects: everything that a kube-apiserver has.
func TestLabSameObjects(t *testing.T) {
	n := compareClients(t, labConfig(t, "GVRWATCH_LAB_ADMIN"))
	if n["ADDED"] < 100 {
		t.Errorf("only %v were compared", n)
	}
}
