//go:build lab

package tables_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/tables"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// lab is a namespace of a full kube-apiserver. GVRWATCH_LAB_ADMIN names the kubeconfig of its administrator.
type lab struct {
	*testing.T
	cfg       *rest.Config
	client    dynamic.Interface
	resolver  *discovery.Resolver
	namespace string
}

func newLab(t *testing.T) *lab {
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("GVRWATCH_LAB_ADMIN"))
	if err != nil {
		t.Fatalf("GVRWATCH_LAB_ADMIN must name a kubeconfig: %v", err)
	}
	cfg.QPS = -1
	l := &lab{T: t, cfg: cfg, namespace: fmt.Sprintf("w-tables-%d", time.Now().UnixNano())}
	l.client, err = dynamic.NewForConfig(cfg)
	client, err2 := discovery.NewClient(cfg)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	l.resolver = discovery.NewResolver(client, 0)
	l.make("namespaces", "kind: Namespace\napiVersion: v1\nmetadata: {name: "+l.namespace+"}")
	l.make("serviceaccounts", "kind: ServiceAccount\napiVersion: v1\nmetadata: {name: default}") // no controller does
	return l
}

func (l *lab) resource(name string) gvr.Resource {
	l.Helper()
	var resource gvr.Resource
	ref, err := gvr.ParseRef(name)
	if err != nil {
		l.Fatal(err)
	}
	// A new CRD is served after a moment.
	err = wait.PollUntilContextTimeout(l.Context(), 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			var err error
			if resource, err = l.resolver.Resolve(ctx, ref); err != nil {
				l.resolver.Refresh()
			}
			return err == nil, nil
		})
	if err != nil {
		l.Fatalf("%s: %v", name, err)
	}
	return resource
}

func (l *lab) in(r gvr.Resource) dynamic.ResourceInterface {
	if all := l.client.Resource(r.GroupVersionResource); !r.Namespaced {
		return all
	}
	return l.client.Resource(r.GroupVersionResource).Namespace(l.namespace)
}

// make creates an object, and deletes it when the test ends.
func (l *lab) make(resource, text string) {
	l.Helper()
	o := &unstructured.Unstructured{}
	r := l.resource(resource)
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		l.Fatal(err)
	}
	// The namespace's admission may not know the namespace, and a new CRD's storage may not be ready.
	err := wait.PollUntilContextTimeout(l.Context(), 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			_, err := l.in(r).Create(ctx, o, metav1.CreateOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) {
				return false, nil
			}
			return err == nil, err
		})
	if err != nil {
		l.Fatalf("%s: %v", resource, err)
	}
	l.Cleanup(func() {
		now := int64(0)
		o := metav1.DeleteOptions{GracePeriodSeconds: &now}
		if err := l.in(r).Delete(context.Background(), objectName(text), o); err != nil && !apierrors.IsNotFound(err) {
			l.Error(err)
		}
		if resource == "namespaces" { // no controller does
			if err := l.finalize(); err != nil {
				l.Error(err)
			}
		}
	})
}

// finalize removes the finalizers of the namespace, which is empty then.
func (l *lab) finalize() error {
	r := l.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	o, err := r.Get(context.Background(), l.namespace, metav1.GetOptions{})
	if err == nil {
		unstructured.RemoveNestedField(o.Object, "spec", "finalizers")
		_, err = r.Update(context.Background(), o, metav1.UpdateOptions{}, "finalize")
	}
	return err
}

func objectName(text string) string {
	o := &unstructured.Unstructured{}
	_ = yaml.Unmarshal([]byte(text), &o.Object)
	return o.GetName()
}

func (l *lab) patch(r gvr.Resource, name, text string, subresources ...string) {
	l.Helper()
	_, err := l.in(r).Patch(l.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{},
		subresources...)
	if err != nil {
		l.Fatalf("%s: %v", r, err)
	}
}

// shown is a row without what depends on the time.
type shown struct {
	Columns []metav1.TableColumnDefinition
	Cells   []any
}

func timeless(columns []metav1.TableColumnDefinition, cells []any) shown {
	cells = slices.Clone(cells)
	for i, c := range columns {
		if slices.Contains([]string{"Age", "Last Seen", "First Seen"}, c.Name) {
			if _, ok := cells[i].(string); ok {
				cells[i] = "some time"
			}
		}
	}
	return shown{columns, cells}
}

// listed returns the rows of a plain request for a Table.
func (l *lab) listed(r gvr.Resource) map[string]shown {
	l.Helper()
	client, err := rest.HTTPClientFor(l.cfg)
	if err != nil {
		l.Fatal(err)
	}
	path := l.cfg.Host + "/api/" + r.Version
	if r.Group != "" {
		path = l.cfg.Host + "/apis/" + r.Group + "/" + r.Version
	}
	if r.Namespaced {
		path += "/namespaces/" + l.namespace
	}
	request, err := http.NewRequestWithContext(l.Context(), http.MethodGet, path+"/"+r.Resource, nil)
	if err != nil {
		l.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	resp, err := client.Do(request)
	if err != nil {
		l.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	var table metav1.Table
	if err := errors.Join(err, utiljson.Unmarshal(text, &table)); err != nil {
		l.Fatalf("%v: %.500s", err, text)
	}
	for i := range table.ColumnDefinitions {
		table.ColumnDefinitions[i].Description = ""
	}
	rows := map[string]shown{}
	for _, row := range table.Rows {
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal(row.Object.Raw, &o); err != nil {
			l.Fatal(err)
		}
		rows[o.Name+"@"+o.ResourceVersion] = timeless(table.ColumnDefinitions, row.Cells)
	}
	return rows
}

// watch returns the last row of each object once done returns true for an event.
func (l *lab) watch(r gvr.Resource, o stream.Options, done func(stream.Event, shown) bool) map[string]shown {
	l.Helper()
	cfg, tbl := tables.Wrap(l.cfg, false)
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		l.Fatal(err)
	}
	o.Objects = stream.Raw
	if r.Namespaced {
		o.Namespaces = []string{l.namespace}
	}
	s, err := stream.New(client, r, &o)
	if err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
	defer cancel()
	rows, names := map[string]shown{}, map[string]string{}
	for ev, err := range s.Events(ctx) {
		if err != nil {
			l.Fatalf("%s: %v", r, err)
		}
		var row shown
		if ev.HasObject() {
			columns, cells, ok := tbl.Row(ev)
			if !ok {
				l.Fatalf("%s: %s has no row", r, ev)
			}
			row = timeless(columns, cells)
			name := ev.Meta().GetName()
			delete(rows, names[name])
			if ev.Type != stream.Deleted {
				names[name] = name + "@" + ev.ResourceVersion
				rows[names[name]] = row
			}
		}
		if done(ev, row) {
			return rows
		}
	}
	return nil
}

const podSpec = `{automountServiceAccountToken: false, containers: [{name: c, image: i}]}`

func (l *lab) definition(column, path string) string {
	return fmt.Sprintf(`{"additionalPrinterColumns":[{"name":%q,"type":"string","jsonPath":%q},
		{"name":"Wide","type":"integer","priority":1,"jsonPath":".spec.n"}],"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, column, path)
}

func TestLabRows(t *testing.T) {
	l := newLab(t)
	group := l.namespace + ".example.com"
	l.make("customresourcedefinitions", fmt.Sprintf(`
kind: CustomResourceDefinition
apiVersion: apiextensions.k8s.io/v1
metadata: {name: doors.%s}
spec: {group: %[1]s, scope: Namespaced, names: {plural: doors, kind: Door}, versions: [%[2]s]}`,
		group, l.definition("First", ".spec.text")))
	door := "doors." + group
	for i := range 5 {
		name := fmt.Sprintf("%s-%d", l.namespace, i)
		l.make("pods", "kind: Pod\napiVersion: v1\nmetadata: {name: "+name+"}\nspec: "+podSpec)
		l.make("deployments.apps", "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: "+name+
			"}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, "+
			"spec: {containers: [{name: c, image: i}]}}}")
		l.make("nodes", "kind: Node\napiVersion: v1\nmetadata: {name: "+name+"}")
		l.make("v1/Event", "kind: Event\napiVersion: v1\nmetadata: {name: "+name+"}\ntype: Normal\nreason: R\n"+
			"message: \"two\\nlines\"\ninvolvedObject: {kind: Pod, name: p, namespace: "+l.namespace+"}\n"+
			"lastTimestamp: 2026-01-01T00:00:00Z\ncount: 3")
		l.make(door, "kind: Door\napiVersion: "+group+"/v1\nmetadata: {name: "+name+"}\n"+
			"spec: {text: \"é\\n\", n: "+fmt.Sprint(i)+"}\ntable: {cells: [x]}")
	}
	changes := map[string]func(gvr.Resource, string){
		"pods": func(r gvr.Resource, name string) {
			l.patch(r, name, `{"status":{"phase":"Running"}}`, "status")
		},
		"deployments.apps": func(r gvr.Resource, name string) { l.patch(r, name, `{"spec":{"replicas":7}}`) },
		"nodes":            func(r gvr.Resource, name string) { l.patch(r, name, `{"spec":{"unschedulable":true}}`) },
		"v1/Event":         func(r gvr.Resource, name string) { l.patch(r, name, `{"count":4}`) },
		door:               func(r gvr.Resource, name string) { l.patch(r, name, `{"spec":{"text":"new"}}`) },
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		r := l.resource(name)
		for _, requests := range []stream.Requests{{PagedLists: true, PageSize: 2}, {}} {
			paged := requests.PagedLists
			synced := map[string]shown{}
			got := l.watch(r, stream.Options{Requests: requests}, func(ev stream.Event, _ shown) bool {
				if ev.Type == stream.Synced {
					synced = l.listed(r)
					changes[name](r, l.namespace+"-3")
					l.patch(r, l.namespace+"-3", fmt.Sprintf(`{"metadata":{"labels":{"paged":"%v"}}}`, paged))
				}
				return ev.Type == stream.Modified && ev.Meta().GetLabels()["paged"] == fmt.Sprint(paged)
			})
			if diff := gocmp.Diff(l.listed(r), got); diff != "" || len(synced) < 5 {
				t.Errorf("%s, paged %v, of %d rows (-plain request +watch):\n%s", name, paged, len(synced), diff)
			}
			for _, row := range got {
				t.Logf("%s: %q", name, row.Cells)
				break
			}
		}
	}
	l.changedColumns(l.resource(door), group)
}

// changedColumns changes the columns of a CRD during a watch.
func (l *lab) changedColumns(r gvr.Resource, group string) {
	crds := l.resource("customresourcedefinitions").GroupVersionResource
	name, begun := l.namespace+"-1", false
	ctx, cancel := context.WithCancel(l.Context())
	writer := make(chan error, 1)
	got := l.watch(r, stream.Options{}, func(ev stream.Event, row shown) bool {
		if ev.Type == stream.Synced && !begun {
			begun = true
			patch := `{"spec":{"versions":[` + l.definition("Second", ".spec.n") + `]}}`
			if _, err := l.client.Resource(crds).Patch(ctx, "doors."+group, types.MergePatchType, []byte(patch),
				metav1.PatchOptions{}); err != nil {
				l.Fatal(err)
			}
			// The columns change a moment later, and the watch ends then.
			go func() {
				number := 0
				write := func(ctx context.Context) (bool, error) {
					number++
					_, err := l.in(r).Patch(ctx, name, types.MergePatchType,
						fmt.Appendf(nil, `{"spec":{"n":%d}}`, number), metav1.PatchOptions{})
					return false, err
				}
				writer <- wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, write)
			}()
		}
		if len(row.Columns) > 1 && row.Columns[1].Name == "Second" && ev.Type == stream.Modified {
			cancel()
			return true
		}
		return false
	})
	cancel()
	if err := <-writer; err != nil && !errors.Is(err, context.Canceled) {
		l.Error(err)
	}
	l.Logf("after the change: %v", got)
	// Rows from before the change keep their columns until the next event of their object.
	for key, row := range l.listed(r) {
		if old, ok := got[key]; ok && old.Columns[1].Name == "Second" && gocmp.Diff(row, old) != "" {
			l.Errorf("%s (-plain request +watch):\n%s", key, gocmp.Diff(row, old))
		}
	}
}
