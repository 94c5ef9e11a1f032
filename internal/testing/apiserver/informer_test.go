package apiserver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
	"github.com/gvrwatch/gvrwatch/internal/testing/bubbles"
)

// Users often test client-go's informers.
func TestClientGosInformersWork(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = handlers[:1] // the second one uses a clock outside the bubble
	defer func() { utilruntime.ErrorHandlers = handlers }()
	for _, script := range []string{
		"", "initial *: 422", "at 5s: restart", "at 5s: expire", "list 1-2: 500",
		"initial 1 after 1 frames: reset inside frame", "at 5s: widgets close watches\nwatch 1: 410 in stream",
	} {
		t.Run(script, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := apiserver.NewServer(widgets)
				srv.Put(widgets, "shop", "door")
				srv.Put(widgets, "shop", "window")
				if err := srv.Apply(everything, script); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				factory := dynamicinformer.NewDynamicSharedInformerFactory(srv.Client(), bubbles.NoResync)
				informer := factory.ForResource(widgets.GroupVersionResource)
				lister := informer.Lister()
				factory.Start(ctx.Done())
				time.Sleep(time.Minute)
				srv.Put(widgets, "shop", "roof")
				if _, err := srv.Delete(widgets, "shop", "door"); err != nil {
					t.Error(err)
				}
				time.Sleep(5 * time.Minute)
				objects, err := lister.List(labels.Everything())
				if err != nil {
					t.Error(err)
				}
				got := map[string]bool{}
				for _, o := range objects {
					got[o.(*unstructured.Unstructured).GetName()] = true
				}
				if diff := cmp.Diff(map[string]bool{"window": true, "roof": true}, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				cancel()
				factory.Shutdown()
			})
		})
	}
}

func TestTypedClientWorksWithJSON(t *testing.T) {
	pods := gvr.Resource{Kind: "Pod", Namespaced: true}
	pods.Version, pods.Resource = "v1", "pods"
	srv := apiserver.NewServer(pods)
	defer srv.Close()
	typed := kubernetes.NewForConfigOrDie(srv.Config()).CoreV1().Pods("shop")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{NodeName: "one"}}
	if _, err := typed.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := typed.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=one"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "web" {
		t.Errorf("got %v, %v", list, err)
	}

	protobuf := srv.Config()
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	pod.Name = "other"
	typed = kubernetes.NewForConfigOrDie(protobuf).CoreV1().Pods("shop")
	if _, err := typed.Create(t.Context(), pod, metav1.CreateOptions{}); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("protobuf is not supported: got %v", err)
	}
}
