package discovery_test

import (
	"context"
	"encoding/json"
	"errors"
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
)

func TestAnswersGrowOld(t *testing.T) {
	down := map[schema.GroupVersion]error{{Group: "down.example.com", Version: "v1"}: errors.New("down")}
	tests := []struct {
		failed map[schema.GroupVersion]error
		kept   time.Duration
		why    string
	}{
		{nil, time.Minute, "the default of CacheFor"},
		{down, 5 * time.Second, "what is missing may be back, and the better answer"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			client := &heldClient{goOn: make(chan bool), failed: tt.failed}
			close(client.goOn)
			r := discovery.NewResolver(client, nil)
			for _, step := range []struct {
				after time.Duration
				looks int
			}{{0, 1}, {tt.kept - 1, 1}, {1, 2}} {
				time.Sleep(step.after)
				if _, err := r.Resolve(t.Context(), ref(t, "gadgets")); err != nil {
					t.Fatal(err)
				}
				if client.looks != step.looks {
					t.Errorf("%v later: %d looks, want %d: %s", step.after, client.looks, step.looks, tt.why)
				}
			}
		})
	}
}

func TestWatchablesWantsAll(t *testing.T) {
	s := newAPIServer(t, cluster()...)
	s.down["apps/v1"] = true
	r := discovery.NewResolver(s.client, nil)
	if _, err := r.Watchables(t.Context()); err == nil {
		t.Fatal("an incomplete list without an error")
	}
	s.change(func() { clear(s.down) })
	if _, err := r.Watchables(t.Context()); err != nil {
		t.Errorf("an incomplete look was used again: %v", err)
	}
}

func TestWhoeverLooksMayGiveUp(t *testing.T) {
	// Two wait for a look that has not begun. One of them makes it, and gives up:
	// the other must not be told that.
	synctest.Test(t, func(t *testing.T) {
		client := &heldClient{goOn: make(chan bool), lookers: make(chan context.Context, 9)}
		r := discovery.NewResolver(client, nil)
		type key struct{}
		ask := func(cancel context.CancelCauseFunc, ctx context.Context) chan error {
			done := make(chan error, 1)
			go func() {
				_, err := r.Resolve(context.WithValue(ctx, key{}, cancel), ref(t, "gadgets"))
				done <- err
			}()
			return done
		}
		first := ask(nil, t.Context())
		<-client.lookers
		synctest.Wait()
		var asked []chan error
		for range 2 {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			asked = append(asked, ask(cancel, ctx))
		}
		synctest.Wait()
		client.fail(errors.New("the first look fails"))
		if err := <-first; err == nil {
			t.Error("the first look was to fail")
		}
		looker := <-client.lookers
		synctest.Wait()
		looker.Value(key{}).(context.CancelCauseFunc)(errEnough)
		<-client.lookers // the other one looks
		close(client.goOn)
		var failed int
		for _, done := range asked {
			if err := <-done; errors.Is(err, errEnough) {
				failed++
			} else if err != nil {
				t.Error(err)
			}
		}
		if failed != 1 {
			t.Errorf("%d gave up, want 1", failed)
		}
	})
}

func TestPanicLeavesNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &heldClient{goOn: make(chan bool), lookers: make(chan context.Context, 9)}
		r := discovery.NewResolver(client, nil)
		results := make(chan any, 2)
		ask := func() {
			defer func() {
				if p := recover(); p != nil {
					results <- p
				}
			}()
			_, err := r.Resolve(t.Context(), ref(t, "gadgets"))
			results <- err
		}
		go ask()
		<-client.lookers
		go ask()
		synctest.Wait()
		client.panicNext = true
		client.goOn <- true
		if got := <-results; got != "a client's mistake" {
			t.Errorf("the one who looked got %v, want the panic", got)
		}
		<-client.lookers
		close(client.goOn)
		if got := <-results; got != nil {
			t.Errorf("the other one got %v", got)
		}
	})
}

func TestMissJoinsOnlyALaterLook(t *testing.T) {
	// A look that is under way when the question comes may have read the
	// documents before the type was added, so it can't answer "not found".
	s := newAPIServer(t, cluster()...)
	r := discovery.NewResolver(s.client, nil)
	reading, goOn := make(chan bool), make(chan bool)
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
			<-goOn
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
			t.Errorf("asked after it was added, answered from a look begun before: %v", err)
		}
	})
	close(goOn)
	wg.Wait()
}

func TestManyMissesShareLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &heldClient{goOn: make(chan bool)}
		r := discovery.NewResolver(client, nil)
		var wg sync.WaitGroup
		ask := func() {
			var notFound *discovery.NotFoundError
			if _, err := r.Resolve(t.Context(), ref(t, "quuxes")); !errors.As(err, &notFound) {
				t.Errorf("got %v, want a *NotFoundError", err)
			}
		}
		wg.Go(ask)
		synctest.Wait() // it is looking
		for range 100 {
			wg.Go(ask)
		}
		synctest.Wait() // all have asked
		close(client.goOn)
		wg.Wait()
		if client.looks != 2 {
			t.Errorf("%d looks for 101 questions, want 2: the first one's, and one that began after all the others asked", client.looks)
		}
	})
}

// heldClient serves gadgets, each time it is told to go on.
type heldClient struct {
	clientdiscovery.DiscoveryInterfaces
	goOn      chan bool
	lookers   chan context.Context // who looks, if anybody wants to know
	looks     int
	panicNext bool
	err       error
	failed    map[schema.GroupVersion]error
}

// fail ends the look that is held with an error.
func (c *heldClient) fail(err error) {
	c.err = err
	c.goOn <- true
}

func (c *heldClient) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	return c.GroupsAndMaybeResourcesWithContext(context.Background())
}

func (c *heldClient) GroupsAndMaybeResourcesWithContext(ctx context.Context) (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	c.looks++
	if c.lookers != nil {
		c.lookers <- ctx
	}
	select {
	case <-c.goOn:
	case <-ctx.Done():
		return nil, nil, nil, ctx.Err()
	}
	if c.panicNext {
		c.panicNext = false
		panic("a client's mistake")
	}
	if err := c.err; err != nil {
		c.err = nil
		return nil, nil, nil, err
	}
	return &metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "example.com/v1", Version: "v1"}}}}},
		map[schema.GroupVersion]*metav1.APIResourceList{
			{Group: "example.com", Version: "v1"}: {GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{namespaced("gadgets", "gadget", "Gadget")}},
		}, c.failed, nil
}

func TestCutShortIsNotDown(t *testing.T) {
	// In the legacy form a context that ends makes every version fail. That must
	// not be kept as "these APIs are down".
	s := newAPIServer(t, cluster()...)
	s.legacy = true
	r := discovery.NewResolver(s.client, nil)
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
		t.Errorf("got %v, want context.Canceled and nothing about the server", err)
	}
	s.change(func() { s.respond = nil })
	if _, err := r.Watchables(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestUnreadable(t *testing.T) {
	tests := []struct {
		status int
		is     func(error) bool
		why    string
	}{
		{http.StatusUnauthorized, apierrors.IsUnauthorized, "a wrong token is not an unknown kind"},
		{http.StatusForbidden, apierrors.IsForbidden, "neither is a refused right"},
		{http.StatusInternalServerError, apierrors.IsInternalError, "nor a server in trouble"},
	}
	for _, tt := range tests {
		s := newAPIServer(t, cluster()...)
		s.respond = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(tt.status)
			return true
		}
		r := discovery.NewResolver(s.client, nil)
		var unavailable *discovery.UnavailableError
		if _, err := r.Resolve(t.Context(), ref(t, "pods")); !errors.As(err, &unavailable) || !tt.is(err) {
			t.Errorf("%d: got %v, want an *UnavailableError that the predicate sees through: %s", tt.status, err, tt.why)
		}
		if _, err := r.Watchables(t.Context()); !errors.As(err, &unavailable) {
			t.Errorf("%d: Watchables: got %v", tt.status, err)
		}
	}
}

func TestDocumentOfAnothersName(t *testing.T) {
	// In the legacy form client-go believes a document about its own version.
	s := newAPIServer(t, cluster()...)
	s.legacy = true
	s.respond = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/apis/apps/v1" {
			return false
		}
		writeJSON(w, metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{namespaced("bads", "bad", "Bad")}})
		return true
	}
	r := discovery.NewResolver(s.client, nil)
	if got, err := r.Resolve(t.Context(), ref(t, "v1/pods")); err != nil || got.String() != "pods.v1" {
		t.Errorf("the core group is hidden: %v, %v", got, err)
	}
	var unavailable *discovery.UnavailableError
	for _, name := range []string{"deployments.apps", "bads"} {
		if got, err := r.Resolve(t.Context(), ref(t, name)); !errors.As(err, &unavailable) {
			t.Errorf("%s: got %v, %v, want an *UnavailableError", name, got, err)
		}
	}
}
