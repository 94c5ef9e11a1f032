package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
)

func newTail(f *flags, out io.Writer) *cobra.Command {
	var opts engine.TailOptions
	var output string
	cmd := &cobra.Command{
		Use:   "tail [SUBJECT]",
		Short: "Print messages as they are published",
		Long: "Print messages as they are published, one in a line. SUBJECT may have the wildcards * (one token)\n" +
			"and > (the rest): PREFIX.CLUSTER.GROUP.RESOURCE.NAMESPACE.UID, such as 'k8s.*.core.pods.default.>'.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("invalid --output %q: must be json or empty", output)
			}
			if len(args) == 1 {
				opts.Pattern = args[0]
			}
			cfg, log, err := f.openLog(cmd)
			if err != nil {
				return err
			}
			defer log.Close()
			if opts.Pattern != "" && !selectsMessages(opts.Pattern, cfg.Log.Prefix) {
				return fmt.Errorf("invalid SUBJECT %q: must begin with %s. and have 6 tokens, or end with >",
					opts.Pattern, cfg.Log.Prefix)
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
	cmd.Flags().BoolVar(&opts.UntilEnd, "until-end", false, "Print the messages that the log has, and end.")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json prints the CloudEvents, one in a line.")
	return cmd
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
