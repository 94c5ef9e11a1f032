package main

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
)

// wanted is what the command line asks to watch.
type wanted struct {
	names      []gvr.Ref
	patterns   []string
	categories []string
	follows    bool // types that are not served are waited for
	several    bool // more than one resource may be watched
}

// defaultExclude lists the patterns that --all leaves out, for the help text.
var defaultExclude = strings.Join(follow.DefaultExclude(), ", ")

// check validates the command line without asking the server.
func (o *watchOptions) check(args []string) (wanted, error) {
	if err := o.checkFlags(); err != nil {
		return wanted{}, err
	}
	want := wanted{categories: o.categories}
	if err := o.checkArgs(args, &want); err != nil {
		return wanted{}, err
	}
	if o.all {
		want.patterns = []string{"*"}
	}
	selects := len(want.patterns)+len(want.categories) > 0
	want.follows = o.follow || selects
	switch {
	case len(o.exclude) > 0 && !selects:
		return wanted{}, errors.New("--exclude: applies only to patterns, --category and --all")
	case len(o.candidates) > 0 && !want.follows:
		return wanted{}, errors.New("--candidates: applies only to followed types: add --follow")
	case len(o.candidates) > 0 && !o.allNamespaces:
		return wanted{}, errors.New("--candidates: applies only to all namespaces: add -A")
	}
	_, err := o.selection(want, nil).Selects(gvr.Resource{})
	return want, asFlagError(err)
}

func (o *watchOptions) checkFlags() error {
	if err := oneOf("output", o.output, "", "wide", "json", "yaml", "name"); err != nil {
		return err
	}
	if o.timeout < 0 {
		return fmt.Errorf("--timeout=%v: must not be negative", o.timeout)
	}
	if o.limit < 0 {
		return fmt.Errorf("--limit=%d: must not be negative", o.limit)
	}
	if ns := *o.flags.Namespace; ns != "" {
		if reasons := validation.ValidateNamespaceName(ns, false); len(reasons) > 0 {
			return fmt.Errorf("--namespace=%s: must be the name of a namespace: %s", ns, strings.Join(reasons, "; "))
		}
	}
	if o.allowMissing && !o.untilSynced {
		return errors.New("--allow-missing: applies only to --until-synced")
	}
	if _, err := labels.Parse(o.labelSelector); err != nil {
		return fmt.Errorf("--selector=%s: must be a label selector: %w", o.labelSelector, err)
	}
	if _, err := fields.ParseSelector(o.fieldSelector); err != nil {
		return fmt.Errorf("--field-selector=%s: must be a field selector: %w", o.fieldSelector, err)
	}
	return nil
}

func (o *watchOptions) checkArgs(args []string, want *wanted) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("unexpected argument %q: separate resource types with commas, "+
			"and select a single object with --field-selector metadata.name=NAME", args[1])
	case o.all && len(args) > 0:
		// In kubectl, --all selects all objects of a type: the user may have meant that.
		return fmt.Errorf("--all and %q exclude each other, because --all watches every type: "+
			"omit one, or add '*' to the names", args[0])
	case o.all && len(o.categories) > 0:
		return errors.New("--all and --category exclude each other, because --all watches every type: omit one")
	case o.all:
		return nil
	case len(args) == 0 && len(o.categories) > 0:
		return nil
	case len(args) == 0:
		return errors.New("missing resource type: name one, or several separated by commas, or use --all")
	}
	for name := range strings.SplitSeq(args[0], ",") {
		if strings.ContainsAny(name, `*?[\`) { // names have none of these characters
			want.patterns = append(want.patterns, name)
			continue
		}
		ref, err := gvr.ParseRef(name)
		if err != nil {
			return err
		}
		want.names = append(want.names, ref)
	}
	return nil
}

// selection returns the Selection to follow in these namespaces.
func (o *watchOptions) selection(want wanted, namespaces []string) follow.Selection {
	s := follow.Selection{
		Resources: want.patterns[:len(want.patterns):len(want.patterns)], Categories: want.categories,
		Exclude: o.exclude, Namespaces: namespaces, CandidateNamespaces: o.candidates,
	}
	for _, ref := range want.names {
		s.Resources = append(s.Resources, ref.String())
	}
	return s
}

// asFlagError rewords the error of an invalid Selection in terms of the command line.
func asFlagError(err error) error {
	var bad *follow.OptionsError
	if !errors.As(err, &bad) {
		return err
	}
	flag := map[string]string{
		"Exclude": "exclude", "Categories": "category", "Namespaces": "namespace", "CandidateNamespaces": "candidates",
	}[bad.Field]
	if flag == "" {
		return fmt.Errorf("invalid pattern %q: %s", bad.Value, bad.Problem)
	}
	return fmt.Errorf("--%s=%s: %s", flag, bad.Value, bad.Problem)
}
