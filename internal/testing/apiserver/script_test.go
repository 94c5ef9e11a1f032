package apiserver_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
)

func TestScriptErrors(t *testing.T) {
	tests := []struct {
		script, want string // a part of the error
		why          string
	}{
		{"watch 1 410", `line 1 of the script, "watch 1 410": missing colon`, "no colon"},
		{"\n# comment\nwatch x: 410", `line 3 of the script, "watch x: 410"`,
			"comments and empty lines count as lines"},
		{"watch 0: 410", `invalid WHICH "0": must be N, N-M, N-* or *`, "requests are counted from 1"},
		{"watch 3-2: 410", `invalid WHICH "3-2"`, "backwards"},
		{"watch: 410", "must be one of CLASS WHICH", "missing number"},
		{"gadgets watch 1: 410", `invalid words "gadgets watch 1"`, "an unknown resource"},
		{"wach 1: 410", `invalid CLASS "wach": must be list, page`, "an unknown trigger"},
		{"watch 1: explode", `invalid words "explode": must be one of CODE`, "an unknown fault"},
		{"watch 1: 200", `invalid words "200"`, "not an error code"},
		{"watch 1: 429 retry-after 1.5s", `invalid SECONDS "1.5s": must be whole seconds`,
			"Retry-After has whole seconds"},
		{"watch 1: close now", `invalid words "close now"`, "too many words"},
		{"watch 1: replay 0", `invalid N "0": must be a number from 1`, "not a count"},
		{"watch 1: slow soon", `invalid DURATION "soon": must be a duration`, "not a duration"},
		{"watch 1: no marker", `"no marker": must be one that happens to these requests`,
			"a fault of another kind of request"},
		{"list 1 after 2 frames: close", "inside a watch", "a list has no frames"},
		{"watch 1 after 2 frames: 410", "inside a watch", "the HTTP status was sent before"},
		{"change 7: 410", `"CODE": must be one that happens to a frame`, "an HTTP status is not a frame"},
		{"at 5s: 410", "must be one of compact, rewind N", "a fault of requests"},
		{"at 5s: widgets rewind 2", "whole server", "all resources share one counter"},
		{"widgets at 5s: compact", "whole server", "the same, with the resource in front"},
		{"at 5s: forbid fly", `invalid VERB "fly": must be all or one of create`, "not a verb"},
		{"at 5s: bookmarks every 0s", "whole seconds", "must be positive: use \"bookmarks never\""},
		{"watch 1: 410\nwatch 2: explode", "line 2", "a valid first line is not applied"},
	}
	for _, tc := range tests {
		t.Run(tc.script, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *apiserver.Server) {
				if err := srv.Apply(everything, tc.script); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("%s: got %v, want %s", tc.why, err, tc.want)
				}
				if seen := watchFor(t, srv, from("1"), 0); seen != nil {
					t.Errorf("a refused script caused %v", seen)
				}
			})
		})
	}
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		for _, what := range []string{"", "explode", "rewind", "gadgets delete crd", "widgets compact",
			"at 5s: compact"} {
			if err := srv.Do(everything, what); err == nil || !strings.Contains(err.Error(), strconv.Quote(what)) {
				t.Errorf("Do(%q) returned %v, want an error that quotes it", what, err)
			}
		}
	})
}

// No script causes a panic.
func FuzzScript(f *testing.F) {
	f.Add("widgets watch 1-2 in x after 3 frames: replay 2 # comment")
	f.Add("at 5s: rewind 3 restart\nchange 7: garbage\nat 1s: globes forbid watch in x")
	f.Add("any *: 429 retry-after 3s\nlist N: 410 Gone")
	f.Fuzz(func(_ *testing.T, script string) {
		srv := apiserver.NewServer(widgets, globes)
		defer srv.Close()
		_ = srv.Apply(everything, script)
		_ = srv.Do(everything, script)
	})
}
