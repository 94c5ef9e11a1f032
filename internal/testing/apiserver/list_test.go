package apiserver_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
)

func list(t *testing.T, srv *apiserver.Server, namespace string,
	o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	t.Helper()
	return srv.Client().Resource(widgets.GroupVersionResource).Namespace(namespace).List(t.Context(), o)
}

// listText describes a list in one line: its version, its items, how many remain.
func listText(l *unstructured.UnstructuredList, err error) string {
	if err != nil {
		return errorText(err)
	}
	text := fmt.Sprintf("@%s: %s", l.GetResourceVersion(), strings.Join(texts(l.Items), " "))
	if n := l.GetRemainingItemCount(); n != nil {
		text += fmt.Sprintf(" +%d", *n)
	}
	if l.GetContinue() != "" {
		text += " ..."
	}
	return text
}

// a@2 web, b@3, c@5 (c@4 before) web, all in x; d@6 in y.
func fourWidgets(srv *apiserver.Server) {
	srv.Put(widgets, "x", "a", "labels.app=web", "spec.size=1")
	srv.Put(widgets, "x", "b", "spec.size=2")
	srv.Put(widgets, "x", "c")
	srv.Put(widgets, "x", "c", "labels.app=web", "spec.size=1")
	srv.Put(widgets, "y", "d", "spec.ref.kind=Pod")
}

func TestList(t *testing.T) {
	tests := []struct {
		namespace string
		options   metav1.ListOptions
		want, why string
	}{
		{"", metav1.ListOptions{}, "@6: a@2 b@3 c@5 d@6", "all, in the order of namespaces and names"},
		{"x", metav1.ListOptions{}, "@6: a@2 b@3 c@5", "one namespace; the version is that of the server"},
		{"z", metav1.ListOptions{}, "@6: ", "a namespace need not exist"},
		{"", metav1.ListOptions{LabelSelector: "app=web"}, "@6: a@2 c@5", ""},
		{"", metav1.ListOptions{LabelSelector: "app!=web"}, "@6: b@3 d@6", ""},
		{"", metav1.ListOptions{FieldSelector: "metadata.name=b"}, "@6: b@3", ""},
		{"", metav1.ListOptions{FieldSelector: "metadata.namespace!=x"}, "@6: d@6", ""},
		{"", metav1.ListOptions{FieldSelector: "spec.ref.kind=Pod"}, "@6: d@6", "a field selector may have any path"},
		{"", metav1.ListOptions{FieldSelector: "spec.size=1"}, "@6: a@2 c@5", "a field may be a number"},
		{"", metav1.ListOptions{FieldSelector: "spec.ref=x"}, "@6: ", "an object is not a value"},
		{"", metav1.ListOptions{Limit: 2}, "@6: a@2 b@3 +2 ...", "a page"},
		{"", metav1.ListOptions{Limit: 4}, "@6: a@2 b@3 c@5 d@6", "a page that holds everything"},
		{"x", metav1.ListOptions{Limit: 1}, "@6: a@2 +2 ...", "the remaining count is that of the namespace"},
		{"", metav1.ListOptions{Limit: 1, LabelSelector: "app=web"}, "@6: a@2 ...",
			"with a selector the remaining count is unknown"},
		{"", from("0"), "@6: a@2 b@3 c@5 d@6", "any version"},
		{"", from("3"), "@6: a@2 b@3 c@5 d@6", "not older than 3"},
		{"", metav1.ListOptions{ResourceVersion: "4", ResourceVersionMatch: "NotOlderThan"}, "@6: a@2 b@3 c@5 d@6", ""},
		{"", metav1.ListOptions{ResourceVersion: "4", ResourceVersionMatch: "Exact"}, "@4: a@2 b@3 c@4",
			"exactly version 4"},
		{"", metav1.ListOptions{ResourceVersion: "4", Limit: 500}, "@4: a@2 b@3 c@4",
			"with a limit Exact is the default"},
		{"", metav1.ListOptions{ResourceVersion: "0", ResourceVersionMatch: "Exact"}, "422 Invalid", ""},
		{"", metav1.ListOptions{ResourceVersionMatch: "NotOlderThan"}, "422 Invalid", "NotOlderThan needs a version"},
		{"", metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: "Newest"}, "422 Invalid", ""},
		{"", metav1.ListOptions{SendInitialEvents: new(bool)}, "422 Invalid", "sendInitialEvents is for watches"},
		{"", metav1.ListOptions{Continue: "abc"}, "400 BadRequest", "an invalid token"},
		{"", from("newest"), "400 BadRequest", "an invalid version"},
		{"", metav1.ListOptions{LabelSelector: "a b"}, "400 BadRequest", ""},
		{"", metav1.ListOptions{FieldSelector: "a"}, "400 BadRequest", ""},
	}
	for _, tc := range tests {
		bubble(t, func(t *testing.T, srv *apiserver.Server) {
			fourWidgets(srv)
			if diff := cmp.Diff(tc.want, listText(list(t, srv, tc.namespace, tc.options))); diff != "" {
				t.Errorf("%q %+v %s (-want +got):\n%s", tc.namespace, tc.options, tc.why, diff)
			}
		})
	}
}

// pages reads a list page by page, and calls between after the first page.
func pages(t *testing.T, srv *apiserver.Server, between func()) []string {
	t.Helper()
	var got []string
	o := metav1.ListOptions{Limit: 2}
	for len(got) < 4 {
		l, err := list(t, srv, "", o)
		got = append(got, listText(l, err))
		if err != nil {
			var status apierrors.APIStatus
			if o.Continue = ""; errors.As(err, &status) {
				o.Continue = status.Status().Continue
			}
		} else {
			o.Continue = l.GetContinue()
		}
		if o.Continue == "" {
			break
		}
		if len(got) == 1 {
			between()
		}
	}
	return got
}

func TestPages(t *testing.T) {
	first := "@6: a@2 b@3 +2 ..."
	tests := []struct {
		why, script string
		between     func(*apiserver.Server)
		want        []string
	}{
		{"all pages have the version of the first", "",
			func(srv *apiserver.Server) { srv.Put(widgets, "x", "c", "spec.size=9") },
			[]string{first, "@6: c@5 d@6"}},
		{"an expired token comes with an inconsistent one", "", func(srv *apiserver.Server) {
			srv.Put(widgets, "x", "c", "spec.size=9")
			srv.Compact("")
		}, []string{first, "410 Expired", "@7: c@7 d@6"}},
		{"compaction up to its version does not expire a token", "", func(srv *apiserver.Server) { srv.Compact("6") },
			[]string{first, "@6: c@5 d@6"}},
		{"a page of a newer state", "page 1: inconsistent pages",
			func(srv *apiserver.Server) { srv.Put(widgets, "x", "c", "spec.size=9") },
			[]string{first, "@7: c@7 d@6"}},
		{"a token that returns itself", "page *: token circle", func(*apiserver.Server) {},
			[]string{first, "@6: c@5 d@6 ...", "@6: c@5 d@6 ...", "@6: c@5 d@6 ..."}},
		{"a token that returns to the beginning", "list *: token circle", func(*apiserver.Server) {},
			[]string{first, first, "@6: c@5 d@6"}},
		{"a later page fails", "page 1: 500", func(*apiserver.Server) {}, []string{first, "500 InternalError"}},
		{"a later page expires", "page 1: 410", func(*apiserver.Server) {}, []string{first, "410 Expired"}},
		{"the server went back behind the version of the token", "",
			func(srv *apiserver.Server) { _ = srv.Do(everything, "rewind 3") },
			[]string{first, "500 InternalError"}},
	}
	for _, tc := range tests {
		t.Run(tc.why, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *apiserver.Server) {
				fourWidgets(srv)
				apply(t, srv, tc.script)
				if diff := cmp.Diff(tc.want, pages(t, srv, func() { tc.between(srv) })); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestListFaults(t *testing.T) {
	tests := []struct {
		script, want, why string
		limit             int64
	}{
		{"list 1: 410", "410 Expired", "", 0},
		{"list 1: stale 2", "@4: a@2 b@3 c@4", "a lagging replica", 0},
		{"list 1: stale 99", "@1: ", "as old as possible", 0},
		{"list 1: no version", "@: a@2 b@3 c@5 d@6", "", 0},
		{"list 1: slow 2s", "@6: a@2 b@3 c@5 d@6", "late", 0},
		{"list 1: refuse", `Get "http://streamtest/apis/example.com/v1/widgets": dial tcp: connect: connection refused`,
			"", 0},
		{"list 1: close", "0-length response", "an empty answer", 0},
		{"list 1: garbage", "invalid character", "", 0},
		{"list *: reset", "connection reset by peer", "", 0},
		{"any *: hang", "context deadline exceeded", "no answer at all", 0},
		{"list 1: half-open", "context deadline exceeded", "", 0},
		{"list 1: 503 plain", "503 ServiceUnavailable", "", 0},
		{"probe 1: 403\nlist *: 500", "403 Forbidden", "a probe is not a list", 1},
		{"list *: 500", "@6: a@2 +3 ...", "a probe is not a list", 1},
		{"at 0s: forbid list", "403 Forbidden", "", 0},
		{"at 0s: forbid list in x", "@6: a@2 b@3 c@5 d@6", "forbidden in another namespace", 0},
		{"at 0s: forbid watch", "@6: a@2 b@3 c@5 d@6", "another verb", 0},
		{"at 0s: forbid all\nat 0s: allow list", "@6: a@2 b@3 c@5 d@6", "the last action counts", 0},
		{"at 0s: forbid all\nat 0s: allow", "@6: a@2 b@3 c@5 d@6", "everything is allowed again", 0},
		{"at 0s: globes forbid all", "@6: a@2 b@3 c@5 d@6", "another resource", 0},
		{"at 0s: unauthorized", "401 Unauthorized", "", 0},
		{"at 0s: unauthorized\nat 0s: authorized", "@6: a@2 b@3 c@5 d@6", "", 0},
		{"at 1s: unauthorized", "@6: a@2 b@3 c@5 d@6", "not yet unauthorized", 0},
		{"at 0s: delete crd", "404 NotFound", "", 0},
		{"list 1: 500\nat 0s: unauthorized\nat 0s: heal", "@6: a@2 b@3 c@5 d@6", "healed", 0},
	}
	for _, tc := range tests {
		t.Run(tc.script, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *apiserver.Server) {
				fourWidgets(srv)
				apply(t, srv, tc.script)
				ctx, cancel := timeout(t, time.Minute)
				defer cancel()
				began := time.Now()
				client := srv.Client().Resource(widgets.GroupVersionResource)
				got := listText(client.List(ctx, metav1.ListOptions{Limit: tc.limit}))
				if !strings.Contains(got, tc.want) || strings.HasPrefix(tc.want, "@") && got != tc.want {
					t.Errorf("%s: got %s, want %s", tc.why, got, tc.want)
				}
				if strings.Contains(tc.script, "slow") && time.Since(began) != 2*time.Second {
					t.Errorf("the answer came after %s", time.Since(began))
				}
			})
		})
	}
}

func TestListWaitsThreeSecondsForItsVersion(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		later := time.AfterFunc(2*time.Second, func() { srv.Put(widgets, "x", "a") })
		defer later.Stop()
		if got := listText(list(t, srv, "", from("2"))); got != "@2: a@2" {
			t.Errorf("got %s, want the version that the list waits for", got)
		}
		before := time.Now()
		_, err := srv.Client().Resource(widgets.GroupVersionResource).List(t.Context(), from("9"))
		if !apierrors.IsTimeout(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("got %v, want: too large resource version", err)
		}
		if time.Since(before) < 3*time.Second {
			t.Errorf("the server gave up after %s", time.Since(before))
		}
	})
}
