//go:build lab

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/mux/follow"
)

// A client that may send 50 requests a second finds the only namespace of 1,500 in which it has rights, and sends five
// a second afterwards. The namespaces are created once, and stay.
func TestLabLimitedClient(t *testing.T) {
	const namespaces, qps = 1500, 50
	admin := dynamic.NewForConfigOrDie(labConfig(t, "GVRWATCH_LAB_ADMIN"))
	name := func(i int) string { return fmt.Sprintf("many-%04d", i) }
	for i := range namespaces {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		o.SetName(name(i))
		_, err := admin.Resource(labNamespaces).Create(t.Context(), o, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	l := newLab(t, admin, schema.GroupResource{Resource: "configmaps"})
	l.grant("namespaces", "")
	l.grant("things", name(namespaces-1))
	cfg := labConfig(t, "GVRWATCH_LAB_LIMITED")
	cfg.QPS, cfg.Burst = qps, qps
	counted := &requestCounts{number: map[string]int{}}
	reviews := func() (n int) {
		counted.mu.Lock()
		defer counted.mu.Unlock()
		for what, number := range counted.number {
			if strings.HasPrefix(what, "POST selfsubject") {
				n += number
			}
		}
		return n
	}
	var state follow.ResourceStatus
	f := followOn(t, counted.wrap(cfg), follow.Selection{Resources: []string{"configmaps"}}, nil)
	find := func(why string, within time.Duration, is func(follow.ResourceStatus) bool) {
		t.Helper()
		from, asked := time.Now(), reviews()
		if !poll(t.Context(), within, func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			if n := len(f.states); n > 0 {
				state = f.states[n-1].ResourceStatus
				return is(state)
			}
			return false
		}) {
			t.Fatalf("%s: not found within %v: %+v", why, within, state)
		}
		t.Logf("%s: found after %v and %d reviews", why, time.Since(from), reviews()-asked)
	}
	in := func(names ...string) func(follow.ResourceStatus) bool {
		return func(s follow.ResourceStatus) bool { return slices.Equal(s.Namespaces, names) }
	}
	find("the last namespace", namespaces/qps*3/2*time.Second+20*time.Second, in(name(namespaces-1)))
	// From then on, or once the sweep has ended, the client sends at most five reviews a second.
	asked := reviews()
	if !poll(t.Context(), namespaces/qps*time.Second+time.Minute, func() bool {
		before := reviews()
		poll(t.Context(), 5*time.Second, func() bool { return reviews()-before > 5*5 })
		return reviews()-before <= 5*5
	}) {
		t.Fatalf("no rest after %d reviews since the right was found, of %d namespaces", reviews()-asked, namespaces)
	}
	from, asked := time.Now(), reviews()
	poll(t.Context(), 2*time.Minute, func() bool { return time.Since(from) >= time.Minute })
	rate := float64(reviews()-asked) / time.Since(from).Seconds()
	if t.Logf("at rest: %.2f reviews a second", rate); rate > 5 {
		t.Errorf("at rest %.2f reviews are sent in a second, want at most 5", rate)
	}
	l.make(labNamespaces, "", l.name("new"), map[string]any{})
	l.grant("things", l.name("new"))
	find("a new namespace", maxRightsDelay, in(l.name("new"), name(namespaces-1)))
	l.grant("things", "")
	find("the cluster", maxRightsDelay, func(s follow.ResourceStatus) bool { return s.State == follow.Watching })
	t.Log(counted)
}
