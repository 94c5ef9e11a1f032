package discovery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestUnreadableServerIsUnavailable(t *testing.T) {
	tests := []struct {
		status int
		is     func(error) bool
		why    string
	}{
		{http.StatusUnauthorized, apierrors.IsUnauthorized, "an invalid token"},
		{http.StatusForbidden, apierrors.IsForbidden, "a missing permission"},
		{http.StatusInternalServerError, apierrors.IsInternalError, "a failing server"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(pods)
			defer srv.Close()
			apply(t, srv, fmt.Sprintf("discovery *: %d", tt.status))
			r := discovery.NewResolver(clients["client-go"](srv), 0)
			var unavailable *discovery.UnavailableError
			if _, err := r.Resolve(t.Context(), ref(t, "pods")); !errors.As(err, &unavailable) || !tt.is(err) {
				t.Errorf("%s: got %v, want an *UnavailableError that the predicate sees through", tt.why, err)
			}
			if _, err := r.Watchables(t.Context()); !errors.As(err, &unavailable) {
				t.Errorf("%s: Watchables: got %v, want an *UnavailableError", tt.why, err)
			}
		})
	}
}

func TestCacheExpires(t *testing.T) {
	down := failedAPIs{{Group: "down.example.com", Version: "v1"}: errors.New("down")}
	tests := []struct {
		failed failedAPIs
		reused time.Duration
		why    string
	}{
		{nil, time.Minute, "the default"},
		{down, 5 * time.Second, "an API that was down may be back, with a better match"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			client := &heldClient{resume: make(chan bool), failed: tt.failed}
			close(client.resume)
			r := discovery.NewResolver(client, 0)
			for _, step := range []struct {
				after time.Duration
				polls int
			}{{0, 1}, {tt.reused - 1, 1}, {1, 2}} {
				time.Sleep(step.after)
				if _, err := r.Resolve(t.Context(), ref(t, "gadgets")); err != nil {
					t.Fatal(err)
				}
				if client.polls != step.polls {
					t.Errorf("%v later: %d polls, want %d: %s", step.after, client.polls, step.polls, tt.why)
				}
			}
		})
	}
}

func TestWatchablesReusesNoIncompletePoll(t *testing.T) {
	srv := streamtest.NewServer(pods, widgets)
	defer srv.Close()
	do(t, srv, "discovery down example.com")
	r := discovery.NewResolver(clients["client-go"](srv), 0)
	if _, err := r.Watchables(t.Context()); err == nil {
		t.Fatal("an incomplete list without an error")
	}
	do(t, srv, "discovery up example.com")
	if _, err := r.Watchables(t.Context()); err != nil {
		t.Errorf("an incomplete poll was reused: %v", err)
	}
}

// Two callers wait for a poll that has not started. One of them runs it and is
// canceled: the other must poll itself.
func TestCanceledCallerDoesNotFailTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &heldClient{resume: make(chan bool), pollers: make(chan context.Context, 9)}
		r := discovery.NewResolver(client, 0)
		type key struct{}
		resolve := func(cancel context.CancelCauseFunc, ctx context.Context) chan error {
			done := make(chan error, 1)
			go func() {
				_, err := r.Resolve(context.WithValue(ctx, key{}, cancel), ref(t, "gadgets"))
				done <- err
			}()
			return done
		}
		first := resolve(nil, t.Context())
		<-client.pollers
		synctest.Wait()
		var waiting []chan error
		for range 2 {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			waiting = append(waiting, resolve(cancel, ctx))
		}
		synctest.Wait()
		client.fail(errors.New("no route"))
		if err := <-first; err == nil {
			t.Error("the first poll did not fail")
		}
		poller := <-client.pollers
		synctest.Wait()
		poller.Value(key{}).(context.CancelCauseFunc)(errStopped)
		<-client.pollers // the other caller polls
		close(client.resume)
		var canceled int
		for _, done := range waiting {
			if err := <-done; errors.Is(err, errStopped) {
				canceled++
			} else if err != nil {
				t.Error(err)
			}
		}
		if canceled != 1 {
			t.Errorf("%d callers were canceled, want 1", canceled)
		}
	})
}

func TestPanickingClientDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &heldClient{resume: make(chan bool), pollers: make(chan context.Context, 9)}
		r := discovery.NewResolver(client, 0)
		results := make(chan any, 2)
		resolve := func() {
			defer func() {
				if p := recover(); p != nil {
					results <- p
				}
			}()
			_, err := r.Resolve(t.Context(), ref(t, "gadgets"))
			results <- err
		}
		go resolve()
		<-client.pollers
		go resolve()
		synctest.Wait()
		client.panicNext = true
		client.resume <- true
		if got := <-results; got != "a bug in the client" {
			t.Errorf("the caller that polled got %v, want the panic", got)
		}
		<-client.pollers
		close(client.resume)
		if got := <-results; got != nil {
			t.Errorf("the other caller got %v", got)
		}
	})
}

// A poll that is running when Resolve is called may have read the documents before
// the type was added, so it cannot be the reason for a NotFoundError.
func TestNotFoundNeedsALaterPoll(t *testing.T) {
	s := newAPIServer(t, cluster()...)
	r := discovery.NewResolver(s.client, 0)
	reading, resume := make(chan bool), make(chan bool)
	var once sync.Once
	s.respond = func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != "/apis" {
			return false
		}
		answered := false
		once.Do(func() {
			answered = true
			s.mu.Lock()
			old := s.aggregated(s.groups[1:])
			s.mu.Unlock()
			close(reading)
			<-resume
			w.Header().Set("Content-Type", clientdiscovery.AcceptV2)
			_ = json.NewEncoder(w).Encode(old)
		})
		return answered
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = r.Resolve(t.Context(), ref(t, "pods"))
	})
	<-reading
	s.add("late")
	wg.Go(func() {
		if _, err := r.Resolve(t.Context(), ref(t, "late.example.com")); err != nil {
			t.Errorf("resolved from a poll that started before the type was added: %v", err)
		}
	})
	close(resume)
	wg.Wait()
}

func TestConcurrentCallsSharePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &heldClient{resume: make(chan bool)}
		r := discovery.NewResolver(client, 0)
		var wg sync.WaitGroup
		resolve := func() {
			var notFound *discovery.NotFoundError
			if _, err := r.Resolve(t.Context(), ref(t, "quuxes")); !errors.As(err, &notFound) {
				t.Errorf("got %v, want a *NotFoundError", err)
			}
		}
		wg.Go(resolve)
		synctest.Wait() // the first call polls
		for range 100 {
			wg.Go(resolve)
		}
		synctest.Wait() // all calls wait
		close(client.resume)
		wg.Wait()
		if client.polls != 2 {
			t.Errorf("%d polls for 101 calls, want 2: the first call's, and one after all others", client.polls)
		}
	})
}

// In legacy discovery, the end of ctx makes every remaining version fail. Those APIs
// are not down.
func TestCanceledPollReportsNoAPIDown(t *testing.T) {
	s := newAPIServer(t, cluster()...)
	s.legacy = true
	r := discovery.NewResolver(s.client, 0)
	ctx, cancel := context.WithCancel(t.Context())
	s.change(func() {
		s.respond = func(_ http.ResponseWriter, req *http.Request) bool {
			if req.URL.Path == "/apis/apps/v1" {
				cancel()
				<-req.Context().Done()
			}
			return false
		}
	})
	var unavailable *discovery.UnavailableError
	if _, err := r.Watchables(ctx); !errors.Is(err, context.Canceled) || errors.As(err, &unavailable) {
		t.Errorf("got %v, want context.Canceled and no *UnavailableError", err)
	}
	s.change(func() { s.respond = nil })
	if _, err := r.Watchables(t.Context()); err != nil {
		t.Error(err)
	}
}

// heldClient serves gadgets. It holds each poll until it receives from resume.
type heldClient struct {
	clientdiscovery.AggregatedDiscoveryInterface
	resume    chan bool
	pollers   chan context.Context // the ctx of each poll, if not nil
	polls     int
	panicNext bool
	err       error
	failed    failedAPIs
}

// fail ends the held poll with an error.
func (c *heldClient) fail(err error) {
	c.err = err
	c.resume <- true
}

func (c *heldClient) GroupsAndMaybeResources() (*metav1.APIGroupList, documents, failedAPIs, error) {
	return c.GroupsAndMaybeResourcesWithContext(context.Background())
}

func (c *heldClient) GroupsAndMaybeResourcesWithContext(
	ctx context.Context,
) (*metav1.APIGroupList, documents, failedAPIs, error) {
	c.polls++
	if c.pollers != nil {
		c.pollers <- ctx
	}
	select {
	case <-c.resume:
	case <-ctx.Done():
		return nil, nil, nil, ctx.Err()
	}
	if c.panicNext {
		c.panicNext = false
		panic("a bug in the client")
	}
	if err := c.err; err != nil {
		c.err = nil
		return nil, nil, nil, err
	}
	v1 := schema.GroupVersion{Group: "example.com", Version: "v1"}
	groups := &metav1.APIGroupList{Groups: []metav1.APIGroup{{
		Name:     v1.Group,
		Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: v1.String(), Version: v1.Version}},
	}}}
	gadgets := []metav1.APIResource{namespaced("gadgets", "gadget", "Gadget")}
	return groups, documents{v1: {GroupVersion: v1.String(), APIResources: gadgets}}, c.failed, nil
}
