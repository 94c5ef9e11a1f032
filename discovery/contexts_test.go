package discovery_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
)

// plainClient has the methods of a client before client-go 0.37, without contexts. Each call waits for answer.
type plainClient struct {
	clientdiscovery.DiscoveryInterface
	answer func() // may hang or panic
}

func (c plainClient) ServerGroups() (*metav1.APIGroupList, error) {
	c.answer()
	return &metav1.APIGroupList{Groups: []metav1.APIGroup{{
		Name:     "other.example.com",
		Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "other.example.com/v1", Version: "v1"}},
	}}}, nil
}

func (c plainClient) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	c.answer()
	return &metav1.APIResourceList{
		GroupVersion: gv, APIResources: []metav1.APIResource{namespaced("gadgets", "gadget", "Gadget")},
	}, nil
}

// aggregatedClient reads aggregated discovery, too.
type aggregatedClient struct{ plainClient }

func (c aggregatedClient) GroupsAndMaybeResources() (*metav1.APIGroupList, documents, failedAPIs, error) {
	groups, _ := c.ServerGroups()
	list, err := c.ServerResourcesForGroupVersion("other.example.com/v1")
	return groups, documents{{Group: "other.example.com", Version: "v1"}: list}, nil, err
}

// contextClient has methods with contexts, as client-go's clients since 0.37, without being one of them.
type contextClient struct {
	plainClient
	ctx func(context.Context) error // the answer, with the context of the caller
}

func (c contextClient) ServerGroupsWithContext(ctx context.Context) (*metav1.APIGroupList, error) {
	if err := c.ctx(ctx); err != nil {
		return nil, err
	}
	return c.ServerGroups()
}

func (c contextClient) ServerResourcesForGroupVersionWithContext(
	ctx context.Context, gv string,
) (*metav1.APIResourceList, error) {
	if err := c.ctx(ctx); err != nil {
		return nil, err
	}
	return c.ServerResourcesForGroupVersion(gv)
}

// TestPollsOfClientsWithoutContexts: a poll returns at once when its context ends, and no call of the client is made
// beside the one that goes on.
func TestPollsOfClientsWithoutContexts(t *testing.T) {
	errEnough := errors.New("enough")
	for _, tt := range []struct {
		why  string
		make func(answer func()) clientdiscovery.DiscoveryInterface
	}{
		{"a document for each version", func(answer func()) clientdiscovery.DiscoveryInterface {
			return plainClient{answer: answer}
		}},
		{"aggregated discovery", func(answer func()) clientdiscovery.DiscoveryInterface {
			return aggregatedClient{plainClient{answer: answer}}
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var calls, running atomic.Int32
			r := discovery.NewResolver(tt.make(func() {
				if running.Add(1) > 1 {
					t.Errorf("%s: the client is called twice at once", tt.why)
				}
				if calls.Add(1) == 1 {
					time.Sleep(time.Hour)
				}
				running.Add(-1)
			}), 0)
			began := time.Now()
			for range 100 { // the first one calls the client, and the others wait for it
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errEnough)
				if _, err := r.Resolve(ctx, gadgets.Ref()); !errors.Is(err, errEnough) {
					t.Errorf("%s: got %v, want the cause", tt.why, err)
				}
				cancel()
			}
			if took := time.Since(began); took != 100*time.Second {
				t.Errorf("%s: returned after %v, want a second each", tt.why, took/100)
			}
			res, err := r.Resolve(t.Context(), gadgets.Ref())
			if took := time.Since(began); err != nil || res.Kind != "Gadget" || took != time.Hour {
				t.Errorf("%s: got %v, %v after %v, want Gadget once the client has returned", tt.why, res, err, took)
			}
		})
	}
}

// TestPollsPassContextsOn: a client that takes contexts gets the one of the caller, whoever made the client.
func TestPollsPassContextsOn(t *testing.T) {
	type key struct{}
	var seen []any
	c := contextClient{plainClient{answer: func() {}}, func(ctx context.Context) error {
		seen = append(seen, ctx.Value(key{}))
		return context.Cause(ctx)
	}}
	r := discovery.NewResolver(c, -1)
	if _, err := r.Resolve(context.WithValue(t.Context(), key{}, "mine"), gadgets.Ref()); err != nil {
		t.Error(err)
	}
	if len(seen) != 2 || seen[0] != "mine" || seen[1] != "mine" {
		t.Errorf("the client got contexts with %v, want two with the caller's value", seen)
	}
}

// TestPanicsOfClientsWithoutContexts: the caller receives a panic of its client, wherever the client was called. To end
// the goroutine, as t.FailNow does, is one.
func TestPanicsOfClientsWithoutContexts(t *testing.T) {
	for _, tt := range []struct {
		why   string
		fails func()
		want  any
	}{
		{"a panic", func() { panic("a bug") }, "a bug"},
		{"the end of the goroutine", runtime.Goexit, "the client called runtime.Goexit"},
	} {
		for _, at := range []int32{1, 2} { // the groups, the version
			var calls atomic.Int32
			r := discovery.NewResolver(plainClient{answer: func() {
				if calls.Add(1) == at {
					tt.fails()
				}
			}}, 0)
			func() {
				defer func() {
					if p := recover(); p != tt.want {
						t.Errorf("%s in call %d: got %v, want %v", tt.why, at, p, tt.want)
					}
				}()
				_, err := r.Resolve(t.Context(), gadgets.Ref())
				t.Errorf("%s in call %d: got %v, want a panic", tt.why, at, err)
			}()
			if _, err := r.Resolve(t.Context(), gadgets.Ref()); err != nil {
				t.Errorf("%s in call %d, afterwards: %v", tt.why, at, err)
			}
		}
	}
}

// halfClient takes contexts, but not for aggregated discovery, which a Resolver prefers.
type halfClient struct {
	contextClient
	aggregated aggregatedClient
}

func (c halfClient) GroupsAndMaybeResources() (*metav1.APIGroupList, documents, failedAPIs, error) {
	return c.aggregated.GroupsAndMaybeResources()
}

func TestAClientWithHalfOfTheContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain := plainClient{answer: func() { time.Sleep(time.Minute) }}
		r := discovery.NewResolver(halfClient{
			contextClient{plain, func(context.Context) error { return nil }}, aggregatedClient{plain},
		}, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := r.Resolve(ctx, gadgets.Ref()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("returned after %v, want a second", took)
		}
		time.Sleep(time.Hour) // until the client has returned
	})
}

// TestNoDocumentsAreReadAlone: a client that reads no aggregated documents may return an empty map of them.
func TestNoDocumentsAreReadAlone(t *testing.T) {
	r := discovery.NewResolver(noDocuments{plainClient{answer: func() {}}}, 0)
	if res, err := r.Resolve(t.Context(), gadgets.Ref()); err != nil || res.Kind != "Gadget" {
		t.Errorf("got %v, %v, want Gadget", res, err)
	}
}

type noDocuments struct{ plainClient }

func (c noDocuments) GroupsAndMaybeResources() (*metav1.APIGroupList, documents, failedAPIs, error) {
	groups, err := c.ServerGroups()
	return groups, documents{}, failedAPIs{}, err
}

// TestNoGroupsAreNoAnswer: a client that returns nothing at all has not said that nothing is served.
func TestNoGroupsAreNoAnswer(t *testing.T) {
	r := discovery.NewResolver(emptyClient{}, 0)
	var unavailable *discovery.UnavailableError
	if _, err := r.Resolve(t.Context(), gadgets.Ref()); !errors.As(err, &unavailable) {
		t.Errorf("got %v, want an *UnavailableError", err)
	}
}

type emptyClient struct {
	clientdiscovery.DiscoveryInterface
}

func (emptyClient) GroupsAndMaybeResources() (
	*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, failedAPIs, error,
) {
	return nil, nil, nil, nil
}

// partlyClient returns a part of what a version serves, and an error.
type partlyClient struct {
	plainClient
	err error
}

func (c partlyClient) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	list, _ := c.plainClient.ServerResourcesForGroupVersion(gv)
	return list, c.err
}

// TestAPartOfADocumentCounts: what is in a list that comes with an error is served, and what is not may be.
func TestAPartOfADocumentCounts(t *testing.T) {
	errPartly := errors.New("not all could be read")
	r := discovery.NewResolver(partlyClient{plainClient{answer: func() {}}, errPartly}, 0)
	if res, err := r.Resolve(t.Context(), gadgets.Ref()); err != nil || res.Kind != "Gadget" {
		t.Errorf("got %v, %v, want Gadget", res, err)
	}
	other := gvr.Ref{Group: "other.example.com", Name: "others"}
	if res, err := r.Resolve(t.Context(), other); !errors.Is(err, errPartly) {
		t.Errorf("got %v, %v, want the error of the list", res, err)
	}
}
