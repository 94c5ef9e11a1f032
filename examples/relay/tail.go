package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
)

func newTail(f *flags, out io.Writer) *cobra.Command {
	var opts engine.TailOptions
	var output, since string
	cmd := &cobra.Command{
		Use:   "tail [TYPE | SUBJECT]",
		Short: "Print messages as they are published",
		Long: "Print messages as they are published, one in a line. TYPE is as in view: a plural, with the group\n" +
			"(widgets.example.com) and the cluster (prod/widgets.example.com) where needed; -n selects a namespace.\n" +
			"SUBJECT begins with the prefix, and may have the wildcards * (one token) and > (the rest):\n" +
			"PREFIX.CLUSTER.GROUP.RESOURCE.NAMESPACE.UID, such as 'k8s.*.core.pods.default.>'.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("invalid --output %q: must be json or empty", output)
			}
			var err error
			if opts.Since, err = parseSince(since); err != nil {
				return err
			}
			if since != "" && opts.All {
				return errors.New("invalid --since with --all: must be one of them")
			}
			cfg, log, err := f.openLog(cmd)
			if err != nil {
				return err
			}
			defer log.Close()
			switch {
			case len(args) == 0:
			case !isSubject(args[0], cfg.Log.Prefix):
				unit, _, err := findResource(cmd.Context(), log, args[0])
				if err != nil {
					return failure{err}
				}
				opts.Units = unitsIn(unit, cfg.Selection.Namespaces)
			case !selectsMessages(args[0], cfg.Log.Prefix):
				return fmt.Errorf("invalid SUBJECT %q: must begin with %s. and have 6 tokens, or end with >", args[0],
					cfg.Log.Prefix)
			default:
				opts.Pattern = args[0]
			}
			for m, err := range log.Tail(cmd.Context(), opts) {
				if errors.Is(err, context.Canceled) && cmd.Context().Err() != nil {
					return nil
				}
				if err != nil {
					return failure{err}
				}
				line := describe(m)
				if output == "json" {
					line = compact(m.Data)
				}
				if _, err := fmt.Fprintln(out, line); err != nil {
					return failure{err}
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&opts.All, "all", false, "Begin with the messages that the log has.")
	cmd.Flags().StringVar(&since, "since", "",
		"Begin with what was published since then: a duration before now (5m), or a time (2006-01-02T15:04:05Z).")
	cmd.Flags().BoolVar(&opts.UntilEnd, "until-end", false, "Print the messages that the log has, and end.")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json prints the CloudEvents, one in a line.")
	return cmd
}

// isSubject reports whether an argument is a SUBJECT: one with the prefix or with wildcards, which no TYPE has.
func isSubject(arg, prefix string) bool {
	return strings.HasPrefix(arg, prefix+".") || strings.ContainsAny(arg, "*>")
}

// unitsIn returns a resource, or its parts in namespaces.
func unitsIn(u engine.Unit, namespaces []string) (units []engine.Unit) {
	for _, ns := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		u.Namespace = ns
		units = append(units, u)
	}
	if len(units) == 0 {
		units = []engine.Unit{u}
	}
	return units
}

// parseSince returns the time that --since means: zero if it is empty.
func parseSince(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if d, no := time.ParseDuration(text); no == nil {
		at, err = time.Now().Add(-d), nil
	}
	if err != nil || at.Before(time.Unix(0, 0)) || at.After(time.Now()) {
		return at, fmt.Errorf("invalid --since %q: must be a duration such as 5m, or a time such as %sT15:04:05Z, in "+
			"the past", text, time.DateOnly)
	}
	return at, nil
}

// selectsMessages reports whether a subject is valid, and can be that of messages.
func selectsMessages(subject, prefix string) bool {
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		if token == "" || strings.ContainsAny(token, " \t\r\n") || token == ">" && i < len(tokens)-1 {
			return false
		}
	}
	const tokensOfMessage = 6
	open := tokens[len(tokens)-1] == ">"
	return tokens[0] == prefix && (len(tokens) == tokensOfMessage || open && len(tokens) < tokensOfMessage)
}

// compact returns JSON as one line: the items of a list, which are published as they are, may have several.
func compact(data []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return clean(string(data))
	}
	return b.String()
}

// describe returns a line for people.
func describe(m engine.Message) string {
	name := m.Name
	if m.Unit.Namespace != "" {
		name = m.Unit.Namespace + "/" + name
	}
	at := m.Time.Local().Format(time.TimeOnly)
	fields := []string{at, fmt.Sprintf("%-8s", m.Type), clean(m.Unit.Whole().String())}
	if name != "" {
		fields = append(fields, clean(name))
	}
	if m.ResourceVersion != "" {
		fields = append(fields, "@"+clean(m.ResourceVersion))
	}
	ev, err := message.Decode(m.Data)
	if err != nil {
		return strings.Join(append(fields, "unreadable: "+clean(err.Error())), " ")
	}
	if ev.Object != nil && ev.Object.Inferred {
		fields = append(fields, "inferred")
	}
	if ev.Gap != nil {
		fields = append(fields, clean(ev.Gap.Reason))
	}
	if ev.Object != nil && ev.Object.Truncated != nil {
		fields = append(fields, "truncated")
	}
	return strings.Join(fields, " ")
}
