package devserver

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

// CRD describes a resource whose objects may have any fields in their spec and status.
type CRD struct {
	Group      string
	Kind       string
	Plural     string // empty means the kind in lower case and an s
	ShortNames []string
	Categories []string
	Namespaced bool
	Versions   []string // all are served, the first one is stored; empty means v1
	Columns    []string // fields of spec that kubectl get shows
}

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// Object returns the CustomResourceDefinition.
func (c CRD) Object() *unstructured.Unstructured {
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	versions := make([]any, 0, len(c.Versions))
	columns := make([]any, 0, len(c.Columns))
	for _, name := range c.Columns {
		columns = append(columns, map[string]any{"name": name, "type": "string", "jsonPath": ".spec." + name})
	}
	if len(columns) > 0 { // or the server would add the age itself
		columns = append(columns,
			map[string]any{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
	}
	for i, name := range c.versions() {
		versions = append(versions, map[string]any{
			"name": name, "served": true, "storage": i == 0, "additionalPrinterColumns": columns,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type":       "object",
				"properties": map[string]any{"spec": anything, "status": anything},
			}},
		})
	}
	scope := "Cluster"
	if c.Namespaced {
		scope = "Namespaced"
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"spec": map[string]any{
			"group": c.Group, "scope": scope, "versions": versions,
			"names": map[string]any{
				"plural": c.plural(), "singular": strings.ToLower(c.Kind), "kind": c.Kind,
				"shortNames": list(c.ShortNames), "categories": list(c.Categories),
			},
		},
	}}
	o.SetName(c.plural() + "." + c.Group)
	return o
}

// Resource returns the resource in its first version.
func (c CRD) Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: c.Group, Version: c.versions()[0], Resource: c.plural()}
}

func (c CRD) plural() string {
	if c.Plural != "" {
		return c.Plural
	}
	return strings.ToLower(c.Kind) + "s"
}

func (c CRD) versions() []string {
	if len(c.Versions) > 0 {
		return c.Versions
	}
	return []string{"v1"}
}

func list(s []string) []any {
	l := make([]any, len(s))
	for i := range s {
		l[i] = s[i]
	}
	return l
}

// CreateCRDs creates the CRDs and returns when the server serves their resources. Discovery may list them a moment
// later. Creating an object takes about 2 s while its CRD is younger than that.
func CreateCRDs(ctx context.Context, client dynamic.Interface, crds ...CRD) error {
	for _, c := range crds {
		if _, err := client.Resource(crdResource).Create(ctx, c.Object(), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create the CRD of %s: %w", c.Resource().GroupResource(), err)
		}
	}
	for _, c := range crds {
		var last error
		err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			_, last = client.Resource(c.Resource()).List(ctx, metav1.ListOptions{Limit: 1})
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("wait for %s to be served: %w; the last list failed: %w",
				c.Resource().GroupResource(), err, last)
		}
	}
	return nil
}
