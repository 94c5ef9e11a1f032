package main

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

const (
	completionTimeout = 5 * time.Second // a shell waits for the answer
	completionNames   = 500             // as many names as are completed
)

const noFiles = cobra.ShellCompDirectiveNoFileComp

// complete registers what the shell completes: types, names of objects, namespaces, contexts and outputs.
func (o *watchOptions) complete(cmd *cobra.Command) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return o.completeArgument(cmd.Context(), args, word)
	}
	o.conn.complete(cmd)
	fixed := func(values ...string) cobra.CompletionFunc { return cobra.FixedCompletions(values, noFiles) }
	cmd.RegisterFlagCompletionFunc("color", fixed("auto", "always", "never"))
	cmd.RegisterFlagCompletionFunc("for", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		values := []string{"condition=", "create", "delete", "jsonpath=", "ready"}
		return values, noFiles | cobra.ShellCompDirectiveNoSpace
	})
	cmd.RegisterFlagCompletionFunc("output",
		func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			values := slices.Clone(outputs[1:])
			for i, v := range values {
				if withTemplate(v) {
					values[i] += "="
				}
			}
			return withPrefix(values, "", word), noFiles
		})
	for _, name := range []string{"selector", "field-selector", "resource-version", "limit", "timeout", "exclude"} {
		cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// complete registers what the shell completes for the flags of a connection.
func (c *connection) complete(cmd *cobra.Command) {
	cmd.RegisterFlagCompletionFunc("namespace",
		func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			namespaces := gvr.Resource{
				GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
				Kind:                 "Namespace", Verbs: []string{"list", "watch"},
			}
			before, word := cutList(word)
			return withPrefix(c.names(cmd.Context(), namespaces, ""), before, word), noFiles
		})
	keys := func(of func(*api.Config) []string) cobra.CompletionFunc {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			cfg, err := c.loader().RawConfig()
			if err != nil {
				return nil, noFiles
			}
			return of(&cfg), noFiles
		}
	}
	for flag, of := range map[string]func(*api.Config) []string{
		"context": func(c *api.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) },
		"cluster": func(c *api.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) },
		"user":    func(c *api.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) },
	} {
		cmd.RegisterFlagCompletionFunc(flag, keys(of))
	}
}

// completeArgument completes TYPE[,TYPE]..., TYPE/NAME, and NAME after a type.
func (o *watchOptions) completeArgument(
	ctx context.Context, args []string, word string,
) ([]string, cobra.ShellCompDirective) {
	if slash := strings.LastIndexByte(word, '/'); slash >= 0 {
		return withPrefix(o.namesOf(ctx, word[:slash]), word[:slash+1], word[slash+1:]), noFiles
	}
	if len(args) > 0 {
		return withPrefix(o.namesOf(ctx, args[0]), "", word), noFiles
	}
	before, word := cutList(word)
	return withPrefix(o.types(ctx), before, word), noFiles | cobra.ShellCompDirectiveNoSpace
}

// types returns the types that can be watched, each with what it is: "deployments\tDeployment of apps/v1".
func (o *watchOptions) types(ctx context.Context) []string {
	srv, err := o.conn.connect(io.Discard)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	resources, _ := srv.conn.Resolver().Watchables(ctx) // those that are known
	plurals := map[string]int{}
	for _, r := range resources {
		plurals[r.Resource]++
	}
	var all []string
	for _, r := range resources {
		name := r.Resource
		if plurals[name] > 1 {
			name = cmp.Or(r.GroupResource().String(), name)
		}
		all = append(all, name+"\t"+r.Kind+" of "+r.GroupVersion().String())
	}
	return all
}

// namesOf returns the names of the objects of a type.
func (o *watchOptions) namesOf(ctx context.Context, name string) []string {
	ref, err := gvr.ParseRef(name)
	if err != nil {
		return nil
	}
	srv, err := o.conn.connect(io.Discard)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	r, err := srv.conn.Resolver().Resolve(ctx, ref)
	if err != nil {
		return nil
	}
	ns := ""
	if r.Namespaced && !o.what.allNamespaces {
		ns = srv.namespace
		if len(o.conn.namespaces) > 0 {
			ns = o.conn.namespaces[0]
		}
	}
	return o.conn.names(ctx, r, ns)
}

// names returns the names of objects, at most completionNames.
func (c *connection) names(ctx context.Context, r gvr.Resource, namespace string) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	srv, err := c.connect(io.Discard)
	if err != nil {
		return nil
	}
	opts := &stream.Options{
		Objects: stream.Metadata, Requests: stream.Requests{GiveUpAfter: completionTimeout},
	}
	if namespace != "" {
		opts.Namespaces = []string{namespace}
	}
	s, err := stream.New(srv.conn.Client(), r, opts)
	if err != nil {
		return nil
	}
	var names []string
	for ev, err := range s.With(stream.Run{Until: stream.UntilSynced}).Events(ctx) {
		if err != nil || len(names) == completionNames {
			break
		}
		if ev.HasObject() {
			names = append(names, ev.Meta().GetName())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// cutList splits a list that is being typed before its last element: "a,b" is "a," and "b".
func cutList(word string) (before, last string) {
	comma := strings.LastIndexByte(word, ',')
	return word[:comma+1], word[comma+1:]
}

// withPrefix returns the values that begin with word, each after before.
func withPrefix(values []string, before, word string) []string {
	var all []string
	for _, v := range values {
		if strings.HasPrefix(v, word) {
			all = append(all, before+v)
		}
	}
	return all
}
