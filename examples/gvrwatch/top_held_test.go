package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHeldMessages: what is meant for stderr passes before and after a view, and is printed after one that has failed.
func TestHeldMessages(t *testing.T) {
	for failed, want := range map[bool]string{
		false: "gvrwatch: before\ngvrwatch: after\n",
		true: "gvrwatch: before\ngvrwatch: 3\ngvrwatch: 4\ngvrwatch: 5\ngvrwatch: 6\ngvrwatch: 7\ngvrwatch: 8\n" +
			"gvrwatch: 9\ngvrwatch: 10\ngvrwatch: 11\ngvrwatch: 12\ngvrwatch: after\n",
	} {
		var to bytes.Buffer
		h := &heldMessages{to: &to}
		printMessage(h, "before")
		if got := h.last(); got != "" {
			t.Errorf("before the view the last line is %q", got)
		}
		h.hold()
		for i := range 13 {
			printMessage(h, "%d", i)
		}
		if got := h.last(); got != "12" {
			t.Errorf("the last line is %q", got)
		}
		h.release(failed)
		printMessage(h, "after")
		if diff := cmp.Diff(want, to.String()); diff != "" {
			t.Errorf("failed: %v (-want +got):\n%s", failed, diff)
		}
		if got := fmt.Sprint(h.lines); got != "[]" {
			t.Errorf("kept are %s", got)
		}
	}
}
