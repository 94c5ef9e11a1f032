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

func TestAnswersAreKept(t *testing.T) {
	s := newAPIServer(t, cluster()...)
	r := discovery.NewResolver(s.client, nil)
	for range 10 {
		if _, err := r.Resolve(t.Context(), ref(t, "pods")); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Watchables(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.requestCount(); got != 2 {
		t.Errorf("%d requests, want 2: one for /api, one for /apis", got)
	}
}

func TestAnswersAreNotKept(t *testing.T) {
	s := newAPIServer(t, cluster()...)
	r := discovery.NewResolver(s.client, &discovery.Options{CacheFor: -1})
	for range 3 {
		if _, err := r.Resolve(t.Context(), ref(t, "pods")); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.requestCount(); got != 6 {
		t.Errorf("%d requests, want 6: two each time", got)
	}
}

func TestMissLooksAgain(t *testing.T) {
	s := newAPIServer(t, cluster()...)
	r := discovery.NewResolver(s.client, &discovery.Options{CacheFor: time.Hour})
	name := ref(t, "late.example.com")
	for range 2 {
		var notFound *discovery.NotFoundError
		if _, err := r.Resolve(t.Context(), name); !errors.As(err, &notFound) {
			t.Fatalf("got %v, want a *NotFoundError", err)
		}
	}
	s.add("late")
	if _, err := r.Resolve(t.Context(), name); err != nil {
		t.Errorf("a type added a moment ago: %v", err)
	}
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

// heldClient serves one group, when it is told to go on.
type heldClient struct {
	clientdiscovery.AggregatedDiscoveryInterface
	goOn  chan bool
	looks int
}

func (c *heldClient) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	c.looks++
	<-c.goOn
	return &metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "example.com/v1", Version: "v1"}}}}},
		map[schema.GroupVersion]*metav1.APIResourceList{{Group: "example.com", Version: "v1"}: {GroupVersion: "example.com/v1"}}, nil, nil
}

func TestGivingUpDoesNotSpoilOthers(t *testing.T) {
	s := newAPIServer(t, cluster()...)
	r := discovery.NewResolver(s.client, nil)
	reading := make(chan bool)
	var once sync.Once
	s.respond = func(_ http.ResponseWriter, req *http.Request) bool {
		first := false
		once.Do(func() { first = true })
		if first {
			close(reading)
			<-req.Context().Done()
		}
		return first
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	why := errors.New("had enough")
	wg.Go(func() {
		if _, err := r.Resolve(ctx, ref(t, "pods")); !errors.Is(err, why) {
			t.Errorf("got %v, want the cause of the context", err)
		}
	})
	<-reading
	wg.Go(func() {
		if got, err := r.Resolve(t.Context(), ref(t, "pods")); err != nil {
			t.Errorf("somebody else gave up, not I: %v, %v", got, err)
		}
	})
	cancel(why)
	wg.Wait()
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
	if _, err := r.Watchables(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
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

func TestPanickingClientLeavesNobodyWaiting(t *testing.T) {
	s := newAPIServer(t, cluster()...)
	client := &panicsOnce{AggregatedDiscoveryInterface: s.client}
	r := discovery.NewResolver(client, nil)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = r.Resolve(t.Context(), ref(t, "pods"))
	}()
	if _, err := r.Resolve(t.Context(), ref(t, "pods")); err != nil {
		t.Error(err)
	}
}

type panicsOnce struct {
	clientdiscovery.AggregatedDiscoveryInterface
	done bool
}

func (p *panicsOnce) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	if !p.done {
		p.done = true
		panic("a client's mistake")
	}
	return p.AggregatedDiscoveryInterface.GroupsAndMaybeResources()
}
