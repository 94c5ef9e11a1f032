package apiserver_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
)

// TestLinesThatCanNeverHappenAreRefused: the second script is applied after some lists of widgets.
func TestLinesThatCanNeverHappenAreRefused(t *testing.T) {
	tests := []struct {
		first  string
		lists  int
		second string
		by     string // the line that applies first; empty if the second script is valid
		why    string
	}{
		{"", 0, "list 1: 500\nlist 1: 503", "list 1: 500", "the first line counts"},
		{"list 1: 500", 0, "list 1: 500", "list 1: 500", "the same line twice happens once"},
		{"list 1: 500", 1, "list 1: 500", "", "the second line counts the requests after it"},
		{"list 2-5: 500", 1, "list 1-4: 503", "list 2-5: 500", "the same requests, although the numbers differ"},
		{"list 2-5: 500", 2, "list 1-4: 503", "", "its fourth request is the sixth of the first line"},
		{"list 2-5: 500", 0, "list 1-4: 503", "", "the first request is left"},
		{"list 1-3: 500", 0, "list *: 503", "", "the fourth request is left"},
		{"list *: 500", 0, "list 7: 503", "list *: 500", "a line for all requests"},
		{"list 3-*: 500", 0, "list 2: 503", "", "the second request is left"},
		{"list 3-*: 500", 1, "list 2-*: 503", "list 3-*: 500", "its second request is the third"},
		{"any *: 500", 0, "list 7: 503", "any *: 500", "any request is also any list"},
		{"list *: 500", 0, "any 7: 503", "", "requests that are no lists are left"},
		{"any 1: 500", 0, "list 1: 503", "", "the first list need not be the first request"},
		{"any *: no marker", 0, "watch 1: close\ninitial 1: close", "any *: no marker",
			"only a watch with initial events has a marker"},
		{"widgets list *: 500", 0, "globes list 1: 503", "", "another resource"},
		{"widgets list *: 500", 0, "list 1: 503", "", "the lists of globes are left"},
		{"list *: 500", 0, "widgets list 2: 503", "list *: 500", "all resources include this one"},
		{"list * in x: 500", 0, "list 1: 503", "", "other namespaces are left"},
		{"list *: 500", 0, "list 1 in x: 503", "list *: 500", "all namespaces include this one"},
		{"list 1: 500", 0, "list 1 in x: 503", "", "the first list in x need not be the first list"},
		{"watch 1: close", 0, "watch 1 after 3 frames: reset", "watch 1: close", "a closed watch has no frames"},
		{"watch 1 after 3 frames: reset", 0, "watch 1: close", "watch 1 after 3 frames: reset",
			"a watch has one fault, also if it is due later"},
		{"watch 1 after 3s: close", 0, "watch 2 after 3s: close", "", "another watch"},
		{"change 7: garbage", 0, "change 7: no kind", "change 7: garbage", "a frame has one fault"},
		{"change 7: garbage", 0, "change 8: garbage", "", "another frame"},
		{"at 5s: compact", 0, "at 5s: compact", "", "actions happen each time"},
		{"list *: 500\nat 0s: heal", 0, "list 1: 503", "", "heal ends the first line"},
	}
	for _, tt := range tests {
		bubble(t, func(t *testing.T, srv *apiserver.Server) {
			apply(t, srv, tt.first)
			for range tt.lists {
				_, _ = srv.Client().Resource(widgets.GroupVersionResource).List(t.Context(), metav1.ListOptions{})
			}
			want := "can never happen, because the earlier line \"" + tt.by + "\" applies first"
			switch err := srv.Apply(everything, tt.second); {
			case tt.by == "" && err != nil:
				t.Errorf("%q, %d lists, %q: %v: %s", tt.first, tt.lists, tt.second, err, tt.why)
			case tt.by != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%q, %d lists, %q: got %v, want %s: %s", tt.first, tt.lists, tt.second, err, want, tt.why)
			}
		})
	}
}

// TestCheckScriptNamesLinesWithoutEffect: a line has had an effect when its fault has happened, not when a request
// came for which it might have.
func TestCheckScriptNamesLinesWithoutEffect(t *testing.T) {
	tests := []struct {
		line  string
		fired bool
		why   string
	}{
		{"list 1: 500", true, "there is one list"},
		{"list 2: 503", false, "and no second"},
		{"globes list 1: 503", false, "nor one of globes"},
		{"watch 1 after 2 frames: close", true, "the watch has three frames"},
		{"watch 1 after 3 frames: garbage", false, "there is no fourth frame to break"},
		{"watch 1 after 5s: close", true, "the watch lasts ten seconds"},
		{"watch 1 after 30s: close", false, "the watch ends before"},
		{"watch 1: slow 1s", true, "it slows each frame"},
		{"change 3: garbage", true, "the watch sends the third revision"},
		{"change 9: garbage", false, "there is no such revision"},
		{"at 5s: compact", true, "its time has come"},
		{"at 1h: compact", false, "its time has not"},
		{"list 1: 500\nat 1s: heal", true, "a fault that has happened before"},
		{"list 2: 500 # comment\nat 1s: heal", false, "a line that is canceled never happens"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			srv := apiserver.NewServer(widgets, globes)
			for _, name := range []string{"a", "b", "c"} {
				srv.Put(widgets, "x", name)
			}
			apply(t, srv, tt.line)
			_, _ = srv.Client().Resource(widgets.GroupVersionResource).List(t.Context(), metav1.ListOptions{})
			watchFor(t, srv, from("1"), 10*time.Second)
			first, _, _ := strings.Cut(tt.line, "\n")
			first, _, _ = strings.Cut(first, " #")
			switch err := srv.CheckScript(); {
			case tt.fired && err != nil:
				t.Errorf("%q: %v: %s", tt.line, err, tt.why)
			case !tt.fired && (err == nil || !strings.HasSuffix(err.Error(), "no effect:\n\t"+first)):
				t.Errorf("%q: got %v, want that line: %s", tt.line, err, tt.why)
			}
		})
	}
}
