package servers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/door"
	"github.com/gvrwatch/gvrwatch/internal/testing/servers"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestPersonalities: what a client sees. Five objects exist: one/a@2, one/b@3, one/c@4, two/a@5, two/g@6. At 1 s
// one/d@7 is created, at 2 s one/c is deleted (8), at 3 s one/a is changed (9), at 60 s two/g is deleted (10).
func TestPersonalities(t *testing.T) {
	const list, watch = "/apis/example.com/v1/widgets?limit=500",
		"/apis/example.com/v1/widgets?allowWatchBookmarks=true&timeoutSeconds=90&watch=true&resourceVersion="
	tests := []struct {
		why      string
		server   servers.Personality
		begin    time.Duration
		requests string
		want     []string
	}{
		{"no rule is broken", servers.Personality{}, 10 * time.Second, list,
			[]string{"0s one/a@9 one/b@3 one/d@7 two/a@5 two/g@6 list@9"}},
		{"no rule is broken", servers.Personality{}, 0, watch + "6",
			[]string{"1s ADDED one/d@7", "2s DELETED one/c@8", "3s MODIFIED one/a@9", "1m0s BOOKMARK @9",
				"1m0s DELETED two/g@10", "1m28s BOOKMARK @10", "1m30s end"}},
		{"each object's versions are lowered by a number of its own", servers.Unordered(), 10 * time.Second, list,
			[]string{"0s one/a@7 one/b@1 one/d@1 two/a@1 two/g@1 list@9"}},
		{"and a list has the greatest of them", servers.UnorderedLists(), 10 * time.Second, list,
			[]string{"0s one/a@7 one/b@1 one/d@1 two/a@1 two/g@1 list@7"}},
		{"a new object has a version below that of an earlier event", servers.Unordered(), 0, watch + "6",
			[]string{"1s ADDED one/d@1", "2s DELETED one/c@4", "3s MODIFIED one/a@7", "1m0s BOOKMARK @9",
				"1m0s DELETED two/g@4", "1m28s BOOKMARK @10", "1m30s end"}},
		{"a list is newer than its version", servers.StaleLists(5), 10 * time.Second, list,
			[]string{"0s one/a@9 one/b@3 one/d@7 two/a@5 two/g@6 list@4"}},
		{"the last change was that of two/g", servers.GreatestItem(), 0, list,
			[]string{"0s one/a@2 one/b@3 one/c@4 two/a@5 two/g@6 list@6"}},
		{"the last change was a deletion", servers.GreatestItem(), 2500 * time.Millisecond, list,
			[]string{"0s one/a@2 one/b@3 one/d@7 two/a@5 two/g@6 list@7"}},
		{"a page has the version of the whole list", servers.GreatestItem(), 0, strings.ReplaceAll(list, "500", "1"),
			[]string{"0s one/a@2 list@6 more"}},
		{"the watch begins with what exists", servers.RestartsWatches(0), 2500 * time.Millisecond, watch + "8",
			[]string{"0s ADDED one/a@2", "0s ADDED one/b@3", "0s ADDED one/d@7", "0s ADDED two/a@5", "0s ADDED two/g@6",
				"500ms MODIFIED one/a@9", "57.5s DELETED two/g@10", "1m0s BOOKMARK @10", "1m28s BOOKMARK @10",
				"1m30s end"}},
		{"a list has no version", servers.NoListVersion(), 0, list,
			[]string{"0s one/a@2 one/b@3 one/c@4 two/a@5 two/g@6 list@"}},
		{"the bad object is in the list", servers.WebhookDown("g"), 0, list,
			[]string{"0s 500 conversion webhook for example.com/v1alpha1, Kind=Widget failed: cannot unmarshal"}},
		{"the bad object is on a later page", servers.WebhookDown("g"), 0, strings.ReplaceAll(list, "500", "1"),
			[]string{"0s one/a@2 list@6 more"}},
		{"the watch is silent until the bad object is gone", servers.WebhookDown("g"), 0, watch + "6",
			[]string{"1m0s ERROR Expired", "1m0s end"}},
		{"an object becomes bad while a watch is open", servers.WebhookDown("d"), 0, watch + "6",
			[]string{"1m30s end"}},
		{"events stop, bookmarks go on at the same version", servers.IgnoresTimeout(1500 * time.Millisecond), 0,
			watch + "6", []string{"1s ADDED one/d@7", "1m0s BOOKMARK @7", "2m0s BOOKMARK @7", "3m0s BOOKMARK @7"}},
		{"initial events are complete", servers.IgnoresTimeout(0), 0,
			watch + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", []string{"0s ADDED one/a@2",
				"0s ADDED one/b@3", "0s ADDED one/c@4", "0s ADDED two/a@5", "0s ADDED two/g@6", "0s BOOKMARK @6",
				"1m0s BOOKMARK @6", "2m0s BOOKMARK @6", "3m0s BOOKMARK @6"}},
		{"each byte takes a tenth of a second", servers.Drips(10), 10 * time.Second,
			strings.ReplaceAll(list, "500", "1"), []string{"43.1s one/a@9 list@9 more"}},
		{"the first two requests are refused by a gateway", servers.Gateway(), 10 * time.Second,
			list + " " + list + " " + list, []string{"0s 404 text/html", "0s 403 text/html",
				"0s one/a@9 one/b@3 one/d@7 two/a@5 two/g@6 list@9"}},
		{"pages without objects come first", servers.EmptyPages(2), 0, list + " next next",
			[]string{"0s list@6 more", "0s list@6 more", "0s one/a@2 one/b@3 one/c@4 two/a@5 two/g@6 list@6"}},
		{"a later page has empty ones before it", servers.EmptyPages(1), 0,
			strings.ReplaceAll(list, "500", "3") + " next next next",
			[]string{"0s list@6 more", "0s one/a@2 one/b@3 one/c@4 list@6 more", "0s list@6 more",
				"0s two/a@5 two/g@6 list@6"}},
		{"two objects have one name", servers.Namesakes("two", "one"), 0, list,
			[]string{"0s one/a@2 one/b@3 one/c@4 one/a@5 one/g@6 list@6"}},
	}
	for _, tt := range tests {
		t.Run(tt.server.Name+": "+tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				srv := objects()
				defer srv.Close()
				go change(srv)
				time.Sleep(tt.begin)
				client := &http.Client{Transport: door.Transport{Handler: tt.server.Before(srv)}}
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Second)
				defer cancel()
				next := ""
				for request := range strings.FieldsSeq(tt.requests) {
					if request == "next" {
						request = strings.Fields(tt.requests)[0] + "&continue=" + strings.ReplaceAll(next, " ", "%20")
					}
					got, next = see(ctx, t, client, request, got)
				}
				cancel()
				time.Sleep(time.Minute) // for change
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func widgets() gvr.Resource {
	r := gvr.Resource{Kind: "Widget", Namespaced: true}
	r.Group, r.Version, r.Resource = "example.com", "v1", "widgets"
	return r
}

func objects() *streamtest.Server {
	srv := streamtest.NewServer(widgets())
	for _, name := range []string{"one/a", "one/b", "one/c", "two/a", "two/g"} {
		namespace, name, _ := strings.Cut(name, "/")
		srv.Put(widgets(), namespace, name)
	}
	return srv
}

func change(srv *streamtest.Server) {
	time.Sleep(time.Second)
	srv.Put(widgets(), "one", "d")
	time.Sleep(time.Second)
	_, _ = srv.Delete(widgets(), "one", "c")
	time.Sleep(time.Second)
	srv.Put(widgets(), "one", "a", "spec.n=1")
	time.Sleep(57 * time.Second)
	_, _ = srv.Delete(widgets(), "two", "g")
}

// answer is a list, a Status or a frame.
type answer struct {
	Kind, Message, Type, Reason string
	Metadata                    struct{ Namespace, Name, ResourceVersion, Continue string }
	Items                       []answer
	Object                      *answer
}

func (a answer) String() string {
	if a.Kind == "Status" {
		return a.Reason
	}
	return strings.TrimPrefix(a.Metadata.Namespace+"/"+a.Metadata.Name, "/") + "@" + a.Metadata.ResourceVersion
}

// see sends a request, and returns what it sees with the time since.
func see(ctx context.Context, t *testing.T, c *http.Client, request string, seen []string) (all []string, next string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server"+request, nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	note := func(format string, args ...any) {
		seen = append(seen, fmt.Sprintf("%v %s", time.Since(began), fmt.Sprintf(format, args...)))
	}
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if kind := response.Header.Get("Content-Type"); !strings.Contains(kind, "json") {
		note("%d %s", response.StatusCode, kind)
		return seen, ""
	}
	for d := json.NewDecoder(response.Body); ; {
		var a answer
		switch err := d.Decode(&a); {
		case err == io.EOF && strings.Contains(request, "watch=true"):
			note("end")
			return seen, next
		case err != nil:
			return seen, next // the test ends it, or it was a list
		case a.Kind == "Status":
			note("%d %s", response.StatusCode, a.Message)
		case a.Object != nil:
			note("%s %v", a.Type, a.Object)
		default:
			text := ""
			for _, it := range a.Items {
				text += it.String() + " "
			}
			text += "list@" + a.Metadata.ResourceVersion
			if next = a.Metadata.Continue; next != "" {
				text += " more"
			}
			note("%s", text)
		}
	}
}
