//go:build lab

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/configmap"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// manifests are those of docs/rbac, with names of their own: "gvrwatch", "shop" and "example.com" are replaced.
type manifests struct {
	namespace, shop, group string
	admin                  dynamic.Interface
	objects                []*unstructured.Unstructured
}

func readManifests(t *testing.T, admin dynamic.Interface, file string) *manifests {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../docs/rbac", file))
	if err != nil {
		t.Fatal(err)
	}
	prefix := fmt.Sprintf("e2e-rbac-%d-%d", os.Getpid(), uniques.Add(1))
	m := &manifests{namespace: prefix, shop: prefix + "-shop", group: prefix + ".example.org", admin: admin}
	names := strings.NewReplacer("gvrwatch", m.namespace, "shop", m.shop, "example.com", m.group)
	renamed := names.Replace(string(text))
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(renamed)), 1000)
	for {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(o); err == io.EOF {
			return m
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		m.objects = append(m.objects, o)
	}
}

// client returns the client for an object.
func (m *manifests) client(o *unstructured.Unstructured) dynamic.ResourceInterface {
	gvk := o.GroupVersionKind()
	c := m.admin.Resource(schema.GroupVersionResource{
		Group: gvk.Group, Version: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s",
	})
	if o.GetNamespace() == "" {
		return c
	}
	return c.Namespace(o.GetNamespace())
}

// apply creates the namespaces and objects, and deletes them when the test ends.
func (m *manifests) apply(t *testing.T) {
	t.Helper()
	create := func(o *unstructured.Unstructured) {
		t.Helper()
		if _, err := m.client(o).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.client(o).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	for _, name := range []string{m.namespace, m.shop} {
		ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		ns.SetName(name)
		create(ns)
	}
	for _, o := range m.objects {
		create(o)
	}
}

// setRules replaces the rules of a role.
func (m *manifests) setRules(t *testing.T, role *unstructured.Unstructured, rules []any) {
	t.Helper()
	now, err := m.client(role).Get(t.Context(), role.GetName(), metav1.GetOptions{})
	if err == nil {
		now.Object["rules"] = rules
		_, err = m.client(role).Update(t.Context(), now, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// as returns a config with the rights of the service account of the manifests.
func (m *manifests) as(admin *rest.Config) *rest.Config {
	cfg := rest.CopyConfig(admin)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:%s", m.namespace, m.namespace),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + m.namespace, "system:authenticated"},
	}
	return cfg
}

// feature uses the library as a manifest permits. It returns an error if a right is missing, or ctx has ended.
type feature func(ctx context.Context, cfg *rest.Config, m *manifests) error

func watchPods(namespaces func(*manifests) []string) feature {
	return func(ctx context.Context, cfg *rest.Config, m *manifests) error {
		client, err := stream.NewClient(cfg, nil)
		if err != nil {
			return err
		}
		pods := gvr.Resource{Kind: "Pod", Namespaced: true}
		pods.Version, pods.Resource = "v1", "pods"
		s, err := stream.New(client, pods, &stream.Options{Namespaces: namespaces(m)})
		if err != nil {
			return err
		}
		synced := func(ev stream.Event) (bool, error) { return ev.Type == stream.Synced, nil }
		_, err = stream.Until(s.Events(ctx), synced)
		return err
	}
}

// followUntil follows a selection until done returns true.
func followUntil(resource func(*manifests) string, done func(*manifests, follow.Status) bool) feature {
	return func(ctx context.Context, cfg *rest.Config, m *manifests) error {
		dc, err := discovery.NewClient(cfg)
		if err != nil {
			return err
		}
		client, err := stream.NewClient(cfg, nil)
		if err != nil {
			return err
		}
		x, err := follow.New(discovery.NewResolver(dc, 0), client,
			follow.Selection{Resources: []string{resource(m)}}, nil)
		if err != nil {
			return err
		}
		reached := make(chan bool, 1)
		go func() {
			reached <- poll(ctx, timeout, func() bool { return done(m, x.Status()) })
			x.Drain()
		}()
		for _, err := range x.Events(ctx) {
			if err != nil {
				return err
			}
		}
		if !<-reached {
			return errors.New("not reached")
		}
		return nil
	}
}

func allWatched(_ *manifests, st follow.Status) bool {
	return st.AllSynced && len(st.Resources) > 0 && st.Discovery == nil &&
		!slices.ContainsFunc(st.Resources, func(r follow.ResourceStatus) bool { return r.State != follow.Watching })
}

func inShopOnly(m *manifests, st follow.Status) bool {
	return st.AllSynced && len(st.Resources) == 1 && slices.Equal(st.Resources[0].Namespaces, []string{m.shop})
}

func keepCheckpoint(ctx context.Context, cfg *rest.Config, m *manifests) error {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	configMaps := m.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	defer configMaps.Namespace(m.namespace).Delete(context.Background(), "positions", metav1.DeleteOptions{})
	store, err := configmap.Open(ctx, client, m.namespace, "positions", nil)
	if err != nil {
		return err
	}
	defer store.Close()
	return store.Commit(ctx, []checkpoint.Delta{{Key: "pods"}})
}

func identify(ctx context.Context, cfg *rest.Config, _ *manifests) error {
	cluster, err := clusterOf(ctx, cfg)
	if err == nil && cluster.UID == "" {
		err = errors.New("no uid")
	}
	return err
}

// both uses features one after the other.
func both(all ...feature) feature {
	return func(ctx context.Context, cfg *rest.Config, m *manifests) error {
		for _, f := range all {
			if err := f(ctx, cfg, m); err != nil {
				return err
			}
		}
		return nil
	}
}

func constant(name string) func(*manifests) string { return func(*manifests) string { return name } }

// TestLabManifestsSuffice: with exactly the rights of a manifest the feature works, and without any one of its rules it
// does not, unless the manifest calls the rule optional.
func TestLabManifestsSuffice(t *testing.T) {
	admin := labConfig(t, "GVRWATCH_LAB_ADMIN")
	for file, use := range map[string]feature{
		"watch-namespace.yaml":      watchPods(func(m *manifests) []string { return []string{m.shop} }),
		"watch-cluster.yaml":        watchPods(func(*manifests) []string { return nil }),
		"follow-group.yaml":         followUntil(func(m *manifests) string { return "*." + m.group }, allWatched),
		"follow-namespaces.yaml":    followUntil(constant("pods"), inShopOnly),
		"everything.yaml":           followUntil(constant("*"), allWatched),
		"checkpoint-configmap.yaml": keepCheckpoint,
		"cluster-identity.yaml":     identify,
		"tool.yaml": both(identify, followUntil(constant("pods"), allWatched),
			followUntil(constant("deployments.apps"), allWatched)),
	} {
		t.Run(file, func(t *testing.T) {
			m := readManifests(t, dynamic.NewForConfigOrDie(admin), file)
			m.apply(t)
			if file == "follow-group.yaml" {
				d := &definitions{t, m.admin}
				crd := devserver.CRD{Group: m.group, Kind: "Robot", Namespaced: true}
				d.create(crd)
				t.Cleanup(func() {
					name := crd.Object().GetName()
					_ = m.admin.Resource(crdResource).Delete(context.Background(), name, metav1.DeleteOptions{})
				})
			}
			cfg := m.as(admin)
			// try repeats the feature until the server's authorizer has the roles.
			try := func(works bool) error {
				var err error
				poll(t.Context(), timeout, func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
					defer cancel()
					err = use(ctx, cfg, m)
					return (err == nil) == works
				})
				return err
			}
			if err := try(true); err != nil {
				t.Fatalf("with all rules: %v", err)
			}
			for _, o := range m.objects {
				rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
				for i := range rules {
					rule := fmt.Sprintf("rule %d of %s", i+1, o.GetName())
					m.setRules(t, o, slices.Delete(slices.Clone(rules), i, i+1))
					groups, _, _ := unstructured.NestedStringSlice(rules[i].(map[string]any), "apiGroups")
					optional := slices.Contains([]string{"apiextensions.k8s.io", "apiregistration.k8s.io"}, groups[0])
					err := try(optional)
					if (err == nil) != optional {
						t.Errorf("without %s: %v", rule, err)
					}
					t.Logf("without %s: %v", rule, err)
					m.setRules(t, o, rules)
					if err := try(true); err != nil {
						t.Fatalf("with %s again: %v", rule, err)
					}
				}
			}
		})
	}
}
