package streamtest_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestScriptErrors(t *testing.T) {
	tests := []struct {
		script, want string // a part of the error
		why          string
	}{
		{"watch 1 410", `line 1 of the script, "watch 1 410": a colon is missing`, "no colon"},
		{"\n# comment\nwatch x: 410", `line 3 of the script, "watch x: 410"`, "lines are counted with comments and empty ones"},
		{"watch 0: 410", `invalid WHICH "0": must be N, N-M, N-* or *`, "requests are counted from 1"},
		{"watch 3-2: 410", `invalid WHICH "3-2"`, "backwards"},
		{"watch: 410", "must be one of CLASS WHICH", "which one is missing"},
		{"gadgets watch 1: 410", `invalid words "gadgets watch 1"`, "an unknown resource"},
		{"wach 1: 410", `invalid CLASS "wach": must be list, page`, "an unknown trigger"},
		{"watch 1: explode", `invalid words "explode": must be one of CODE`, "an unknown fault"},
		{"watch 1: 200", `invalid words "200"`, "no error"},
		{"watch 1: 429 retry-after 1.5s", `invalid SECONDS "1.5s": must be whole seconds`, "the header has only those"},
		{"watch 1: close now", `invalid words "close now"`, "more than there is to say"},
		{"watch 1: replay 0", `invalid N "0": must be a number from 1`, "none"},
		{"watch 1: slow soon", `invalid DURATION "soon": must be a duration`, "no duration"},
		{"watch 1: no marker", `"no marker" can't happen to these requests`, "a fault of another kind of request"},
		{"list 1 after 2 frames: close", "inside a watch", "lists have no frames"},
		{"watch 1 after 2 frames: 410", "inside a watch", "the status has been sent by then"},
		{"change 7: 410", `"CODE" can't happen to a frame`, "a status is no frame"},
		{"at 5s: 410", "must be one of compact, rewind N", "a fault of requests"},
		{"at 5s: widgets rewind 2", "whole server", "there is one counter"},
		{"widgets at 5s: compact", "whole server", "the same, in front"},
		{"at 5s: forbid fly", `invalid VERB "fly": must be all or one of create`, "no verb"},
		{"at 5s: bookmarks every 0s", "whole seconds", "never has a word of its own"},
		{"watch 1: 410\nwatch 2: explode", "line 2", "the first line is not applied either"},
	}
	for _, tc := range tests {
		t.Run(tc.script, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *streamtest.Server) {
				if err := srv.Apply(tc.script); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("%s: got %v, want %s", tc.why, err, tc.want)
				}
				if seen := watchFor(t, srv, from("1"), 0); seen != nil {
					t.Errorf("a script that was refused has done %v", seen)
				}
			})
		})
	}
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		for _, what := range []string{"", "explode", "rewind", "gadgets delete crd", "widgets compact", "at 5s: compact"} {
			if err := srv.Do(what); err == nil || !strings.Contains(err.Error(), strconv.Quote(what)) {
				t.Errorf("Do(%q) returned %v, want an error that shows it", what, err)
			}
		}
	})
}

// Whatever a script says, it is followed or refused, and never a panic.
func FuzzScript(f *testing.F) {
	f.Add("widgets watch 1-2 in x after 3 frames: replay 2 # comment")
	f.Add("at 5s: rewind 3 restart\nchange 7: garbage\nat 1s: globes forbid watch in x")
	f.Add("any *: 429 retry-after 3s\nlist N: 410 Gone")
	f.Fuzz(func(_ *testing.T, script string) {
		srv := streamtest.NewServer(widgets, globes)
		defer srv.Close()
		_ = srv.Apply(script)
		_ = srv.Do(script)
	})
}
