package gvrwatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/guard"
)

// Cluster asks the server for the identity of the cluster, for [checkpoint.Options]. The identity is the unique uid of
// the namespace kube-system, and the URL and CA certificates of the configuration. If the caller may not read the
// namespace (403), or it does not exist (404), the identity is the URL and the certificates alone, which may change.
// Any other failure is an error, also a redirect to another scheme, host or port. After a 401, and after a refusal
// (4xx) that is no Status of an API server as discovery.NewClient has it, it tries twice more within 0.6 s.
//
// A rest.Config.Timeout of 0 means 32 s. It bounds the request with all its retries: client-go obeys a Retry-After
// within that time. A longer one is an error at once, which says how long the server asks to wait.
func (c *Connection) Cluster(ctx context.Context) (of checkpoint.Cluster, err error) {
	if err := c.check(ctx); err != nil {
		return of, err
	}
	cfg := rest.CopyConfig(c.config)
	url, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return of, fmt.Errorf("gvrwatch: cannot determine the URL of the cluster: %w", guard.Redact(err))
	}
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return of, fmt.Errorf("gvrwatch: cannot read the certificates of the cluster: %w", err)
	}
	of.Address = url.Scheme + "://" + url.Host + strings.TrimRight(url.Path, "/")
	if len(cfg.CAData) > 0 {
		sum := sha256.Sum256(cfg.CAData)
		of.Address += " sha256:" + hex.EncodeToString(sum[:8])
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 32 * time.Second
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return guard.RefuseGateways(guard.Impatient(guard.Wrap(next)))
	})
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return of, fmt.Errorf("gvrwatch: cannot create a client: %w", err)
	}
	namespaces := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	var namespace *unstructured.Unstructured
	err = guard.Insist(ctx, func() (err error) {
		namespace, err = namespaces.Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		return err
	})
	switch {
	case (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) && !guard.IsGateway(err):
		return of, nil
	case err != nil:
		return of, fmt.Errorf("gvrwatch: cannot identify the cluster by the uid of namespace kube-system: %w",
			guard.Redact(err))
	}
	of.UID = string(namespace.GetUID())
	return of, nil
}
