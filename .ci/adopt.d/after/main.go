// Command owners prints the Deployments of a cluster, with the owner of the namespace that each is in:
//
//	owners count          how many replicas each owner has
//	owners watch NAME     what exists, and each change, of the resource NAME, such as "deploy"
//	owners follow NAME... the same of several resources, such as "*.example.com"
package main

import (
	"context"
	"fmt"
	"iter"
	"log"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: owners count|watch NAME|follow NAME...")
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		log.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		log.Fatal(err)
	}
	c, err := gvrwatch.Connect(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ctx, names := context.Background(), os.Args[2:]
	switch line := func(s string) { fmt.Println(s) }; {
	case os.Args[1] == "count":
		err = count(ctx, c, clients, line)
	case os.Args[1] == "watch" && len(names) == 1:
		err = report(ctx, gvrwatch.Watch(ctx, cfg, names[0], nil), clients, line)
	case os.Args[1] == "follow":
		var m *follow.Mux
		if m, err = c.Follow(follow.Selection{Resources: names}, nil); err == nil {
			err = report(ctx, m.Events(ctx), clients, line)
		}
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1:])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// report prints a line for each event.
func report(
	ctx context.Context, events iter.Seq2[stream.Event, error], clients kubernetes.Interface, line func(string),
) error {
	for ev, err := range events {
		if err != nil {
			return err
		}
		if !ev.HasObject() {
			line(string(ev.Type))
			continue
		}
		owner, err := ownerOf(ctx, clients, ev.Object.GetNamespace())
		if err != nil {
			return err
		}
		line(fmt.Sprintf("%s %s %s: %s", ev.Type, ev.Object.GetKind(), ev.NamespacedName(), owner))
	}
	return nil
}

func count(ctx context.Context, c *gvrwatch.Connection, clients kubernetes.Interface, line func(string)) error {
	s, err := c.Stream(ctx, "deployments.apps", &stream.Options{Objects: stream.Raw})
	if err != nil {
		return err
	}
	return countOf(ctx, s, clients, line)
}

// countOf prints the replicas of each owner when they are known, and then each Deployment that changes.
func countOf(ctx context.Context, s *stream.Stream, clients kubernetes.Interface, line func(string)) error {
	deployments, err := store.New(s, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(deployments.Run(ctx)) }()
	if err := deployments.WaitSynced(ctx); err != nil {
		return err
	}
	all, err := deployments.List(store.Query{})
	if err != nil {
		return err
	}
	replicas := map[string]int32{}
	for o := range all {
		d, err := store.As[appsv1.Deployment](o)
		if err != nil {
			return err
		}
		owner, err := ownerOf(ctx, clients, d.Namespace)
		if err != nil {
			return err
		}
		replicas[owner] += *d.Spec.Replicas
	}
	line(fmt.Sprint(replicas))
	for change, err := range deployments.Subscribe(ctx) {
		if err != nil {
			return err
		}
		line(fmt.Sprintf("%s %s", change.Type, change.Object().Name()))
	}
	return context.Cause(ctx)
}

// ownerOf returns the label "owner" of a namespace.
func ownerOf(ctx context.Context, clients kubernetes.Interface, namespace string) (string, error) {
	n, err := clients.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return n.Labels["owner"], nil
}
