package devserver_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

func TestServersShareAnEtcd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	etcd, err := devserver.StartEtcd(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcd.Stop() }) // of a later etcd, too
	first := start(t, &devserver.Options{Dir: t.TempDir(), Etcd: etcd.Socket()})
	second := start(t, &devserver.Options{Etcd: etcd.Socket()})
	createCRD(t, dynamicClient(t, first.Config()))
	created := createWidget(t, dynamicClient(t, first.Config()), "a")

	if err := second.Compact(t.Context()); err == nil {
		t.Error("a server compacted an etcd that is not its own")
	}
	if err := etcd.Compact(t.Context()); err != nil {
		t.Error(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	client := dynamicClient(t, second.Config()).Resource(widgets).Namespace("default")
	got, err := client.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("the second server, after the first one stopped: %v", err)
	}
	if got.GetUID() != created.GetUID() {
		t.Errorf("uid %s on the second server, %s on the first", got.GetUID(), created.GetUID())
	}
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}
	etcd.Stop()
	if etcd, err = devserver.StartEtcd(t.Context(), dir); err != nil {
		t.Fatalf("start etcd again: %v", err)
	}
	if rev := etcd.KV().Rev(); rev < 2 {
		t.Errorf("revision %d after the restart: its data is gone", rev)
	}
}
