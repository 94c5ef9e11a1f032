package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/gvr"
)

func newResources(streams genericiooptions.IOStreams) *cobra.Command {
	flags := &connection{}
	var output string
	cmd := &cobra.Command{
		Use:   "resources",
		Short: "List the resource types that can be watched",
		Long: "List the resource types that can be listed and watched, each in the server's preferred version,\n" +
			"with whether it can be watched across the cluster and inside a namespace. Your permissions are\n" +
			"not checked.",
		Example: "  gvrwatch resources\n  gvrwatch resources -o name",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("output", output, "", "wide", "name", "json"); err != nil {
				return err
			}
			return asRunError(listResources(cmd.Context(), streams, flags, output))
		},
	}
	flags.addFlags(cmd.Flags())
	flags.complete(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format: wide, name, json.")
	cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"wide", "name", "json"}, noFiles))
	return cmd
}

func listResources(
	ctx context.Context, streams genericiooptions.IOStreams, flags *connection, output string,
) error {
	srv, err := flags.connect(streams.ErrOut)
	if err != nil {
		return err
	}
	// If some APIs do not answer, show the others.
	resources, unavailable := srv.conn.Resolver().Watchables(ctx)
	if ctx.Err() != nil {
		return nil // a signal is a normal end
	}
	if err := printResources(streams, resources, output); err != nil {
		return err
	}
	return srv.explain(unavailable)
}

func printResources(streams genericiooptions.IOStreams, resources []gvr.Resource, output string) error {
	out := documents{w: streams.Out}
	columns := []string{
		"NAME", "SHORTNAMES", "APIVERSION", "KIND", "CLUSTER-WIDE", "PER-NAMESPACE", "CATEGORIES", "VERBS",
	}
	if output != "wide" {
		columns = columns[:6]
	}
	rows := newTable(streams.Out, columns)
	for _, r := range resources {
		var err error
		switch output {
		case "json":
			err = out.print(resourceJSON{
				Resource: r.String(), Name: r.Resource, Group: r.Group, Version: r.Version, Kind: r.Kind,
				SingularName: r.Singular, ShortNames: r.ShortNames, Categories: r.Categories,
				Namespaced: r.Namespaced, ClusterWatch: r.ClusterWatch(), NamespacedWatch: r.NamespacedWatch(),
				Verbs: r.Verbs,
			})
		case "name":
			err = screen.WriteLine(streams.Out, screen.Text{Text: r.String()})
		default:
			err = addRow(rows,
				r.Resource, strings.Join(r.ShortNames, ","), r.GroupVersion().String(), r.Kind,
				strconv.FormatBool(r.ClusterWatch()), strconv.FormatBool(r.NamespacedWatch()),
				strings.Join(r.Categories, ","), strings.Join(r.Verbs, ","),
			)
		}
		if err != nil {
			return err
		}
	}
	return rows.Flush()
}

// resourceJSON is what -o json prints.
type resourceJSON struct {
	Resource        string   `json:"resource"` // an argument for watch
	Name            string   `json:"name"`
	Group           string   `json:"group"`
	Version         string   `json:"version"`
	Kind            string   `json:"kind"`
	SingularName    string   `json:"singularName,omitempty"`
	ShortNames      []string `json:"shortNames,omitempty"`
	Categories      []string `json:"categories,omitempty"`
	Namespaced      bool     `json:"namespaced"`
	ClusterWatch    bool     `json:"clusterWatch"`
	NamespacedWatch bool     `json:"namespacedWatch"`
	Verbs           []string `json:"verbs"`
}

// oneOf returns an error unless the value of the flag is allowed.
func oneOf(flag, value string, allowed ...string) error {
	var names []string
	for _, a := range allowed {
		if value == a {
			return nil
		}
		if a != "" {
			names = append(names, a)
		}
	}
	return fmt.Errorf("--%s=%s: must be one of %s", flag, value, strings.Join(names, ", "))
}
