package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
)

func newView(f *flags, out, errOut io.Writer) *cobra.Command {
	var output string
	var deleted bool
	cmd := &cobra.Command{
		Use:   "view TYPE [NAME]",
		Short: "Print the last state of each object, from the log",
		Long: "Print the last state of each object of a type, as the log has it: no API server is asked. TYPE is a\n" +
			"plural, with the group (widgets.example.com) and the cluster (prod/widgets.example.com) where needed.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"", "json", "yaml"}, output) {
				return fmt.Errorf("invalid --output %q: must be json, yaml or empty", output)
			}
			cfg, log, err := f.openLog(cmd)
			if err != nil {
				return err
			}
			defer log.Close()
			unit, partial, err := findResource(cmd.Context(), log, args[0])
			if err != nil {
				return failure{err}
			}
			if partial {
				fmt.Fprintf(errOut, "%s is within a snapshot: objects may be missing, or older than others\n", unit)
			}
			var found []engine.Message
			messages, err := log.Objects(cmd.Context(), unit, true)
			if err != nil {
				return failure{err}
			}
			for _, m := range messages {
				only := cfg.Selection.Namespaces
				if (deleted || m.Type != engine.Deleted) && (len(args) == 1 || m.Name == args[1]) &&
					(len(only) == 0 || slices.Contains(only, m.Unit.Namespace)) {
					found = append(found, m)
				}
			}
			if len(args) == 2 && len(found) == 0 {
				return failure{fmt.Errorf("%s %q is not in the log", unit, args[1])}
			}
			slices.SortFunc(found, func(a, b engine.Message) int {
				return cmp.Or(strings.Compare(a.Unit.Namespace, b.Unit.Namespace), strings.Compare(a.Name, b.Name),
					cmp.Compare(a.Revision, b.Revision))
			})
			if output == "" {
				return table(out, found)
			}
			return documents(out, found, output, len(args) == 2 && len(found) == 1)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml prints the objects.")
	cmd.Flags().BoolVar(&deleted, "deleted", false, "Show deleted objects, too, as long as the log has them.")
	return cmd
}

// findResource returns the resource that name stands for among those in the log, and whether a part of it is within a
// snapshot.
func findResource(ctx context.Context, log engine.Log, name string) (unit engine.Unit, partial bool, err error) {
	cluster, resource, given := strings.Cut(name, "/")
	if !given {
		cluster, resource = "", name
	}
	var names []string
	entries, err := log.Positions(ctx, engine.Unit{})
	if err != nil {
		return unit, false, err
	}
	for _, e := range entries {
		u := e.Unit.Whole()
		full := strings.TrimPrefix(u.String(), u.Cluster+"/")
		if cluster != "" && u.Cluster != cluster || resource != u.Resource && resource != full {
			continue
		}
		unit, partial = u, partial || e.Position.ResourceVersion == ""
		if !slices.Contains(names, u.String()) {
			names = append(names, u.String())
		}
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		return unit, false, fmt.Errorf("no resource in the log has the name %q", name)
	case 1:
		return unit, partial, nil
	}
	return unit, false, fmt.Errorf("%q is ambiguous: must be one of %s", name, strings.Join(names, ", "))
}

func table(out io.Writer, messages []engine.Message) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAMESPACE\tNAME\tUID\tVERSION\tPUBLISHED")
	for _, m := range messages {
		age := duration.HumanDuration(time.Since(m.Time)) + " ago"
		if m.Type == engine.Deleted {
			age += " (deleted)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", clean(m.Unit.Namespace), clean(m.Name), clean(m.UID),
			clean(m.ResourceVersion), age)
	}
	if err := w.Flush(); err != nil {
		return failure{err}
	}
	return nil
}

// documents prints the objects, as a List unless single.
func documents(out io.Writer, messages []engine.Message, format string, single bool) error {
	objects := []json.RawMessage{}
	for _, m := range messages {
		ev, err := message.Decode(m.Data)
		if err != nil {
			return failure{fmt.Errorf("message %d of the log: %w", m.Revision, err)}
		}
		objects = append(objects, ev.Data)
	}
	var all any = map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}
	if single {
		all = objects[0]
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err == nil && format == "yaml" {
		data, err = yaml.JSONToYAML(data)
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "%s\n", strings.TrimSuffix(string(data), "\n"))
	}
	if err != nil {
		return failure{err}
	}
	return nil
}
