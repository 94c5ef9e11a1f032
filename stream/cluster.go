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

// ClusterOf identifies the cluster of cfg, for [checkpoint.Options]. The identity is the unique uid of the namespace
// kube-system, and the URL and CA certificates in cfg. If the caller may not read the namespace (403), or it does not
// exist (404), the identity is the URL and the certificates alone, which may change. Any other failure is an error.
func ClusterOf(ctx context.Context, cfg *rest.Config) (checkpoint.Cluster, error) {
	var c checkpoint.Cluster
	url, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return c, fmt.Errorf("stream: cannot determine the URL of the cluster: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return c, fmt.Errorf("stream: cannot read the certificates of the cluster: %w", err)
	}
	c.Address = url.Scheme + "://" + url.Host + url.Path
	if len(cfg.CAData) > 0 {
		sum := sha256.Sum256(cfg.CAData)
		c.Address += " sha256:" + hex.EncodeToString(sum[:8])
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return c, fmt.Errorf("stream: cannot create a client: %w", err)
	}
	namespaces := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	namespace, err := namespaces.Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return c, nil
	case err != nil:
		return c, fmt.Errorf("stream: cannot identify the cluster by the uid of namespace kube-system: %w", err)
	}
	c.UID = string(namespace.GetUID())
	return c, nil
}
