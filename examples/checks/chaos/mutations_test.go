package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestMutationsApply: a change of the library takes the deliberate mistakes along, which mutations/check applies.
func TestMutationsApply(t *testing.T) {
	patches, err := filepath.Glob("mutations/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("found %d patches: %v", len(patches), err)
	}
	for _, patch := range patches {
		path, err := filepath.Abs(patch)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "git", "apply", "--recount", "--check", path)
		cmd.Dir = "../../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s does not apply: %v: %s", patch, err, out)
		}
	}
}
