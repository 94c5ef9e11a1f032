package e2e

import (
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// maxRightsDelay is how long a change of rights may go unnoticed at most.
const maxRightsDelay = 15 * time.Second

// permissions is what the limited user may list and watch, as tests switch it.
type permissions struct {
	mu         sync.Mutex
	cluster    bool
	namespaces []string
	crds       bool     // also CRDs
	denied     []string // resources, wherever
}

func (g *permissions) allow(a authorizer.Attributes) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !a.IsResourceRequest():
		return true // discovery
	case slices.Contains(g.denied, a.GetResource()):
		return false
	case a.GetResource() == "customresourcedefinitions":
		return g.crds
	}
	return g.cluster || slices.Contains(g.namespaces, a.GetNamespace())
}

func (g *permissions) set(cluster bool, namespaces ...string) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cluster, g.namespaces = cluster, namespaces
	return time.Now()
}

// deny forbids a resource altogether, or no resource.
func (g *permissions) deny(resources ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.denied = resources
}

func TestFollowRightsSwitchedLive(t *testing.T) {
	t.Parallel()
	// A watch that is open goes on when a right is revoked, so watches end often here.
	for _, test := range []struct {
		name, why string
		crds      bool
	}{
		{"CRDs may be watched", "kicked", true},
		{"CRDs may not be watched", "polling", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			switchRights(t, test.crds)
		})
	}
}

func switchRights(t *testing.T, crds bool) {
	rights := &permissions{cluster: true, crds: crds}
	srv := startServer(t, &devserver.Options{Allow: rights.allow})
	crd := devserver.CRD{Group: unique("rights") + ".example.com", Kind: "Thing", Namespaced: true}
	all := []string{"a", "b", "c", "d"}
	s := startWorkload(t, srv, crd, all...)
	f := followOn(t, srv.LimitedConfig(), follow.Selection{Resources: []string{s.source}, Candidates: all}, &follow.Options{
		Stream: func(gvr.Resource) stream.Options { return stream.Options{Timeout: time.Second} },
	})
	f.awaitSynced(s.source, 0)
	s.writer.start(25)
	s.awaitVersion(f, "v1")
	for _, step := range []struct {
		why        string
		cluster    bool
		namespaces []string
	}{
		{"two namespaces instead of the cluster", false, []string{"a", "b"}},
		{"one more", false, []string{"a", "b", "c"}},
		{"other ones", false, []string{"c", "d"}},
		{"one less", false, []string{"d"}},
		{"nothing at all", false, nil},
		{"something again", false, []string{"a"}},
		{"everything", true, nil},
		{"back and forth", false, []string{"b"}},
		{"and back", true, nil},
	} {
		since := rights.set(step.cluster, step.namespaces...)
		want := follow.Forbidden
		if step.cluster {
			want = follow.Watching
		}
		var took time.Duration
		if step.cluster || len(step.namespaces) > 0 {
			took = f.awaitState(s.source, want, step.namespaces...).at.Sub(since)
		} else {
			f.awaitEmpty(s)
			took = time.Since(since)
		}
		t.Logf("%s: %v %v after %v", step.why, want, step.namespaces, took)
		if took > maxRightsDelay {
			t.Errorf("%s: it took %v, more than %v", step.why, took, maxRightsDelay)
		}
		s.writer.await(12)
	}
	s.finish(true, map[string]*follower{"it": f})
	checkScopeGaps(t, f.eventsOf(s.source))
}

// checkScopeGaps checks that every GAP is due to rights: the server still knew everything.
func checkScopeGaps(t *testing.T, events []stream.Event) {
	t.Helper()
	for _, ev := range events {
		if ev.Gap != nil && ev.Gap.Reason != stream.GapScope {
			t.Errorf("%s, though the server still knew everything", streamtest.Text(ev))
		}
	}
}

// awaitEmpty waits until nothing is told any more, for two seconds.
func (f *follower) awaitEmpty(s *workload) {
	f.t.Helper()
	for began := time.Now(); time.Since(began) < timeout; {
		n := len(f.eventsOf(s.source))
		time.Sleep(2 * time.Second)
		if len(f.eventsOf(s.source)) == n {
			return
		}
	}
	f.t.Fatal("it is still told what may not be watched")
}
