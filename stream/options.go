package stream

import (
	"errors"
	"log/slog"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Options narrow what a Stream watches. The zero value is the default.
type Options struct {
	// Namespace to watch in. Empty means all of the cluster.
	Namespace string
	// LabelSelector in the syntax of kubectl -l. Empty means every object.
	LabelSelector string
	// FieldSelector in the syntax of kubectl --field-selector. Which fields a
	// resource knows only its server can tell. Empty means every object.
	FieldSelector string
	// Logger is told of failures and retries (Warn), of their end (Info), and of
	// every request (Debug). Nil means that nothing is logged.
	Logger *slog.Logger
}

// check returns a copy of o, or what is wrong with it for r.
func (o *Options) check(r gvr.Resource) (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if !r.ClusterWatch() {
		return c, &NotWatchableError{Resource: r}
	}
	if c.Namespace != "" {
		if !r.Namespaced {
			return c, &NotNamespacedError{Resource: r, Namespace: c.Namespace}
		}
		if reasons := validation.ValidateNamespaceName(c.Namespace, false); len(reasons) > 0 {
			return c, &NamespaceError{Namespace: c.Namespace, Err: errors.New(strings.Join(reasons, "; "))}
		}
	}
	if _, err := labels.Parse(c.LabelSelector); err != nil {
		return c, &SelectorError{Kind: "label", Selector: c.LabelSelector, Err: err}
	}
	if _, err := fields.ParseSelector(c.FieldSelector); err != nil {
		return c, &SelectorError{Kind: "field", Selector: c.FieldSelector, Err: err}
	}
	return c, nil
}
