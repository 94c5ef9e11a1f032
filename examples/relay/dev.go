package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

var (
	robots  = devserver.CRD{Group: "demo.gvrwatch.dev", Kind: "Robot", Namespaced: true, ShortNames: []string{"rob"}}
	planets = devserver.CRD{Group: "demo.gvrwatch.dev", Kind: "Planet"}
)

// startDev starts an API server with its data in dir, and a writer. stop ends both.
func startDev(ctx context.Context, dir string, logger *slog.Logger) (c *relay.Connection, stop func(), err error) {
	logger.Info("starting a real API server (etcd and apiextensions-apiserver) in this process")
	srv, err := devserver.Start(ctx, &devserver.Options{Dir: dir})
	if err != nil {
		return nil, nil, fmt.Errorf("start the API server: %w", err)
	}
	if c, err = relay.Connect(relay.Cluster{Kubeconfig: srv.Kubeconfig()}); err == nil {
		err = devserver.CreateCRDs(ctx, c.Client, robots, planets)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, nil, errors.Join(fmt.Errorf("create the custom resources: %w", err), srv.Stop())
	}
	logger.Info("the API server is ready", "kubeconfig", srv.Kubeconfig())
	writing, stopWriting := context.WithCancel(ctx)
	written := make(chan struct{})
	go func() {
		defer close(written)
		write(writing, c.Client)
	}()
	return c, func() {
		stopWriting()
		<-written
		if err := srv.Stop(); err != nil {
			logger.Warn("the API server did not stop", "err", err)
		}
	}, nil
}

// write creates, changes and deletes objects until ctx ends, about one each half second.
func write(ctx context.Context, client dynamic.Interface) {
	for n := 0; ctx.Err() == nil; n++ {
		crd, name, namespace := robots, fmt.Sprintf("r%d", rand.IntN(5)), []string{"factory", "lab"}[rand.IntN(2)]
		if n%5 == 4 {
			crd, name, namespace = planets, []string{"mars", "venus", "pluto"}[rand.IntN(3)], ""
		}
		objects := client.Resource(crd.Resource()).Namespace(namespace)
		if rand.IntN(5) == 0 {
			_ = objects.Delete(ctx, name, metav1.DeleteOptions{}) // which may not exist
		} else {
			o := &unstructured.Unstructured{}
			o.SetAPIVersion(crd.Group + "/v1")
			o.SetKind(crd.Kind)
			o.SetName(name)
			_ = unstructured.SetNestedField(o.Object, int64(n), "spec", "n")
			_, _ = objects.Apply(ctx, name, o, metav1.ApplyOptions{FieldManager: "relay", Force: true})
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
