//go:build lab

package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
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

// TestLabRole: with the ClusterRole and its binding, the relay publishes what the ConfigMap selects, and knows the
// cluster by the uid of kube-system.
func TestLabRole(t *testing.T) {
	silenceClientGo()
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("GVRWATCH_LAB_ADMIN"))
	if err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(cfg)
	for _, doc := range manifests(t) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &o.Object); err != nil {
			t.Fatal(err)
		}
		if o.GroupVersionKind().Group != "rbac.authorization.k8s.io" {
			continue
		}
		objects := client.Resource(schema.GroupVersionResource{
			Group: "rbac.authorization.k8s.io", Version: "v1", Resource: strings.ToLower(o.GetKind()) + "s",
		})
		_ = objects.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{})
		if _, err := objects.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = objects.Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}) })
	}
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:gvrwatch-relay:gvrwatch-relay",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	d := readDeployed(t)
	at := []string{"--dir", filepath.Join(t.TempDir(), "relay"), "--kubeconfig", kubeconfig(t, cfg)}
	selected := strings.Join(d.config.Selection.Resources, ",")
	p := startProgram(t, append(at, "--listen", "127.0.0.1:0", "-r", selected)...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(&p.errOut)
		}
	})
	await(t, "/readyz", func() bool { status, _ := p.get("/readyz"); return status == http.StatusOK })
	if status, out, errOut := command(t, append([]string{"status"}, at...)...); status != 0 {
		t.Errorf("status: %d %s%s", status, out, errOut)
	}
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	system, err := namespaces.Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, out, _ := command(t, append([]string{"tail", "--until-end", "-o", "json"}, at...)...)
	if want := `"id":"` + string(system.GetUID()) + `/namespaces/`; !strings.Contains(out, want) {
		t.Errorf("no %s in\n%s", want, out)
	}
}
