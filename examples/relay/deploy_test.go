package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

// manifests returns the documents of deploy/relay.yaml.
func manifests(t *testing.T) [][]byte { return documentsOf(t, "deploy/relay.yaml") }

// documentsOf returns the documents of a YAML file.
func documentsOf(t *testing.T, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var all [][]byte
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, doc)
	}
}

func TestManifests(t *testing.T) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var role *rbacv1.ClusterRole
	var deployment *appsv1.Deployment
	cfg := relay.Config{}
	var kinds []string
	for _, doc := range manifests(t) {
		o, kind, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		kinds = append(kinds, kind.Kind)
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			role = o
		case *appsv1.Deployment:
			deployment = o
		case *corev1.ConfigMap:
			if err := yaml.UnmarshalStrict([]byte(o.Data["relay.yaml"]), &cfg); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []string{
		"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment",
		"PodDisruptionBudget",
		"Service",
	}
	if d := cmp.Diff(want, kinds); d != "" {
		t.Fatalf("kinds -want +got:\n%s", d)
	}
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	var granted []string
	for _, rule := range role.Rules {
		if d := cmp.Diff([]string{"get", "list", "watch"}, rule.Verbs); d != "" {
			t.Errorf("verbs -want +got:\n%s", d)
		}
		for _, name := range rule.Resources {
			if group := rule.APIGroups[0]; group != "" {
				name += "." + group
			}
			granted = append(granted, name)
		}
	}
	slices.Sort(granted)
	selected := slices.Sorted(slices.Values(cfg.Selection.Resources))
	if d := cmp.Diff(granted, selected); d != "" {
		t.Errorf("the role grants -, and the configuration selects +:\n%s", d)
	}
	grace := time.Duration(*deployment.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if grace <= cfg.Replica.Grace.Duration {
		t.Errorf("terminationGracePeriodSeconds is %v: must be more than replica.grace, %v", grace, cfg.Replica.Grace)
	}
}
