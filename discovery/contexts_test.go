package discovery_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/discovery"
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

// TestPollsOfClientsWithoutContexts: a poll returns at once when its context ends, and the next one is not disturbed by
// what the first one still waits for.
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
			var calls atomic.Int32
			r := discovery.NewResolver(tt.make(func() {
				if calls.Add(1) == 1 {
					time.Sleep(time.Hour)
				}
				time.Sleep(time.Second)
			}), 0)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errEnough) })
			began := time.Now()
			if _, err := r.Resolve(ctx, gadgets.Ref()); !errors.Is(err, errEnough) || time.Since(began) != time.Second {
				t.Errorf("%s: got %v after %v, want the cause after 1s", tt.why, err, time.Since(began))
			}
			res, err := r.Resolve(t.Context(), gadgets.Ref())
			if err != nil || res.Kind != "Gadget" || time.Since(began) > 4*time.Second {
				t.Errorf("%s: then got %v, %v after %v, want Gadget", tt.why, res, err, time.Since(began))
			}
			time.Sleep(2 * time.Hour) // until the first call has returned
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

// TestPanicsOfClientsWithoutContexts: the caller receives a panic of its client, wherever the client was called.
func TestPanicsOfClientsWithoutContexts(t *testing.T) {
	for _, at := range []int{1, 2} { // the groups, the version
		calls := 0
		r := discovery.NewResolver(plainClient{answer: func() {
			if calls++; calls == at {
				panic("a bug")
			}
		}}, 0)
		func() {
			defer func() {
				if p := recover(); p != "a bug" {
					t.Errorf("call %d: got %v, want the panic", at, p)
				}
			}()
			_, err := r.Resolve(t.Context(), gadgets.Ref())
			t.Errorf("call %d: got %v, want a panic", at, err)
		}()
		calls = at
		if _, err := r.Resolve(t.Context(), gadgets.Ref()); err != nil {
			t.Errorf("after the panic: %v", err)
		}
	}
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
