package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

func newVerify(f *flags, out, errOut io.Writer) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the log with the API servers",
		Long: "Compare the last states in the log with the objects of the API servers, with the selection of the\n" +
			"configuration and the flags. Print a line for each difference, and exit with 1 if there is one. While\n" +
			"the relay is behind a list, verify waits for it, up to --timeout.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, log, err := f.openLog(cmd)
			if err != nil {
				return err
			}
			defer log.Close()
			connections, err := relay.ConnectAll(cfg.Clusters)
			if err != nil {
				return failure{err}
			}
			ctx, until := cmd.Context(), time.Now().Add(timeout)
			resources, differences := 0, 0
			for _, c := range connections {
				selected, err := relay.Resources(ctx, *cfg, c)
				if err != nil {
					return failure{err}
				}
				for _, s := range selected {
					found, err := relay.Verify(ctx, log, s, cfg.Selection.Namespaces, until)
					if err != nil {
						return failure{err}
					}
					for _, d := range found {
						fmt.Fprintln(out, d) // if it can't be written, the exit status says it
					}
					resources, differences = resources+1, differences+len(found)
				}
			}
			fmt.Fprintf(errOut, "%d resources, %d differences\n", resources, differences)
			if differences > 0 {
				return failure{errors.New("the log differs from the API server")}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 90*time.Second, "How long to wait for the relay.")
	return cmd
}
