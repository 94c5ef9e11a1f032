package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// row is what status prints of a unit.
type row struct {
	engine.UnitStatus // embedded, so that its fields are the row's in JSON

	Owner string `json:"owner,omitempty"`
}

// report is what status prints.
type report struct {
	Units    []row    `json:"units"`
	Members  []string `json:"members"`
	Problems []string `json:"problems,omitempty"`
}

func newStatus(f *flags, out io.Writer) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print who publishes which units, and how far",
		Long: "Print who publishes which units, and how far. The exit status is 0 if all is well: every unit in the\n" +
			"log is owned by a replica that is alive, and is synced, and no replica has a problem.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("invalid --output %q: must be json or empty", output)
			}
			_, log, err := f.openLog(cmd)
			if err != nil {
				return err
			}
			defer log.Close()
			members, err := log.Members(cmd.Context())
			if err != nil {
				return failure{err}
			}
			entries, err := log.Positions(cmd.Context(), engine.Unit{})
			if err != nil {
				return failure{err}
			}
			r := reportOf(members, entries)
			if output == "json" {
				err = json.NewEncoder(out).Encode(r)
			} else {
				err = r.print(out)
			}
			if len(r.Problems) > 0 {
				err = errors.New("not all is well") // also if it can't be written
			}
			if err != nil {
				return failure{err}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json prints a JSON object.")
	return cmd
}

// reportOf joins what the members say with the positions in the log.
func reportOf(members []engine.Member, entries []engine.Entry) report {
	r := report{Units: []row{}, Members: []string{}}
	if len(members) == 0 {
		r.Problems = append(r.Problems, "no relay runs")
	}
	rows := map[engine.Unit]row{}
	for _, m := range members {
		r.Members = append(r.Members, m.ID)
		for _, p := range m.Problems {
			r.Problems = append(r.Problems, m.ID+": "+p)
		}
		for _, u := range m.Units {
			rows[u.Unit] = row{u, m.ID}
		}
		for _, u := range m.Waiting {
			if _, owned := rows[u.Unit]; !owned {
				rows[u.Unit] = row{u, ""}
			}
		}
	}
	for _, e := range entries {
		_, known := rows[e.Unit]
		if !known && slices.Contains(r.Members, e.Position.Owner) { // one of more units than a member describes
			synced := e.Position.ResourceVersion != ""
			rows[e.Unit] = row{engine.UnitStatus{
				Unit: e.Unit, Epoch: e.Position.Epoch, ResourceVersion: e.Position.ResourceVersion, Synced: synced,
			}, e.Position.Owner}
		} else if !known && e.Position.Owner != "" {
			rows[e.Unit] = row{engine.UnitStatus{
				Unit: e.Unit, State: "Unowned", Epoch: e.Position.Epoch, ResourceVersion: e.Position.ResourceVersion,
				Problem: e.Position.Owner + " has ended without a word",
			}, ""}
		}
	}
	for _, u := range rows {
		switch {
		case u.Problem != "":
			r.Problems = append(r.Problems, u.Unit.String()+": "+u.Problem)
		case !u.Synced:
			r.Problems = append(r.Problems, u.Unit.String()+" is not synced")
		}
		r.Units = append(r.Units, u)
	}
	slices.SortFunc(r.Units, func(a, b row) int { return a.Unit.Compare(b.Unit) })
	slices.Sort(r.Problems)
	return r
}

func (r report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "UNIT\tOWNER\tEPOCH\tSTATE\tSYNCED\tVERSION\tOBJECTS\tPENDING\tLAG")
	for _, u := range r.Units {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%t\t%s\t%d\t%d\t%v\n", clean(u.Unit.String()), clean(u.Owner), u.Epoch,
			clean(u.State), u.Synced, clean(u.ResourceVersion), u.Objects, u.Pending, u.Lag.Round(time.Millisecond))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, p := range r.Problems {
		if _, err := fmt.Fprintln(out, clean(strings.TrimSpace(p))); err != nil {
			return err
		}
	}
	return nil
}
