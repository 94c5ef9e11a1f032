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

// wanted is what the command line says is to be watched.
type wanted struct {
	names      []gvr.Ref
	patterns   []string
	categories []string
	follows    bool // it is a desired set
	several    bool // resources
}

// excluded are the patterns of what --all leaves out, for people.
var defaultExclude = strings.Join(follow.DefaultExclude(), ", ")

// check finds what is wrong with the command line alone.
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
		return wanted{}, errors.New("--exclude: there is nothing to leave anything out of: it is for patterns, --category and --all")
	case len(o.candidates) > 0 && !want.follows:
		return wanted{}, errors.New("--candidates: they are for what is followed: add --follow")
	case len(o.candidates) > 0 && !o.allNamespaces:
		return wanted{}, errors.New("--candidates: they are tried where all namespaces are wanted: add -A")
	}
	_, err := o.selection(want, nil).Selects(gvr.Resource{})
	return want, asFlagError(err)
}

func (o *watchOptions) checkFlags() error {
	if err := oneOf("output", o.output, "", "wide", "json", "yaml", "name"); err != nil {
		return err
	}
	if o.timeout < 0 {
		return fmt.Errorf("--timeout=%v: it must not be negative", o.timeout)
	}
	if o.limit < 0 {
		return fmt.Errorf("--limit=%d: it must not be negative", o.limit)
	}
	if ns := *o.flags.Namespace; ns != "" {
		if reasons := validation.ValidateNamespaceName(ns, false); len(reasons) > 0 {
			return fmt.Errorf("--namespace=%s: it must be the name of a namespace: %s", ns, strings.Join(reasons, "; "))
		}
	}
	if _, err := labels.Parse(o.labelSelector); err != nil {
		return fmt.Errorf("--selector=%s: it must be a label selector: %w", o.labelSelector, err)
	}
	if _, err := fields.ParseSelector(o.fieldSelector); err != nil {
		return fmt.Errorf("--field-selector=%s: it must be a field selector: %w", o.fieldSelector, err)
	}
	return nil
}

func (o *watchOptions) checkArgs(args []string, want *wanted) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("%q is one argument too many: several resource types are written with commas, single objects are chosen with --field-selector metadata.name=NAME", args[1])
	case o.all && len(args) > 0:
		// kubectl's --all are all objects of a type; that somebody may have meant.
		return fmt.Errorf("--all watches every type, so that %q is one too many: leave either out, or write '*' among the names", args[0])
	case o.all && len(o.categories) > 0:
		return errors.New("--all watches every type, so that --category says nothing more: leave either out")
	case o.all:
		return nil
	case len(args) == 0 && len(o.categories) > 0:
		return nil
	case len(args) == 0:
		return errors.New("name at least one resource type, several with commas between them, or give --all")
	}
	for name := range strings.SplitSeq(args[0], ",") {
		if strings.ContainsAny(name, `*?[\`) { // no name has any of these
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

// selection is what is to be followed, in these namespaces.
func (o *watchOptions) selection(want wanted, namespaces []string) follow.Selection {
	s := follow.Selection{
		Resources: want.patterns[:len(want.patterns):len(want.patterns)], Categories: want.categories,
		Exclude: o.exclude, Namespaces: namespaces, Candidates: o.candidates,
	}
	for _, ref := range want.names {
		s.Resources = append(s.Resources, ref.String())
	}
	return s
}

// inFlags says what a Selection can't hold as the command line has it.
func asFlagError(err error) error {
	var bad *follow.OptionsError
	if !errors.As(err, &bad) {
		return err
	}
	switch bad.Field {
	case "Resources":
		return fmt.Errorf("%q is no pattern of resource types: %s", bad.Value, bad.Problem)
	case "Categories":
		return fmt.Errorf("--category=%s: %s", bad.Value, bad.Problem)
	}
	return fmt.Errorf("--%s=%s: %s", strings.ToLower(bad.Field), bad.Value, bad.Problem)
}
