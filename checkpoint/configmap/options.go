package configmap

import (
	"cmp"
	"fmt"
	"os"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

const (
	// DefaultMaxBytes leaves some room to MaxBytesLimit for what others may add.
	DefaultMaxBytes = 1_000_000
	// MaxBytesLimit is what the server allows all values of a ConfigMap (MaxSecretSize
	// in k8s.io/api/core/v1, which its validation uses for ConfigMaps, too).
	MaxBytesLimit = 1 << 20
)

// Options say how a Store keeps checkpoints.
type Options struct {
	// MaxBytes is how big all values of the ConfigMap may be together, data of others
	// among them, for an index to be kept. (Positions are kept beyond it, and the
	// server refuses what is over MaxBytesLimit.) Zero means DefaultMaxBytes.
	MaxBytes int
	// Holder is what others are told about this process (checkpoint.FencedError). Empty
	// means the host's name, which in a container is the Pod's, and the process id.
	Holder string
}

func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	c.MaxBytes = cmp.Or(c.MaxBytes, DefaultMaxBytes)
	if c.MaxBytes < 0 || c.MaxBytes > MaxBytesLimit {
		return c, &checkpoint.OptionsError{Option: "MaxBytes", Reason: fmt.Sprintf("give at most %d, or zero for the default", MaxBytesLimit)}
	}
	if c.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "an unknown host"
		}
		c.Holder = fmt.Sprintf("%s (process %d)", host, os.Getpid())
	}
	return c, nil
}
