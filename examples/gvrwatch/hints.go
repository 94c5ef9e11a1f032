package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandHints say what people of kubectl, stern and kubespy meant by a command that does not exist.
var commandHints = map[string]string{
	"annotate": "kubectl annotate", "apply": "kubectl apply", "attach": "kubectl attach", "auth": "kubectl auth",
	"cluster-info": "kubectl cluster-info", "config": "kubectl config", "cp": "kubectl cp", "create": "kubectl create",
	"debug": "kubectl debug", "delete": "kubectl delete", "describe": "kubectl describe", "drain": "kubectl drain",
	"edit": "kubectl edit",
	"exec": "gvrwatch watch TYPE --exec COMMAND, or kubectl exec", "explain": "kubectl explain",
	"label": "kubectl label", "log": "kubectl logs", "logs": "kubectl logs", "patch": "kubectl patch",
	"plugin": "kubectl plugin", "port-forward": "kubectl port-forward", "replace": "kubectl replace",
	"rollout": "gvrwatch wait TYPE/NAME --for ready, or kubectl rollout", "run": "kubectl run",
	"scale": "kubectl scale", "set": "kubectl set",
	"api-resources": "gvrwatch resources", "api-versions": "gvrwatch resources", "types": "gvrwatch resources",
	"changes": "gvrwatch watch TYPE NAME -o diff", "diff": "gvrwatch watch TYPE -o diff",
	"record": "gvrwatch watch TYPE NAME --record FILE",
	"status": "gvrwatch watch TYPE NAME --changed .status -o diff",
	"trace":  "gvrwatch watch TYPE,TYPE -l SELECTOR -o diff",
	"events": "gvrwatch watch events; with --field-selector involvedObject.name=NAME, those of an object",
	"follow": "gvrwatch watch TYPE --follow", "list": "gvrwatch get", "ls": "gvrwatch get",
	"tail": "gvrwatch watch, or kubectl logs",
}

// flagHint says what people meant by a flag that does not exist.
type flagHint struct {
	flag string // one of the command, or else:
	text string
}

const (
	notLogs   = "gvrwatch watches objects: use kubectl logs"
	notLines  = "lines are not searched: pipe them to grep"
	notByName = "objects are selected by -l and --field-selector"
)

var flagHints = map[string]flagHint{
	// kubectl
	"allow-missing-template-keys": {text: "a key that an object lacks is no error"},
	"api-group":                   {text: "pipe the list to grep: APIVERSION has the group"},
	"as-user-extra":               {text: "use kubectl get --as-user-extra"},
	"chunk-size":                  {text: "lists are read in pages of 500 objects anyway"},
	"client":                      {text: "the server is not asked for its version"},
	"dry-run":                     {text: "gvrwatch changes nothing on the server"},
	"f":                           {text: "did you mean --follow? For a file: kubectl get -f FILE"},
	"filename":                    {text: "use kubectl get --filename"},
	"ignore-not-found":            {flag: "allow-missing"},
	"k":                           {text: "use kubectl get --kustomize"},
	"kustomize":                   {text: "use kubectl get --kustomize"},
	"namespaced":                  {text: "pipe the list to grep: PER-NAMESPACE says it"},
	"R":                           {text: "use kubectl get --recursive"},
	"raw":                         {text: "use kubectl get --raw"},
	"recursive":                   {text: "use kubectl get --recursive"},
	"server-print":                {text: "use kubectl get --server-print, or -o name"},
	"show-kind":                   {text: "use -o name"},
	"sort-by":                     {text: "use kubectl get --sort-by"},
	"subresource":                 {text: "use kubectl get --subresource"},
	"template":                    {text: "use -o go-template=TEMPLATE"},
	"warnings-as-errors":          {text: "use kubectl get --warnings-as-errors"},
	// kubectl logs and stern
	"burst":                {text: "there is no limit to set"},
	"c":                    {text: notLogs},
	"completion":           {text: "use gvrwatch completion SHELL"},
	"condition":            {text: "use gvrwatch wait TYPE --for condition=NAME"},
	"config":               {text: "no file has defaults: use an alias of the shell"},
	"container":            {text: notLogs},
	"container-state":      {text: "use --field-selector status.phase=Running, or kubectl logs"},
	"d":                    {text: notLogs},
	"diff-container":       {text: notLogs},
	"e":                    {text: notLines},
	"E":                    {text: notLogs},
	"ephemeral-containers": {text: notLogs},
	"exclude-container":    {text: notLogs},
	"exclude-pod":          {text: notByName},
	"H":                    {text: notLines},
	"highlight":            {text: notLines},
	"i":                    {text: notLines},
	"include":              {text: notLines},
	"init-containers":      {text: notLogs},
	"max-log-requests":     {text: notLogs},
	"no-follow":            {flag: "until-synced"},
	"node":                 {text: "use --field-selector spec.nodeName=NAME"},
	"only-log-lines":       {text: notLogs},
	"p":                    {text: notLogs},
	"pager":                {text: "use --color always and pipe to less -R"},
	"previous":             {text: notLogs},
	"prompt":               {text: notByName},
	"qps":                  {text: "there is no limit to set"},
	"show-hidden-options":  {flag: helpAllName},
	"since":                {text: "use gvrwatch watch --since"},
	"since-time":           {flag: "since", text: "use gvrwatch watch --since"},
	"stdin":                {text: "use gvrwatch replay FILE"},
	"t":                    {flag: "timestamps"},
	"T":                    {text: "use -o go-template-file=FILE"},
	"tail":                 {text: "use --watch-only for changes alone. For logs: kubectl logs --tail"},
	"template-file":        {text: "use -o go-template-file=FILE"},
	"timezone":             {text: "set the environment variable TZ"},
	"v":                    {flag: "version"},
	"verbosity":            {flag: "v"},
	// kubespy and event exporters
	"all-types": {flag: "all"},
	"interval":  {text: "events are printed when they come"},
	"once":      {flag: "until-synced"},
}

// explainFlag adds to an error of a flag that does not exist what was meant, and to one of a bool what it may be.
func explainFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) && !errors.Is(err, pflag.ErrHelp) && invalid.GetFlag().Value.Type() == "bool" {
		return fmt.Errorf("--%s=%s: must be true or false", invalid.GetFlag().Name, invalid.GetValue())
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name := unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" { // of -Afx, the one that is unknown
		name = name[:1]
	}
	hint := flagHints[name]
	switch {
	case hint.flag != "" && cmd.Flags().Lookup(hint.flag) != nil:
		return fmt.Errorf("%w: did you mean --%s?", err, hint.flag)
	case hint.text != "":
		return fmt.Errorf("%w: %s", err, hint.text)
	}
	if similar := similarFlags(cmd, name); len(similar) > 0 {
		return fmt.Errorf("%w: did you mean --%s?", err, strings.Join(similar, " or --"))
	}
	return err
}

// similarFlags returns the flags whose names are similar, by cobra's rule for commands, or the longest one that the
// name begins with.
func similarFlags(cmd *cobra.Command, name string) (similar []string) {
	if len(name) < 3 {
		return nil // nearly everything is similar
	}
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	longest := ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		if strings.HasPrefix(name, f.Name) && len(f.Name) > max(2, len(longest)) {
			longest = f.Name
		}
	})
	similar = flags.SuggestionsFor(name)
	if len(similar) == 0 && longest != "" {
		similar = []string{longest}
	}
	slices.Sort(similar)
	return similar[:min(len(similar), 3)]
}

// explainCommand adds to cobra's error of a command that does not exist what was meant.
func explainCommand(cmd *cobra.Command, err error) error {
	name := ""
	if n, _ := fmt.Sscanf(err.Error(), "unknown command %q for ", &name); n != 1 {
		return err
	}
	if use, known := commandHints[name]; known && !cmd.HasParent() {
		return fmt.Errorf("unknown command %q: use %s", name, use)
	}
	if cmd.HasParent() && !cmd.HasSubCommands() {
		return fmt.Errorf("unexpected argument %q: %s has no arguments", name, cmd.CommandPath())
	}
	if strings.Contains(err.Error(), "Did you mean") {
		return err
	}
	cmd.SuggestionsMinimumDistance = 2
	if similar := cmd.SuggestionsFor(name); len(similar) > 0 {
		return fmt.Errorf("%w: did you mean %s?", err, strings.Join(similar, " or "))
	}
	if !cmd.HasParent() {
		return fmt.Errorf("%w: to watch a type, use gvrwatch watch TYPE", err)
	}
	return err
}
