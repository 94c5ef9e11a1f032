// Package dynamicinformer has the names of client-go's dynamicinformer that its tests use, with our factory.
package dynamicinformer

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer/factory"
)

type (
	DynamicSharedInformerFactory = dynamicinformer.DynamicSharedInformerFactory
	TweakListOptionsFunc         = dynamicinformer.TweakListOptionsFunc
)

func NewDynamicSharedInformerFactory(c dynamic.Interface, resync time.Duration) DynamicSharedInformerFactory {
	return NewFilteredDynamicSharedInformerFactory(c, resync, metav1.NamespaceAll, nil)
}

func NewFilteredDynamicSharedInformerFactory(c dynamic.Interface, resync time.Duration, namespace string,
	tweak TweakListOptionsFunc) DynamicSharedInformerFactory {
	println("peers: ours")
	o := &stream.Options{}
	if namespace != "" {
		o.Namespaces = []string{namespace}
	}
	if tweak != nil {
		var list metav1.ListOptions
		tweak(&list)
		o.LabelSelector, o.FieldSelector = list.LabelSelector, list.FieldSelector
	}
	f, err := factory.New(c, resync, o)
	if err != nil {
		panic(err)
	}
	return f
}
