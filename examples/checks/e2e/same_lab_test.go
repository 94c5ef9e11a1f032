//go:build lab

package e2e

import (
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// TestLabSameObjects: all objects of a kube-apiserver are the same through both clients. The custom resources of other
// tests may be about to go.
func TestLabSameObjects(t *testing.T) {
	n := compareClients(t, labConfig(t, "GVRWATCH_LAB_ADMIN"), func(r gvr.Resource) bool {
		return r.ClusterWatch() && !strings.Contains(r.Group, "example.")
	})
	if n["ADDED"] < 100 {
		t.Errorf("compared only %v events, want at least 100 ADDED", n)
	}
}
