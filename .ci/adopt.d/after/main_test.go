package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

func deployment(namespace, name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
}

func owned(namespace, owner string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"owner": owner}}}
}

// TestOnTheFake: what exists is printed, in any order, then what is deleted.
func TestOnTheFake(t *testing.T) {
	deployments := gvr.Resource{Kind: "Deployment", Namespaced: true, Verbs: []string{"list", "watch"}}
	deployments.Group, deployments.Version, deployments.Resource = "apps", "v1", "deployments"
	events := []string{
		"ADDED Deployment bank/vault: blue", "ADDED Deployment shop/api: red", "ADDED Deployment shop/web: red",
		"DELETED Deployment shop/web: red", "SYNCED",
	}
	type run func(context.Context, *dynamicfake.FakeDynamicClient, kubernetes.Interface, func(string)) error
	tests := map[string]struct {
		run    run
		synced string // the line after which the test deletes shop/web
		want   []string
	}{
		"watch": {func(
			ctx context.Context, c *dynamicfake.FakeDynamicClient, clients kubernetes.Interface, line func(string),
		) error {
			s, err := stream.New(c, deployments, nil)
			if err != nil {
				return err
			}
			return report(ctx, s.Events(ctx), clients, line)
		}, "SYNCED", events},
		"follow": {func(
			ctx context.Context, c *dynamicfake.FakeDynamicClient, clients kubernetes.Interface, line func(string),
		) error {
			served := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{{
				GroupVersion: "apps/v1",
				APIResources: []metav1.APIResource{{
					Name: "deployments", Kind: "Deployment", Namespaced: true, Verbs: deployments.Verbs,
				}},
			}}}}
			selection := follow.Selection{Resources: []string{"*.apps"}}
			m, err := follow.New(discovery.NewResolver(served, 0), c, selection, nil)
			if err != nil {
				return err
			}
			return report(ctx, m.Events(ctx), clients, line)
		}, "SYNCED", events},
		"count": {func(
			ctx context.Context, c *dynamicfake.FakeDynamicClient, clients kubernetes.Interface, line func(string),
		) error {
			s, err := stream.New(c, deployments, &stream.Options{Objects: stream.Raw})
			if err != nil {
				return err
			}
			return countOf(ctx, s, clients, line)
		}, "SYNCED ", []string{
			"ADDED api", "ADDED vault", "ADDED web", "DELETED web", "SYNCED ", "map[blue:1 red:5]",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			clients := fake.NewClientset(owned("shop", "red"), owned("bank", "blue"))
			c := dynamicfake.NewSimpleDynamicClient(scheme.Scheme,
				deployment("shop", "web", 3), deployment("shop", "api", 2), deployment("bank", "vault", 1))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var got []string
			err := tt.run(ctx, c, clients, func(line string) {
				got = append(got, line)
				if line == tt.synced {
					err := c.Resource(deployments.GroupVersionResource).Namespace("shop").
						Delete(ctx, "web", metav1.DeleteOptions{})
					if err != nil {
						t.Error(err)
					}
				}
				if len(got) == len(tt.want) {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			last := got[len(got)-1]
			slices.Sort(got)
			if !slices.Equal(tt.want, got) || last[:len("DELETED")] != "DELETED" {
				t.Errorf("got %q, the last of them %q, want %q with the deletion last", got, last, tt.want)
			}
		})
	}
}
