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
	"debug": "kubectl debug", "delete": "kubectl delete", "describe": "kubectl describe", "edit": "kubectl edit",
	"exec": "gvrwatch watch TYPE --exec COMMAND, or kubectl exec", "explain": "kubectl explain",
	"label": "kubectl label", "log": "kubectl logs", "logs": "kubectl logs", "patch": "kubectl patch",
	"port-forward": "kubectl port-forward", "rollout": "kubectl rollout", "run": "kubectl run",
	"scale":         "kubectl scale",
	"api-resources": "gvrwatch resources", "api-versions": "gvrwatch resources", "types": "gvrwatch resources",
	"changes": "gvrwatch watch TYPE NAME -o diff", "diff": "gvrwatch watch TYPE -o diff",
	"status": "gvrwatch watch TYPE NAME -o diff", "trace": "gvrwatch watch TYPE,TYPE -o diff",
	"events": "gvrwatch watch events", "follow": "gvrwatch watch TYPE --follow", "list": "gvrwatch get",
	"ls": "gvrwatch get", "tail": "gvrwatch watch, or kubectl logs",
}

// flagHint says what people meant by a flag that does not exist.
type flagHint struct {
	flag string // one of the command, or else:
	text string
}

const notLogs = "gvrwatch watches objects: use kubectl logs"

var flagHints = map[string]flagHint{
	// kubectl
	"as-user-extra":    {text: "use kubectl get --as-user-extra"},
	"chunk-size":       {text: "lists are read in pages of 500 objects anyway"},
	"dry-run":          {text: "gvrwatch changes nothing on the server"},
	"f":                {text: "did you mean --follow? For a file: kubectl get -f FILE"},
	"filename":         {text: "use kubectl get --filename"},
	"ignore-not-found": {flag: "allow-missing"},
	"k":                {text: "use kubectl get --kustomize"},
	"kustomize":        {text: "use kubectl get --kustomize"},
	"R":                {text: "use kubectl get --recursive"},
	"raw":              {text: "use kubectl get --raw"},
	"recursive":        {text: "use kubectl get --recursive"},
	"show-kind":        {text: "use -o name"},
	"sort-by":          {text: "use kubectl get --sort-by"},
	"subresource":      {text: "use kubectl get --subresource"},
	"template":         {text: "use -o go-template=TEMPLATE"},
	// kubectl logs and stern
	"c":                {text: notLogs},
	"container":        {text: notLogs},
	"max-log-requests": {text: notLogs},
	"no-follow":        {flag: "until-synced"},
	"only-log-lines":   {text: notLogs},
	"p":                {text: notLogs},
	"previous":         {text: notLogs},
	"since":            {text: "use gvrwatch watch --since"},
	"since-time":       {flag: "since", text: "use gvrwatch watch --since"},
	"t":                {flag: "timestamps"},
	"tail":             {text: "did you mean --limit? For logs: kubectl logs --tail"},
	// kubespy and event exporters
	"all-types": {flag: "all"},
	"interval":  {text: "events are printed when they come"},
	"once":      {flag: "until-synced"},
}

// explainFlag adds to an error of a flag that does not exist what was meant.
func explainFlag(cmd *cobra.Command, err error) error {
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
	if strings.Contains(err.Error(), "Did you mean") {
		return err
	}
	cmd.SuggestionsMinimumDistance = 2
	if similar := cmd.SuggestionsFor(name); len(similar) > 0 {
		return fmt.Errorf("%w: did you mean %s?", err, strings.Join(similar, " or "))
	}
	return err
}
