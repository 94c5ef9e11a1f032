package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// serve serves Secrets until ctx ends. It prints the URL once they exist.
func serve(ctx context.Context, o options, out io.Writer) error {
	srv := streamtest.NewServer(secrets)
	defer srv.Close()
	for i := range o.serve {
		s := secret(i)
		if o.whole {
			s.Object["data"] = map[string]any{"release": release(i)}
		}
		if _, err := srv.Create(secrets, s); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := &http.Server{Handler: srv, ReadHeaderTimeout: time.Minute}
	stopped := context.AfterFunc(ctx, func() { _ = h.Close() })
	defer stopped()
	fmt.Fprintf(out, "http://%s\n", l.Addr())
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func nameOf(i int) string { return fmt.Sprintf("sh.helm.release.v1.service-%05d.v%d", i, 1+i%9) }

func namespaceOf(i int) string { return fmt.Sprintf("team-%03d", i%200) }

// release returns the data of the i-th Secret: 1 KB that cannot be compressed, because Helm does that itself.
func release(i int) string {
	data := make([]byte, 1000)
	_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(i >> 16)}).Read(data)
	return base64.StdEncoding.EncodeToString(data)
}

// secret returns the i-th Secret, as Helm keeps a release: with labels, annotations, and the managedFields of Helm and
// of a controller. It has no data, because none of it would be sent to those who ask for metadata.
func secret(i int) *unstructured.Unstructured {
	random := rand.New(rand.NewPCG(uint64(i), 1))
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("Secret")
	o.SetNamespace(namespaceOf(i))
	o.SetName(nameOf(i))
	o.SetLabels(map[string]string{
		"name": fmt.Sprintf("service-%05d", i), "owner": "helm", "status": "deployed",
		"version": fmt.Sprint(1 + i%9), "modifiedAt": fmt.Sprint(1_790_000_000 + random.IntN(1_000_000)),
	})
	o.SetAnnotations(map[string]string{
		"meta.helm.sh/release-name":      fmt.Sprintf("service-%05d", i),
		"meta.helm.sh/release-namespace": namespaceOf(i),
		"example.com/checksum":           fmt.Sprintf("%064x", random.Uint64()),
		"example.com/owner":              fmt.Sprintf("team-%03d@example.com", i%200),
		"example.com/pipeline": fmt.Sprintf("https://ci.example.com/projects/%d/pipelines/%d",
			i%500, random.IntN(1_000_000)),
	})
	managed := func(manager, fields string) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(time.Unix(1_790_000_000+int64(random.IntN(1_000_000)), 0))
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{
		managed("helm", `{"f:data":{".":{},"f:release":{}},"f:metadata":{"f:labels":{".":{},"f:modifiedAt":{},`+
			`"f:name":{},"f:owner":{},"f:status":{},"f:version":{}}},"f:type":{}}`),
		managed("release-controller", `{"f:metadata":{"f:annotations":{".":{},"f:example.com/checksum":{},`+
			`"f:example.com/owner":{},"f:example.com/pipeline":{},"f:meta.helm.sh/release-name":{},`+
			`"f:meta.helm.sh/release-namespace":{}}}}`),
	})
	return o
}
