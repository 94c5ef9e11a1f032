// Command owners prints the Deployments of a cluster, with the owner of the namespace that each is in.
package main

import (
	"context"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		log.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		log.Fatal(err)
	}
	if err := list(context.Background(), clients); err != nil {
		log.Fatal(err)
	}
}

func list(ctx context.Context, clients kubernetes.Interface) error {
	all, err := clients.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, d := range all.Items {
		owner, err := ownerOf(ctx, clients, d.Namespace)
		if err != nil {
			return err
		}
		fmt.Println(d.Namespace, d.Name, owner)
	}
	return nil
}

// ownerOf returns the label "owner" of a namespace.
func ownerOf(ctx context.Context, clients kubernetes.Interface, namespace string) (string, error) {
	n, err := clients.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return n.Labels["owner"], nil
}
