package stream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// ClusterOf finds out which cluster cfg leads to, for checkpoint.Options. It is
// known by the uid of its namespace kube-system, which no other cluster has; who
// may not read that (403), or finds none (404), knows it by its URL and the
// certificates that it is trusted by, which may change. Any other answer is an
// error.
func ClusterOf(ctx context.Context, cfg *rest.Config) (checkpoint.Cluster, error) {
	var c checkpoint.Cluster
	url, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return c, fmt.Errorf("stream: the cluster's URL: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return c, fmt.Errorf("stream: the cluster's certificates: %w", err)
	}
	c.Address = url.Scheme + "://" + url.Host + url.Path
	if len(cfg.CAData) > 0 {
		sum := sha256.Sum256(cfg.CAData)
		c.Address += " sha256:" + hex.EncodeToString(sum[:8])
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return c, fmt.Errorf("stream: %w", err)
	}
	namespaces := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	namespace, err := namespaces.Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return c, nil
	case err != nil:
		return c, fmt.Errorf("stream: the uid of the namespace kube-system, by which the cluster is known: %w", err)
	}
	c.UID = string(namespace.GetUID())
	return c, nil
}
