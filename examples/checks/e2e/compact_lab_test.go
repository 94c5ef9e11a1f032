//go:build lab

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gvrwatch/gvrwatch/stream/informer"
)

// TestLabCompactCache: while the Pods of a kube-apiserver change, controller-runtime's cache on compact informers has
// what the same cache on client-go's has, and both have what the server has: typed, unstructured, and metadata.
func TestLabCompactCache(t *testing.T) {
	const pods = 200
	cfg := labConfig(t, "GVRWATCH_LAB_ADMIN")
	l := &lab{t: t, prefix: fmt.Sprintf("compact-%d-%d", time.Now().Unix(), uniques.Add(1))}
	api := kubernetes.NewForConfigOrDie(cfg).CoreV1().Pods(metav1.NamespaceDefault)
	t.Cleanup(func() {
		err := api.DeleteCollection(context.Background(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)},
			metav1.ListOptions{LabelSelector: "test=" + l.prefix})
		if err != nil {
			t.Error(err)
		}
	})
	var caches []*labCache
	for _, as := range []string{"typed", "unstructured", "metadata"} {
		for _, compact := range []bool{false, true} {
			caches = append(caches, startLabCache(t, cfg, as, compact))
		}
	}
	// compareAll waits until all caches have what the server has, and compares each pair.
	compareAll := func(why string, want int) {
		t.Helper()
		versions := map[string]string{}
		all, err := api.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ours := 0
		for _, p := range all.Items {
			versions[p.Namespace+"/"+p.Name] = p.ResourceVersion
			if p.Labels["test"] == l.prefix {
				ours++
			}
		}
		if ours != want {
			t.Fatalf("%s: the server has %d pods, want %d", why, ours, want)
		}
		for _, c := range caches {
			if !poll(t.Context(), timeout, func() bool { return maps.Equal(c.versions(t), versions) }) {
				t.Fatalf("%s: %s: other versions than the server's", why, c.name)
			}
			c.await(t, why, versions)
		}
		for i := 0; i < len(caches); i += 2 {
			compareLabCaches(t, why, caches[i], caches[i+1])
		}
	}
	compareAll("before there is a Pod", 0)
	for n := range pods {
		if _, err := api.Create(t.Context(), labPod(l.prefix, n), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	compareAll("after they were created", pods)
	change := func(n int, f func(*corev1.Pod) error) {
		t.Helper()
		p, err := api.Get(t.Context(), labPod(l.prefix, n).Name, metav1.GetOptions{})
		if err := errors.Join(err, f(p)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range pods {
		change(n, func(p *corev1.Pod) error {
			p.Status.Phase, p.Status.PodIP = corev1.PodRunning, fmt.Sprintf("10.0.0.%d", n)
			p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
			p.Status.StartTime = &metav1.Time{Time: time.Now()}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			_, err := api.UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
			return err
		})
	}
	compareAll("after a change of each status", pods)
	for n := range pods / 2 {
		change(n, func(p *corev1.Pod) error {
			p.Labels["app"], p.Finalizers = "moved", []string{"example.com/keep"}
			_, err := api.Update(t.Context(), p, metav1.UpdateOptions{})
			return err
		})
		if err := api.Delete(t.Context(), labPod(l.prefix, n).Name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
	}
	compareAll("with finalizers, while they are being deleted", pods)
	for n := range pods / 2 {
		change(n, func(p *corev1.Pod) error {
			p.Finalizers = nil
			_, err := api.Update(t.Context(), p, metav1.UpdateOptions{})
			return err
		})
	}
	compareAll("after half of them were deleted", pods/2)
}

// labPod returns a Pod with most of what a Pod may have.
func labPod(test string, n int) *corev1.Pod {
	labels := map[string]string{"test": test, "app": "app-" + strconv.Itoa(n%7)}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/<healthz>&é", Port: intstr.FromString("http")}}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", test, n), Labels: labels}}
	p.Annotations = map[string]string{"empty": "", "long": fmt.Sprintf("%0*d", 100*n, n)}
	p.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "example.com/main:" + strconv.Itoa(n), Args: []string{"", "--n=" + strconv.Itoa(n)},
		Env: []corev1.EnvVar{{Name: "EMPTY"}, {Name: "IP", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
		Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		ReadinessProbe: probe, SecurityContext: &corev1.SecurityContext{RunAsNonRoot: new(bool)},
	}}
	p.Spec.Volumes = []corev1.Volume{{Name: "none",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: new(int64)}}
	p.Spec.NodeName = "node-" + strconv.Itoa(n%5)
	return p
}

// labCache is a cache of controller-runtime that has Pods, and what its handler knows.
type labCache struct {
	name     string
	reader   client.Reader
	informer toolscache.SharedIndexInformer
	object   func() client.Object
	list     func() client.ObjectList

	mu      sync.Mutex
	handled map[string]any // the last state of each object
	wrong   []string
}

func startLabCache(t *testing.T, cfg *rest.Config, as string, compact bool) *labCache {
	t.Helper()
	c := &labCache{name: fmt.Sprintf("%s, compact %t", as, compact), handled: map[string]any{}}
	kind, listKind := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("PodList")
	switch as {
	case "typed":
		c.object = func() client.Object { return &corev1.Pod{} }
		c.list = func() client.ObjectList { return &corev1.PodList{} }
	case "unstructured":
		c.object = func() client.Object { return withKind(&unstructured.Unstructured{}, kind) }
		c.list = func() client.ObjectList { return withKind(&unstructured.UnstructuredList{}, listKind) }
	case "metadata":
		c.object = func() client.Object { return withKind(&metav1.PartialObjectMetadata{}, kind) }
		c.list = func() client.ObjectList { return withKind(&metav1.PartialObjectMetadataList{}, listKind) }
	}
	o := cache.Options{NewInformer: func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration,
		indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		if c.informer = toolscache.NewSharedIndexInformer(lw, example, resync, indexers); compact {
			c.informer = informer.NewCompact(lw, example, resync, indexers)
		}
		return c.informer
	}}
	made, err := cache.New(cfg, o)
	if err == nil {
		err = made.IndexField(t.Context(), c.object(), "app", func(o client.Object) []string {
			return []string{o.GetLabels()["app"]}
		})
	}
	if err == nil {
		_, err = c.informer.AddEventHandler(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { err = made.Start(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err != nil {
			t.Error(err)
		}
	})
	if !made.WaitForCacheSync(t.Context()) {
		t.Fatalf("%s does not sync", c.name)
	}
	c.reader = made
	return c
}

func (c *labCache) OnAdd(o any, _ bool)    { c.handle(nil, o, false) }
func (c *labCache) OnUpdate(before, o any) { c.handle(before, o, false) }

func (c *labCache) OnDelete(o any) {
	if t, isTombstone := o.(toolscache.DeletedFinalStateUnknown); isTombstone {
		o = t.Obj
	}
	c.handle(nil, o, true)
}

// handle notes what the handler was called with. The old object must be the new one of the call before.
func (c *labCache) handle(before, o any, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(o.(client.Object))
	if before != nil && !equality.Semantic.DeepEqual(c.handled[key], before) {
		c.wrong = append(c.wrong, key+" was updated from another state")
	}
	if c.handled[key] = o; gone {
		delete(c.handled, key)
	}
}

// await waits until the handler knows these versions.
func (c *labCache) await(t *testing.T, why string, versions map[string]string) {
	t.Helper()
	known := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		all := map[string]string{}
		for key, o := range c.handled {
			all[key] = o.(client.Object).GetResourceVersion()
		}
		return maps.Equal(all, versions)
	}
	if !poll(t.Context(), timeout, known) {
		t.Fatalf("%s: %s: the handler knows other versions than the server's", why, c.name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wrong) > 0 {
		t.Fatalf("%s: %s: %v", why, c.name, c.wrong)
	}
}

// objects returns by key what List finds.
func (c *labCache) objects(t *testing.T, o ...client.ListOption) map[string]any {
	t.Helper()
	found := c.list()
	err := c.reader.List(t.Context(), found, o...)
	items, itemsErr := meta.ExtractList(found)
	if err := errors.Join(err, itemsErr); err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	all := map[string]any{}
	for _, item := range items {
		all[keyOf(item.(client.Object))] = item
	}
	return all
}

func (c *labCache) versions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for key, o := range c.objects(t) {
		all[key] = o.(client.Object).GetResourceVersion()
	}
	return all
}

// compareLabCaches compares what two caches return, and what their handlers know.
func compareLabCaches(t *testing.T, why string, plain, compact *labCache) {
	t.Helper()
	same := func(how string, want, got map[string]any) {
		t.Helper()
		if len(want) != len(got) {
			t.Errorf("%s: %s: %s: %d objects, want %d", why, compact.name, how, len(got), len(want))
		}
		for key, o := range want {
			if !equality.Semantic.DeepEqual(o, got[key]) {
				t.Fatalf("%s: %s: %s: %s differs:\n%s", why, compact.name, how, key, cmp.Diff(o, got[key]))
			}
		}
	}
	every := plain.objects(t)
	same("List", every, compact.objects(t))
	for _, app := range []string{"app-0", "app-3", "moved", "none"} {
		label, field := client.MatchingLabels{"app": app}, client.MatchingFields{"app": app}
		same("List by a label", plain.objects(t, label), compact.objects(t, label))
		same("List by a field", plain.objects(t, field), compact.objects(t, field))
	}
	got := map[string]any{}
	for key, o := range every {
		one := compact.object()
		if err := compact.reader.Get(t.Context(), client.ObjectKeyFromObject(o.(client.Object)), one); err != nil {
			t.Fatalf("%s: %s: %v", why, compact.name, err)
		}
		got[key] = one
	}
	same("Get", every, got)
	stored := map[string]any{}
	for _, o := range compact.informer.GetStore().List() {
		stored[keyOf(o.(client.Object))] = o
	}
	want := map[string]any{}
	for _, o := range plain.informer.GetStore().List() {
		want[keyOf(o.(client.Object))] = o
	}
	same("the store's List", want, stored)
	plain.mu.Lock()
	defer plain.mu.Unlock()
	compact.mu.Lock()
	defer compact.mu.Unlock()
	same("the handler", plain.handled, compact.handled)
}

func keyOf(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// withKind sets the kind of an object or of a list.
func withKind[T runtime.Object](o T, kind schema.GroupVersionKind) T {
	o.GetObjectKind().SetGroupVersionKind(kind)
	return o
}
