//go:build lab

package main

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// TestLabManifests does what kubectl apply --dry-run=server does. The namespace of the manifests does not exist on the
// server, so their namespaced objects are tried in one that does.
func TestLabManifests(t *testing.T) {
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("GVRWATCH_LAB_ADMIN"))
	if err != nil {
		t.Fatalf("GVRWATCH_LAB_ADMIN must name a kubeconfig: %v", err)
	}
	dc, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(dc))
	client := dynamic.NewForConfigOrDie(cfg)
	for _, doc := range manifests(t) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &o.Object); err != nil {
			t.Fatal(err)
		}
		t.Run(o.GetKind(), func(t *testing.T) {
			kind := o.GroupVersionKind()
			m, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err != nil {
				t.Fatal(err)
			}
			objects := dynamic.ResourceInterface(client.Resource(m.Resource))
			if o.GetNamespace() != "" {
				o.SetNamespace(metav1.NamespaceDefault)
				objects = client.Resource(m.Resource).Namespace(metav1.NamespaceDefault)
			}
			_, err = objects.Create(t.Context(), o, metav1.CreateOptions{
				DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
