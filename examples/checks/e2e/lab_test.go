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

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// labConfig reads the kubeconfig that an environment variable names. Tests of the lab need a full kube-apiserver with
// RBAC: GVRWATCH_LAB_ADMIN names the kubeconfig of its administrator, GVRWATCH_LAB_LIMITED that of the user "limited",
// which has no rights (see CONTRIBUTING.md).
func labConfig(t *testing.T, variable string) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv(variable))
	if err != nil {
		t.Fatalf("%s must name a kubeconfig: %v", variable, err)
	}
	cfg.QPS = -1
	return cfg
}

// lab grants and revokes rights, and deletes all that it created when the test ends.
type lab struct {
	t        *testing.T
	client   dynamic.Interface
	prefix   string
	resource schema.GroupResource
}

var (
	rbac                = schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	clusterRoles        = rbac.WithResource("clusterroles")
	clusterRoleBindings = rbac.WithResource("clusterrolebindings")
	roleBindings        = rbac.WithResource("rolebindings")
	labNamespaces       = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// clusterOf returns the identity of a cluster.
func clusterOf(ctx context.Context, cfg *rest.Config) (checkpoint.Cluster, error) {
	cluster, err := gvrwatch.Connect(cfg)
	if err != nil {
		return checkpoint.Cluster{}, err
	}
	return cluster.Cluster(ctx)
}

func newLab(t *testing.T, client dynamic.Interface, resource schema.GroupResource) *lab {
	l := &lab{t: t, client: client, prefix: fmt.Sprintf("e2e-%d-%d", os.Getpid(), uniques.Add(1)), resource: resource}
	l.role("things", resource.Group, resource.Resource)
	l.role("namespaces", "", "namespaces")
	return l
}

// make creates an object, and deletes it when the test ends.
func (l *lab) make(r schema.GroupVersionResource, ns, name string, content map[string]any) {
	l.t.Helper()
	o := &unstructured.Unstructured{Object: content}
	o.SetName(name)
	o.SetAPIVersion(r.GroupVersion().String())
	kind := map[string]string{
		"clusterroles": "ClusterRole", "clusterrolebindings": "ClusterRoleBinding", "rolebindings": "RoleBinding",
		"namespaces": "Namespace",
	}
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

// grant binds a role in a namespace, or across the cluster if the namespace is empty.
func (l *lab) grant(of, ns string) {
	l.t.Helper()
	if ns == "" {
		l.make(clusterRoleBindings, "", l.name(of), l.binding(of))
	} else {
		l.make(roleBindings, ns, l.name(of), l.binding(of))
	}
}

// awaitGrants waits until the server's authorizer has the new roles.
func (l *lab) awaitGrants(limited dynamic.Interface, crd devserver.CRD, listed bool) {
	l.t.Helper()
	resources := []schema.GroupVersionResource{crd.Resource()}
	if listed {
		resources = append(resources, labNamespaces)
	}
	for _, r := range resources {
		var err error
		if !poll(l.t.Context(), timeout, func() bool {
			_, err = limited.Resource(r).List(l.t.Context(), metav1.ListOptions{Limit: 1})
			return err == nil
		}) {
			l.t.Fatalf("%s can't be listed with the new roles: %v", r, err)
		}
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

// requestCounts counts requests by method and the last part of their path.
type requestCounts struct {
	mu     sync.Mutex
	number map[string]int
}

func (a *requestCounts) wrap(cfg *rest.Config) *rest.Config {
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

func (a *requestCounts) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, k := range slices.Sorted(maps.Keys(a.number)) {
		all = append(all, fmt.Sprint(a.number[k], " ", k))
	}
	return strings.Join(all, ", ")
}

func TestLabRightsChange(t *testing.T) {
	for _, test := range []struct {
		why           string
		listed        bool
		customObjects bool
	}{
		{"a new namespace is found if namespaces may be listed", true, true},
		{"candidates replace the list of namespaces", false, true},
		{"a built-in resource is followed like a custom one", true, false},
	} {
		t.Run(test.why, func(t *testing.T) { labRights(t, test.listed, test.customObjects) })
	}
}

func labRights(t *testing.T, listed, custom bool) {
	admin := labConfig(t, "GVRWATCH_LAB_ADMIN")
	limited := labConfig(t, "GVRWATCH_LAB_LIMITED")
	d := &definitions{t, dynamic.NewForConfigOrDie(admin)}
	group := fmt.Sprintf("lab%d-%d.example.com", os.Getpid(), uniques.Add(1))
	crd := devserver.CRD{Group: group, Kind: "Thing", Namespaced: true}
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
		sel.CandidateNamespaces = append(all, e)
	}
	l.awaitGrants(dynamic.NewForConfigOrDie(limited), crd, listed)
	counted := &requestCounts{number: map[string]int{}}
	f := followOn(t, counted.wrap(limited), sel, &follow.Options{
		Source: shortWatches,
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
			t.Errorf("%s: Follow took %v, want at most %v", why, took, maxRightsDelay)
		}
		s.writer.await(50)
	}
	l.grant("things", a)
	l.grant("things", b)
	l.revoke("things", "")
	step("two namespaces instead of the cluster", follow.Forbidden, a, b)
	l.grant("things", c)
	step("one more namespace", follow.Forbidden, a, b, c)
	l.revoke("things", a)
	step("one namespace less, while it is watched", follow.Forbidden, b, c)
	l.make(labNamespaces, "", e, map[string]any{})
	l.grant("things", e)
	step("a new namespace", follow.Forbidden, b, c, e)
	inE := s.inNewNamespace(admin, e)
	l.revoke("things", b)
	l.revoke("things", c)
	l.grant("things", dd)
	step("other namespaces", follow.Forbidden, dd, e)
	l.grant("things", "")
	step("the cluster again", follow.Watching)
	l.revoke("things", "")
	step("the namespaces again", follow.Forbidden, dd, e)
	l.grant("things", "")
	step("the cluster once more", follow.Watching)
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

// inNewNamespace makes 20 writes in a namespace that the workload's writer does not use.
func (s *workload) inNewNamespace(admin *rest.Config, ns string) []write {
	w := newWriter(s.t, admin, s.crd, ns)
	w.prefix = "new"
	for range 20 {
		w.writeOnce()
	}
	return w.written()
}
