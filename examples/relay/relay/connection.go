package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/discovery"
)

// Connection is how to reach a cluster.
type Connection struct {
	Name     string
	Config   *rest.Config
	Client   dynamic.Interface
	Resolver *discovery.Resolver

	mu  sync.Mutex
	uid string
}

// Connect reads the configuration of a cluster. It makes no request.
func Connect(c Cluster) (*Connection, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.Context})
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig can't be used: %w", err)
	}
	if _, known := raw.Contexts[c.Context]; c.Context != "" && !known {
		return nil, fmt.Errorf("invalid context %q: must be one of the kubeconfig: %s", c.Context,
			strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
	}
	cfg, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) && c.Context == "" {
		err = errors.New("no cluster configured: name a kubeconfig with --kubeconfig or KUBECONFIG")
	}
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig can't be used: %w", err)
	}
	name := c.Name
	for _, other := range []string{c.Context, raw.CurrentContext, "cluster"} {
		if name == "" {
			name = other
		}
	}
	return connect(name, cfg)
}

func connect(name string, cfg *rest.Config) (*Connection, error) {
	made, err := gvrwatch.Connect(cfg)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig can't be used: %w", err)
	}
	return &Connection{Name: name, Config: cfg, Client: made.Client(), Resolver: made.Resolver()}, nil
}

// UID identifies the cluster: the uid of its namespace kube-system or, where that can't be read, Name. It is read once.
func (c *Connection) UID(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uid == "" {
		cluster, err := gvrwatch.Connect(c.Config)
		if err != nil {
			return "", err
		}
		id, err := cluster.Cluster(ctx)
		if err != nil {
			return "", err
		}
		if c.uid = id.UID; c.uid == "" {
			c.uid = c.Name
		}
	}
	return c.uid, nil
}
