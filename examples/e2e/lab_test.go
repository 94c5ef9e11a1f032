//go:build lab

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// These tests need a full kube-apiserver with RBAC: GVRWATCH_LAB_ADMIN names the
// kubeconfig of its administrator, GVRWATCH_LAB_LIMITED that of the user "limited",
// who has no right (see CONTRIBUTING.md).
func labConfig(t *testing.T, variable string) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv(variable))
	if err != nil {
		t.Fatalf("%s must name a kubeconfig: %v", variable, err)
	}
	cfg.QPS = -1
	return cfg
}

// lab grants and revokes, and takes everything back in the end.
type lab struct {
	t        *testing.T
	client   dynamic.Interface
	prefix   string
	resource schema.GroupResource
}

var (
	clusterRoles        = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	clusterRoleBindings = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
	roleBindings        = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
	labNamespaces       = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

func newLab(t *testing.T, client dynamic.Interface, resource schema.GroupResource) *lab {
	l := &lab{t: t, client: client, prefix: fmt.Sprintf("e2e-%d-%d", os.Getpid(), uniques.Add(1)), resource: resource}
	l.role("things", resource.Group, resource.Resource)
	l.role("namespaces", "", "namespaces")
	return l
}

// make creates an object that is deleted with the test.
func (l *lab) make(r schema.GroupVersionResource, ns, name string, content map[string]any) {
	l.t.Helper()
	o := &unstructured.Unstructured{Object: content}
	o.SetName(name)
	o.SetAPIVersion(r.GroupVersion().String())
	kind := map[string]string{"clusterroles": "ClusterRole", "clusterrolebindings": "ClusterRoleBinding", "rolebindings": "RoleBinding", "namespaces": "Namespace"}
	o.SetKind(kind[r.Resource])
	c := dynamic.ResourceInterface(l.client.Resource(r))
	if ns != "" {
		c = l.client.Resource(r).Namespace(ns)
	}
	if _, err := c.Create(l.t.Context(), o, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { l.remove(r, ns, name) })
}

func (l *lab) remove(r schema.GroupVersionResource, ns, name string) {
	l.t.Helper()
	c := dynamic.ResourceInterface(l.client.Resource(r))
	if ns != "" {
		c = l.client.Resource(r).Namespace(ns)
	}
	if err := c.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		l.t.Error(err)
	}
}

func (l *lab) name(of string) string { return l.prefix + "-" + of }

func (l *lab) role(of, group, resource string) {
	l.t.Helper()
	l.make(clusterRoles, "", l.name(of), map[string]any{"rules": []any{map[string]any{
		"apiGroups": []any{group}, "resources": []any{resource}, "verbs": []any{"list", "watch"},
	}}})
}

func (l *lab) binding(of string) map[string]any {
	return map[string]any{
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": l.name(of)},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}},
	}
}

// grant binds the role in a namespace, or if that is empty across the cluster.
func (l *lab) grant(of, ns string) {
	l.t.Helper()
	if ns == "" {
		l.make(clusterRoleBindings, "", l.name(of), l.binding(of))
	} else {
		l.make(roleBindings, ns, l.name(of), l.binding(of))
	}
}

func (l *lab) revoke(of, ns string) {
	l.t.Helper()
	if ns == "" {
		l.remove(clusterRoleBindings, "", l.name(of))
	} else {
		l.remove(roleBindings, ns, l.name(of))
	}
}

// asked counts requests by the last part of their path.
type asked struct {
	mu     sync.Mutex
	number map[string]int
}

func (a *asked) wrap(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			a.mu.Lock()
			a.number[r.Method+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
			a.mu.Unlock()
			return next.RoundTrip(r)
		})
	})
	return cfg
}

func (a *asked) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, k := range slices.Sorted(maps.Keys(a.number)) {
		all = append(all, fmt.Sprint(a.number[k], " ", k))
	}
	return strings.Join(all, ", ")
}

func TestLabRightsSwitchedLive(t *testing.T) {
	for _, test := range []struct {
		why           string
		listed        bool
		customObjects bool
	}{
		{"the namespaces may be listed, so a new one is found", true, true},
		{"they may not be, and are named instead", false, true},
		{"a resource of the server itself", true, false},
	} {
		t.Run(test.why, func(t *testing.T) { labRights(t, test.listed, test.customObjects) })
	}
}

func labRights(t *testing.T, listed, custom bool) {
	admin := labConfig(t, "GVRWATCH_LAB_ADMIN")
	limited := labConfig(t, "GVRWATCH_LAB_LIMITED")
	d := &definitions{t, dynamic.NewForConfigOrDie(admin)}
	crd := devserver.CRD{Group: fmt.Sprintf("lab%d-%d.example.com", os.Getpid(), uniques.Add(1)), Kind: "Thing", Namespaced: true}
	if custom {
		d.create(crd)
		t.Cleanup(func() {
			d.client.Resource(crdResource).Delete(context.Background(), crd.Object().GetName(), metav1.DeleteOptions{})
		})
	} else {
		crd = devserver.CRD{Kind: "ConfigMap", Namespaced: true}
	}
	l := newLab(t, d.client, crd.Resource().GroupResource())
	var all []string
	for _, n := range []string{"a", "b", "c", "d"} {
		all = append(all, l.name(n))
		l.make(labNamespaces, "", l.name(n), map[string]any{})
	}
	a, b, c, dd, e := all[0], all[1], all[2], all[3], l.name("e")
	s := &workload{definitions: d, crd: crd, source: sourceOf(crd)}
	l.grant("things", "")
	sel := follow.Selection{Resources: []string{"things." + crd.Group}}
	if !custom {
		sel.Resources = []string{"configmaps"}
	}
	if listed {
		l.grant("namespaces", "")
	} else {
		sel.Candidates = append(all, e)
	}
	time.Sleep(time.Second) // the server's RBAC takes a moment to know its roles
	counted := &asked{number: map[string]int{}}
	f := followOn(t, counted.wrap(limited), sel, &follow.Options{
		Stream: func(gvr.Resource) stream.Options { return stream.Options{Timeout: time.Second} },
	})
	f.awaitSynced(s.source, 0)
	existed := len(f.eventsOf(s.source))
	s.writer = newWriter(t, admin, crd, all...)
	s.writer.start(50)
	s.awaitVersion(f, "v1")
	step := func(why string, want follow.State, namespaces ...string) {
		t.Helper()
		began := time.Now()
		took := f.awaitState(s.source, want, namespaces...).at.Sub(began)
		t.Logf("%s: %s in %d namespaces after %v", why, want, len(namespaces), max(0, took))
		if took > maxRightsDelay {
			t.Errorf("%s: it took %v, more than %v", why, took, maxRightsDelay)
		}
		s.writer.await(50)
	}
	l.grant("things", a)
	l.grant("things", b)
	l.revoke("things", "")
	step("two namespaces instead of the cluster", follow.Forbidden, a, b)
	l.grant("things", c)
	step("one more", follow.Forbidden, a, b, c)
	l.revoke("things", a)
	step("one less, while it is watched", follow.Forbidden, b, c)
	l.make(labNamespaces, "", e, map[string]any{})
	l.grant("things", e)
	step("a new namespace", follow.Forbidden, b, c, e)
	inE := s.inNewNamespace(admin, e)
	l.revoke("things", b)
	l.revoke("things", c)
	l.grant("things", dd)
	step("other ones", follow.Forbidden, dd, e)
	l.grant("things", "")
	step("the cluster again", follow.Watching)
	l.revoke("things", "")
	step("and back", follow.Forbidden, dd, e)
	l.grant("things", "")
	step("and forth", follow.Watching)
	s.writer.stop()
	writes := append(s.writer.written(), inE...)
	f.awaitOutcome(s.source, writes)
	events := slices.DeleteFunc(f.eventsOf(s.source)[existed:], func(ev stream.Event) bool {
		return ev.Object != nil && !strings.HasPrefix(ev.Object.GetNamespace(), l.prefix)
	})
	gaps := checkDelivered(t, writes, events)
	t.Logf("%d writes, %d events, %d GAPs; %s", len(writes), len(events), gaps, counted)
	checkScopeGaps(t, events)
	if counted.number["POST selfsubjectrulesreviews"] == 0 {
		t.Error("SelfSubjectRulesReview was not used")
	}
}

// inNewNamespace writes a little where the writer does not.
func (s *workload) inNewNamespace(admin *rest.Config, ns string) []write {
	w := newWriter(s.t, admin, s.crd, ns)
	w.prefix = "new"
	for range 20 {
		w.writeOnce()
	}
	return w.written()
}
