package streamtest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestScriptErrors(t *testing.T) {
	tests := []struct {
		script string
		line   int
		reason string // a part of it
		why    string
	}{
		{"watch 1 410", 1, "colon", "no colon"},
		{"\n# comment\nwatch x: 410", 3, "N-M", "lines are counted with comments and empty ones"},
		{"watch 0: 410", 1, "N-M", "requests are counted from 1"},
		{"watch 3-2: 410", 1, "N-M", "backwards"},
		{"watch: 410", 1, "N-M", "which one is missing"},
		{"gadgets watch 1: 410", 1, `"gadgets" is neither a resource`, "an unknown resource"},
		{"wach 1: 410", 1, "probe, watch", "an unknown trigger: names the right ones"},
		{"watch 1: explode", 1, "half-open", "an unknown fault: names the right ones"},
		{"watch 1: 200", 1, "400 to 599", "no error"},
		{"watch 1: 429 retry-after 1.5s", 1, "whole seconds", "the header has only those"},
		{"watch 1: 429 retry-after", 1, "not a duration", "an argument is missing"},
		{"watch 1: close now", 1, `"now" is too much`, "more than there is to say"},
		{"watch 1 soon: close", 1, `"soon" is too much`, "more than there is to say, in front"},
		{"watch 1: replay", 1, "not a count", "how many is missing"},
		{"watch 1: slow soon", 1, "not a duration", "no duration"},
		{"watch 1: no marker", 1, "no marker can't happen", "a fault of another kind of request"},
		{"list 1: 410 in stream", 1, "stale", "a fault of another kind of request"},
		{"list 1 after 2 frames: close", 1, "inside a watch", "lists have no frames"},
		{"watch 1 after 2 frames: 410", 1, "inside a watch", "the status has been sent by then"},
		{"watch 1 after 2 bites: close", 1, "K frames", "an unknown unit"},
		{"watch 1 after 0 frames: close", 1, "not a count", "leave it out"},
		{"watch 1 in: close", 1, "namespace is missing", ""},
		{"change 7: 410", 1, "410 in stream", "a status is no frame"},
		{"change seven: garbage", 1, "not a count", ""},
		{"at noon: compact", 1, "not a duration", ""},
		{"at 5s: 410", 1, "compact", "a fault of requests"},
		{"at 5s: rewind", 1, "not a count", ""},
		{"at 5s: widgets rewind 2", 1, "whole server", "there is one counter"},
		{"widgets at 5s: compact", 1, "whole server", "the same, in front"},
		{"at 5s: forbid", 1, "no verb", ""},
		{"at 5s: forbid fly", 1, "deletecollection", ""},
		{"at 5s: forbid watch in", 1, "namespace is missing", ""},
		{"at 5s: discovery down", 1, "group is missing", ""},
		{"at 5s: bookmarks every 0s", 1, "bookmarks never", ""},
		{"at 5s: compact twice", 1, "too much", ""},
		{"watch 1: 410\nwatch 2: explode", 2, "", "the first line is not applied either"},
	}
	for _, tc := range tests {
		t.Run(tc.script, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *streamtest.Server) {
				var got *streamtest.ScriptError
				if err := srv.Apply(tc.script); !errors.As(err, &got) {
					t.Fatalf("%s: got %v, want a ScriptError", tc.why, err)
				}
				if got.Line != tc.line || !strings.Contains(got.Reason, tc.reason) {
					t.Errorf("%s: got line %d, %s; want line %d, and %q in the reason", tc.why, got.Line, got.Reason, tc.line, tc.reason)
				}
				if !strings.Contains(got.Error(), strings.TrimSpace(got.Text)) {
					t.Errorf("%q does not show the line", got.Error())
				}
				if seen := watchFor(t, srv, from("1"), 0); seen != nil {
					t.Errorf("a script that was refused has done %v", seen)
				}
			})
		})
	}
}

func TestDoErrors(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		for _, what := range []string{"", "explode", "rewind", "gadgets delete crd", "widgets compact", "at 5s: compact"} {
			var got *streamtest.ScriptError
			if err := srv.Do(what); !errors.As(err, &got) || got.Text != what {
				t.Errorf("Do(%q) returned %v, want a ScriptError that shows it", what, err)
			}
		}
	})
}

// Whatever a script says, it is followed or refused, and never a panic.
func FuzzScript(f *testing.F) {
	f.Add("widgets watch 1-2 in x after 3 frames: replay 2 # comment")
	f.Add("at 5s: rewind 3 restart\nchange 7: garbage\nat 1s: globes forbid watch in x")
	f.Add("any *: 429 retry-after 3s\nlist N: 410 Gone")
	f.Fuzz(func(t *testing.T, script string) {
		srv := streamtest.NewServer(widgets, globes)
		defer srv.Close()
		var refused *streamtest.ScriptError
		if err := srv.Apply(script); err != nil && !errors.As(err, &refused) {
			t.Errorf("%T: %v", err, err)
		}
		if err := srv.Do(script); err != nil && !errors.As(err, &refused) {
			t.Errorf("%T: %v", err, err)
		}
	})
}
