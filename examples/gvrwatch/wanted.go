package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// selectionFlags select types and objects, beside the arguments.
type selectionFlags struct {
	labelSelector string
	fieldSelector string
	allNamespaces bool

	all        bool
	categories []string
	exclude    []string
	follow     bool
	candidates []string
}

func (o *selectionFlags) addFlags(f *pflag.FlagSet) {
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false,
		"Watch across all namespaces, whatever --namespace says.")
	f.BoolVar(&o.all, "all", false,
		"Watch every type but those that change all the time. It is the pattern '*', without "+defaultExclude+
			". To watch them too, name them after '*' instead of --all: gvrwatch watch '*,events,leases' -A.")
	f.StringSliceVar(&o.categories, "category", nil,
		"Watch the types of this category, such as all. May be repeated.")
	f.StringSliceVar(&o.exclude, "exclude", nil,
		"Exclude types that match this pattern: secrets, '*.example.com'. It applies to what patterns, categories "+
			"and --all select. May be repeated.")
	f.BoolVar(&o.follow, "follow", false,
		"Wait for named types that are not served, or may not be watched. Resume whenever they come back.")
	f.StringSliceVar(&o.candidates, "candidates", nil,
		"Namespaces to try for a followed type that you may not watch across the cluster, if you may not list "+
			"namespaces.")
	f.StringVarP(&o.labelSelector, "selector", "l", "",
		"Label selector, as in kubectl: key1=value1,key2 in (a,b),!key3.")
	f.StringVar(&o.fieldSelector, "field-selector", "",
		"Field selector, as in kubectl: key1=value1,key2!=value2.")
}

// target is a type or, with a name, one object of it.
type target struct {
	ref  gvr.Ref
	name string
}

// wanted is what the command line asks to watch.
type wanted struct {
	args       []string // as they are on the command line
	targets    []target
	patterns   []string
	categories []string
	follows    bool // types that are not served are waited for
	several    bool // more than one resource may be watched
}

// name returns the name of the one object that is wanted of each type. It is empty if all are.
func (w *wanted) name() string {
	if len(w.targets) == 0 {
		return ""
	}
	return w.targets[0].name
}

// defaultExclude lists the patterns that --all leaves out, for the help text.
var defaultExclude = strings.Join(follow.Selection{}.Excluded(), ", ")

// check validates the command line without asking the server.
func (o *watchOptions) check(args []string) (wanted, error) {
	if err := o.checkFlags(); err != nil {
		return wanted{}, err
	}
	want := wanted{args: args, categories: o.what.categories}
	if err := o.checkArgs(args, &want); err != nil {
		return wanted{}, err
	}
	if o.what.all {
		want.patterns = []string{"*"}
	}
	selects := len(want.patterns)+len(want.categories) > 0
	want.follows = o.what.follow || selects
	otherName := func(t target) bool { return t.name != want.name() }
	switch {
	case want.follows && slices.ContainsFunc(want.targets, otherName),
		want.name() != "" && selects:
		return wanted{}, errors.New("a followed type is watched as a whole, or for one object with the same name " +
			"in all types: omit the names, or --follow and patterns")
	case o.begin.resourceVersion != "" && want.follows:
		return wanted{}, errors.New("--resource-version: applies only to named types without --follow, " +
			"because no version is that of all types")
	case len(o.what.exclude) > 0 && !selects:
		return wanted{}, errors.New("--exclude: applies only to patterns, --category and --all")
	case len(o.what.candidates) > 0 && !want.follows:
		return wanted{}, errors.New("--candidates: applies only to followed types: add --follow")
	case len(o.what.candidates) > 0 && !o.what.allNamespaces:
		return wanted{}, errors.New("--candidates: applies only to all namespaces: add -A")
	}
	_, err := o.selection(want, nil).Selects(gvr.Resource{})
	return want, asFlagError(err)
}

func (o *watchOptions) checkFlags() error {
	slices.Sort(o.conn.namespaces)
	o.conn.namespaces = slices.Compact(o.conn.namespaces)
	for _, ns := range o.conn.namespaces {
		if reasons := validation.ValidateNamespaceName(ns, false); len(reasons) > 0 {
			return fmt.Errorf("--namespace=%s: must be the name of a namespace: %s", ns, strings.Join(reasons, "; "))
		}
	}
	if timeout := o.conn.overrides.Timeout; timeout != "" {
		if d, err := clientcmd.ParseTimeout(timeout); err != nil || d < 0 {
			return fmt.Errorf("--request-timeout=%s: must be a duration, such as 30s, and not negative", timeout)
		}
	}
	if _, err := labels.Parse(o.what.labelSelector); err != nil {
		return fmt.Errorf("--selector=%s: must be a label selector: %w", o.what.labelSelector, err)
	}
	if _, err := fields.ParseSelector(o.what.fieldSelector); err != nil {
		return fmt.Errorf("--field-selector=%s: must be a field selector: %w", o.what.fieldSelector, err)
	}
	for _, check := range []func() error{
		o.checkOutput, o.checkEnd, o.checkStart, o.exec.check, o.filter.check, o.record.check,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkArgs reads TYPE[,TYPE]... [NAME]... or TYPE/NAME [TYPE/NAME]..., as kubectl does.
func (o *watchOptions) checkArgs(args []string, want *wanted) error {
	switch {
	case o.what.all && len(args) > 0:
		// In kubectl, --all selects all objects of a type: the user may have meant that.
		return fmt.Errorf("--all and %q exclude each other, because --all watches every type: "+
			"omit one, or type '*,%s'", args[0], args[0])
	case o.what.all && len(o.what.categories) > 0:
		return errors.New("--all and --category exclude each other, because --all watches every type: omit one")
	case o.what.all:
		return nil
	case len(args) == 0 && len(o.what.categories) > 0:
		return nil
	case len(args) == 0:
		return errors.New("missing resource type: name one, or several separated by commas, or use --all")
	}
	if strings.HasSuffix(args[0], "/") {
		return fmt.Errorf("invalid argument %q: must have a name after the slash, as TYPE/NAME", args[0])
	}
	if _, _, ok := cutName(args[0]); ok {
		for _, arg := range args {
			ref, name, ok := cutName(arg)
			if !ok {
				return fmt.Errorf("invalid argument %q: must be TYPE/NAME, as %q is", arg, args[0])
			}
			if err := want.add(ref, name); err != nil {
				return err
			}
		}
		return nil
	}
	names := args[1:]
	if slices.Contains(names, "") {
		return errors.New("invalid object name: it must not be empty") // as from an unset variable
	}
	if len(names) == 0 {
		names = []string{""} // all
	}
	for name := range strings.SplitSeq(args[0], ",") {
		if strings.ContainsAny(name, `*?[\`) { // names have none of these characters
			if len(args) > 1 {
				return fmt.Errorf("unexpected argument %q: a pattern selects all objects of its types", args[1])
			}
			want.patterns = append(want.patterns, name)
			continue
		}
		ref, err := gvr.ParseRef(name)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := want.add(ref, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// cutName splits TYPE/NAME. It reports false for a type, which may have slashes, too: apps/v1/Deployment, v1/pods.
func cutName(arg string) (gvr.Ref, string, bool) {
	slash := strings.LastIndexByte(arg, '/')
	if slash < 0 || strings.ContainsAny(arg, `*?[\,`) {
		return gvr.Ref{}, "", false
	}
	// ParseRef takes GROUP/TYPE, too. With one slash that is only meant if it begins with a version:
	// v1.example.com/widgets.
	if _, err := gvr.ParseRef(arg); err == nil && (strings.Count(arg, "/") > 1 || version.MatchString(arg)) {
		return gvr.Ref{}, "", false
	}
	ref, err := gvr.ParseRef(arg[:slash])
	return ref, arg[slash+1:], err == nil && arg[slash+1:] != ""
}

var version = regexp.MustCompile(`^v[0-9]`)

func (w *wanted) add(ref gvr.Ref, name string) error {
	if reasons := content.IsPathSegmentName(name); len(reasons) > 0 {
		if namespace, _, slash := strings.Cut(name, "/"); slash { // kubespy's way
			reasons = append(reasons, "for a namespace use -n "+namespace)
		}
		return fmt.Errorf("invalid object name %q: %s", name, strings.Join(reasons, "; "))
	}
	w.targets = append(w.targets, target{ref, name})
	return nil
}

// selection returns the Selection to follow in these namespaces.
func (o *watchOptions) selection(want wanted, namespaces []string) follow.Selection {
	s := follow.Selection{
		Resources: want.patterns[:len(want.patterns):len(want.patterns)], Categories: want.categories,
		Exclude: o.what.exclude, Namespaces: namespaces, CandidateNamespaces: o.what.candidates,
	}
	for _, t := range want.targets {
		s.Resources = append(s.Resources, t.ref.String())
	}
	return s
}

// asFlagError rewords the error of an invalid Selection in terms of the command line.
func asFlagError(err error) error {
	var bad *stream.OptionsError
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
