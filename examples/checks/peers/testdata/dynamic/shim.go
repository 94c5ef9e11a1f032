// Package dynamic has the names of client-go's dynamic that its tests use, with our client.
package dynamic

import (
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

type (
	Interface         = dynamic.Interface
	ResourceInterface = dynamic.ResourceInterface
)

func NewForConfig(cfg *rest.Config) (Interface, error) {
	println("peers: ours")
	return stream.NewClient(cfg, nil)
}
