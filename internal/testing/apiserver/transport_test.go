package apiserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
)

// open opens a watch without client-go, which hides how connections end.
func open(t *testing.T, ctx context.Context, rt http.RoundTripper, url string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		url+"/apis/example.com/v1/widgets?watch=true&resourceVersion=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	return rt.RoundTrip(r)
}

func TestClientSeesHowAWatchEnds(t *testing.T) {
	tests := []struct {
		script string
		end    error
		frames int
	}{
		{"watch 1 after 1 frame: close", nil, 1},
		{"watch 1 after 1 frame: reset", syscall.ECONNRESET, 1},
		{"watch 1 after 1 frame: reset inside frame", syscall.ECONNRESET, 1},
		{"watch 1: reset", syscall.ECONNRESET, 0},
	}
	for _, tc := range tests {
		check := func(t *testing.T, where string, srv *apiserver.Server, rt http.RoundTripper, url string) {
			srv.Put(widgets, "x", "a")
			srv.Put(widgets, "x", "b")
			apply(t, srv, tc.script)
			response, err := open(t, t.Context(), rt, url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			data, err := io.ReadAll(response.Body)
			frames := strings.Count(string(data), "\n")
			if !errors.Is(err, tc.end) || frames != tc.frames {
				t.Errorf("%s, %s: %d frames, then %v; want %d, %v", tc.script, where, frames, err, tc.frames, tc.end)
			}
			inside := !strings.HasSuffix(string(data), "\n") && len(data) > 0
			if want := strings.HasSuffix(tc.script, "inside frame"); inside != want {
				t.Errorf("%s, %s: ended inside a frame: %t, want %t", tc.script, where, inside, want)
			}
		}
		bubble(t, func(t *testing.T, srv *apiserver.Server) {
			check(t, "in memory", srv, srv.Config().Transport, "http://streamtest")
		})
		srv := apiserver.NewServer(widgets, globes)
		hs := httptest.NewServer(srv)
		t.Cleanup(hs.Close)
		check(t, "over TCP", srv, &http.Transport{DisableKeepAlives: true}, hs.URL)
	}
}

// A client over TCP sees the same as one in memory, except for refusals.
func TestTCPClientSeesTheSame(t *testing.T) {
	srv := apiserver.NewServer(widgets, globes)
	hs := httptest.NewServer(srv)
	t.Cleanup(hs.Close)
	t.Cleanup(srv.Close)
	client := dynamic.NewForConfigOrDie(&rest.Config{Host: hs.URL, QPS: -1}).Resource(widgets.GroupVersionResource)
	fourWidgets(srv)
	if got := listText(client.List(t.Context(), metav1.ListOptions{Limit: 3})); got != "@6: a@2 b@3 c@5 +1 ..." {
		t.Errorf("the list is %s", got)
	}
	w, err := client.Watch(t.Context(), initial())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var got []string
	for range 5 {
		got = append(got, eventText(<-w.ResultChan()))
	}
	srv.Put(widgets, "x", "e")
	got = append(got, eventText(<-w.ResultChan()))
	do(t, srv, "close watches")
	if _, open := <-w.ResultChan(); open {
		t.Error("the watch is still open")
	}
	want := []string{"ADDED a@2", "ADDED b@3", "ADDED c@5", "ADDED d@6", "BOOKMARK @6 end", "ADDED e@7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	apply(t, srv, "list *: refuse\nwatch 1: half-open")
	// Without client-go, which retries for ten seconds.
	if response, err := http.Get(hs.URL + "/apis/example.com/v1/widgets"); err == nil {
		t.Errorf("a refused list was answered with %d", response.StatusCode)
		_ = response.Body.Close()
	}
	silent, err := client.Watch(t.Context(), from("1"))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case ev := <-silent.ResultChan():
		t.Errorf("a half-open watch sent %v", ev)
	case <-time.After(20 * time.Millisecond):
	}
	silent.Stop()
}

func TestCloseResetsOpenWatches(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		apply(t, srv, "at 1h: compact\nwatch 1: half-open")
		for _, kind := range []string{"half-open", "open"} {
			response, err := open(t, t.Context(), srv.Config().Transport, "http://streamtest")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				defer func() { _ = response.Body.Close() }()
				if _, err := io.ReadAll(response.Body); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("the %s watch ended with %v", kind, err)
				}
			}()
		}
		synctest.Wait()
		srv.Close()
		srv.Close()
		synctest.Wait()
		if _, err := list(t, srv, "", metav1.ListOptions{}); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a list after Close: %v", err)
		}
	})
}

// The client that gives up gets the cause of its context.
func TestCanceledRequestEndsItsHandler(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		response, err := open(t, ctx, srv.Config().Transport, "http://streamtest")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		time.AfterFunc(time.Second, func() { cancel(cause) })
		if _, err := io.ReadAll(response.Body); !errors.Is(err, cause) {
			t.Errorf("reading ended with %v", err)
		}
		if _, err := open(t, ctx, srv.Config().Transport, "http://streamtest"); !errors.Is(err, cause) {
			t.Errorf("a request ended with %v", err)
		}
		if n := len(srv.Requests()); n != 1 {
			t.Errorf("the server has seen %d requests, want 1", n)
		}
	})
}

// A closed watch does not send the changes that it has not sent yet.
func TestCloseWatchDropsUnsent(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		response, err := open(t, t.Context(), srv.Config().Transport, "http://streamtest")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		for range 20 {
			srv.Put(widgets, "x", "a", "spec.padding="+strings.Repeat("x", 100<<10), "spec.n="+srv.ResourceVersion())
		}
		synctest.Wait()
		do(t, srv, "close watches")
		data, err := io.ReadAll(response.Body)
		if frames := strings.Count(string(data), "\n"); err != nil || frames == 0 || frames > 5 {
			t.Errorf("received %d of 20 changes, then %v", frames, err)
		}
	})
}

// The server waits for a client that does not read, and continues when it reads.
func TestServerWritesALimitedAmountAhead(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		response, err := open(t, t.Context(), srv.Config().Transport, "http://streamtest")
		if err != nil {
			t.Fatal(err)
		}
		padding := strings.Repeat("x", 100<<10)
		for range 20 {
			srv.Put(widgets, "x", "a", "spec.padding="+padding, "spec.n="+srv.ResourceVersion())
		}
		synctest.Wait()
		buffer := make([]byte, 10<<20)
		n, err := response.Body.Read(buffer)
		if err != nil || n > 400<<10 {
			t.Errorf("%d bytes were unread, %v", n, err)
		}
		var all int
		for all = n; all < 20*len(padding); all += n {
			if n, err = response.Body.Read(buffer); err != nil {
				t.Fatal(err)
			}
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		if _, err := response.Body.Read(buffer); err == nil {
			t.Error("a closed body can be read")
		}
	})
}
