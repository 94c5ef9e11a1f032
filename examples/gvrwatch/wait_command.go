package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/readiness"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
)

// ready is what --for=ready means. kubectl wait has no such condition.
var ready = condition.New("ready", func(o *unstructured.Unstructured) (bool, error) {
	return readiness.Problem(o) == "", nil
})

// parseCondition parses the value of --for. A condition is one of kubectl wait, or ready.
func parseCondition(text string) (condition.Condition, error) {
	if text == ready.String() {
		return ready, nil
	}
	c, err := condition.Parse(text)
	var bad *stream.OptionsError
	if errors.As(err, &bad) {
		err = fmt.Errorf("--for=%s: %s", text,
			strings.Replace(bad.Problem, "create or delete", "create, delete or ready", 1))
	}
	return c, err
}

// conditionsHelp is what --for takes, in help texts.
const conditionsHelp = "condition=Ready, delete, create, jsonpath={.status.phase}=Running or ready. Ready is what " +
	"kstatus calls current: the controller has seen the latest change and is done with it"

// waitOptions are the flags of wait.
type waitOptions struct {
	watch     watchOptions // what is watched
	timeout   time.Duration
	all       bool
	allowNone bool
	output    string
	texts     []string // of the conditions

	conditions []condition.Condition
}

const waitLong = `Wait until objects meet conditions, as kubectl wait does, and print nothing meanwhile.

When all objects meet all conditions at the same moment, each has a line on stdout, and the exit status
is 0. After --timeout or a signal the exit status is 1, and up to ten objects that do not meet them
have a line on stderr, with the reason; one more line says that there are others. After --timeout each
object that meets them has its line on stdout.

An object that is named need not exist yet. Without names, all objects of the types are waited for,
also those that are created meanwhile, and at least one of any of the types must exist: the command
waits for the first one. With --allow-none it fails at once if an object is not there, as kubectl does.
For --for=delete an object that does not exist is deleted. A recreated object is another one.

A condition is condition=NAME[=STATUS], jsonpath={PATH}[=VALUE], create or delete, as in kubectl, or
ready. Ready is what kstatus calls current: status.observedGeneration is that of the latest change, no
condition says that the object is Reconciling, Stalled or not Ready, and the replicas of a workload are
there. Objects without a status are ready. A Pod that has ended is, and a Job that runs.

If a type is not served, the command fails. With --follow it waits for the type, which must be the only one.

TYPE is what it is for watch, also a pattern or a category. kubectl's --filename, --recursive and
--local are not supported.`

const waitExample = `  gvrwatch wait pod/web-0 --for condition=Ready                 # 30 seconds at most
  gvrwatch wait deploy/web statefulset/db job/seed --for ready --timeout 5m
  gvrwatch wait pods -l app=shop --for ready                    # also if none exists yet
  gvrwatch wait pods --all -A --for ready --timeout 10m
  gvrwatch wait pod/web-0 --for create --for 'jsonpath={.status.podIP}'
  gvrwatch wait pod/web-0 --for delete --timeout 1m
  gvrwatch wait pod/web-0 --for ready --timeout 0 || echo 'not yet'
  gvrwatch wait widgets.example.com/a --for ready --follow      # its type need not be served yet`

func newWait(streams genericiooptions.IOStreams) *cobra.Command {
	o := &waitOptions{}
	cmd := &cobra.Command{
		Use:     "wait TYPE/NAME... | TYPE[,TYPE]... [NAME]... | TYPE[,TYPE]... -l SELECTOR",
		Short:   "Wait until objects meet conditions, as kubectl wait does",
		Long:    waitLong,
		Example: waitExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range unsupported {
				if cmd.Flags().Changed(name) {
					return fmt.Errorf("--%s is not supported: use kubectl wait, or name the objects as TYPE/NAME", name)
				}
			}
			if cmd.Flags().Changed("namespace") && len(o.watch.conn.namespaces) == 0 {
				return errors.New("--namespace: must not be empty") // as from an unset variable
			}
			want, err := o.check(args)
			if err != nil {
				return err
			}
			s, err := o.watch.session(cmd.Context(), streams, nil)
			if err != nil {
				return asRunError(err)
			}
			return asRunError(o.wait(cmd.Context(), s, want))
		},
	}
	o.addFlags(cmd.Flags())
	cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"name", "json"}, noFiles))
	o.watch.complete(cmd)
	return cmd
}

// unsupported are flags of kubectl wait.
var unsupported = []string{"filename", "recursive", "kustomize", "local"}

func (o *waitOptions) addFlags(f *pflag.FlagSet) {
	o.watch.conn.addFlags(f)
	selection := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.watch.what.addFlags(selection)
	for _, name := range []string{"all-namespaces", "selector", "field-selector", "follow"} {
		f.AddFlag(selection.Lookup(name))
	}
	f.BoolVar(&o.all, "all", false,
		"Wait for all objects of the types, as kubectl wait does. It is what happens without names.")
	f.StringArrayVar(&o.texts, "for", nil,
		"What each object has to meet: "+conditionsHelp+". May be repeated: then all conditions at the same moment.")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second,
		"How long to wait, such as 30s or 5m. Zero means to check once, and a negative time means a week.")
	f.BoolVar(&o.allowNone, "allow-none", false,
		"Fail at once if an object that is named, or all that are selected, do not exist.")
	f.StringVarP(&o.output, "output", "o", "",
		"Output format of the objects that meet the conditions. One of: (name, json).")
	f.StringP(unsupported[0], "f", "", "")
	f.BoolP(unsupported[1], "R", false, "")
	f.StringP(unsupported[2], "k", "", "")
	f.Bool(unsupported[3], false, "")
	for _, name := range unsupported {
		f.MarkHidden(name)
	}
}

// check validates the command line without asking the server.
func (o *waitOptions) check(args []string) (wanted, error) {
	if len(args) == 0 {
		return wanted{}, errors.New("missing resource type: name one, as in pods, or an object, as in pod/web-0")
	}
	if len(o.texts) == 0 {
		return wanted{}, errors.New("missing --for: name a condition, such as ready, condition=Ready, delete, create " +
			"or jsonpath={.status.phase}=Running")
	}
	if err := oneOf("output", o.output, "", "name", "json"); err != nil {
		return wanted{}, err
	}
	for _, text := range o.texts {
		c, err := parseCondition(text)
		if err != nil {
			return wanted{}, err
		}
		o.conditions = append(o.conditions, c)
	}
	if o.deletes() && slices.ContainsFunc(o.conditions, func(c condition.Condition) bool { return c != deleted }) {
		return wanted{}, errors.New("--for=delete and other conditions exclude each other: " +
			"an object that does not exist meets none of them")
	}
	if o.needsContent() {
		o.watch.print.output = "json"
	} else {
		o.watch.print.metadataOnly = true
	}
	want, err := o.watch.check(args)
	if err != nil {
		return wanted{}, err
	}
	named := slices.ContainsFunc(want.targets, func(t target) bool { return t.name != "" })
	if o.watch.what.follow && (len(want.targets)+len(want.patterns) > 1 || named && len(o.watch.conn.namespaces) > 1) {
		// The condition would be met before each of them is known.
		return wanted{}, errors.New("--follow: waits for one type and, with a name, in one namespace: " +
			"run one command for each")
	}
	if named {
		switch {
		case o.watch.what.allNamespaces: // as kubectl says it
			return wanted{}, errors.New("a resource cannot be retrieved by name across all namespaces")
		case o.watch.what.labelSelector != "" || o.watch.what.fieldSelector != "":
			return wanted{}, errors.New("name cannot be provided when a selector is specified")
		case o.all:
			return wanted{}, errors.New("--all and names exclude each other: omit one")
		}
	}
	return want, nil
}

// Conditions about whether an object exists.
var created, deleted = condition.MustParse("create"), condition.MustParse("delete")

func (o *waitOptions) deletes() bool { return slices.Contains(o.conditions, deleted) }

// needsContent reports whether more than the metadata of objects is needed.
func (o *waitOptions) needsContent() bool {
	return o.output == "json" || slices.ContainsFunc(o.conditions, func(c condition.Condition) bool {
		return c != created && c != deleted
	})
}
