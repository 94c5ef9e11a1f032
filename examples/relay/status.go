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
	// Age is how old the owner's report of the unit is.
	Age time.Duration `json:"age"`
}

// replica is what status prints of a member.
type replica struct {
	ID string `json:"id"`
	// Age is how old the report of the replica is.
	Age   time.Duration `json:"age"`
	Lease time.Duration `json:"lease"`
}

// report is what status prints.
type report struct {
	Units    []row     `json:"units"`
	Members  []replica `json:"members"`
	Problems []string  `json:"problems,omitempty"`
}

func newStatus(f *flags, out io.Writer) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print who publishes which units, and how far",
		Long: "Print who publishes which units, and how far. The exit status is 0 if all is well: every unit in the\n" +
			"log is owned by a replica that has reported within its lease, is synced, is not behind by more than\n" +
			"that lease, and no event of it was skipped; and no replica has a problem. AGE is that of the report.",
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

// reportOf joins what the members say with the positions in the log. Who owns a unit is what its position says: a
// member that says so, too, may not know yet that it was taken.
func reportOf(members []engine.Member, entries []engine.Entry) report {
	r := report{Units: []row{}, Members: []replica{}}
	problem := func(format string, args ...any) {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
	type claim struct {
		owner string
		unit  engine.Unit
	}
	byID, claims, fresh := map[string]engine.Member{}, map[claim]engine.UnitStatus{}, false
	for _, m := range members {
		byID[m.ID] = m
		for _, u := range slices.Concat(m.Waiting, m.Units) { // it is in Waiting while it is being taken
			claims[claim{m.ID, u.Unit}] = u
		}
		r.Members = append(r.Members, replica{m.ID, m.Age, m.Lease})
		fresh = fresh || m.Age <= m.Lease
		if m.Age > m.Lease {
			problem("%s has not reported for %v, which is more than its lease of %v", m.ID, rounded(m.Age), m.Lease)
		}
		if m.Refused != "" {
			problem("%s: the engine does not accept messages: %s", m.ID, m.Refused)
		}
		for _, p := range m.Problems {
			problem("%s: %s", m.ID, p)
		}
	}
	if !fresh {
		problem("no relay runs, or NATS takes no reports (a full disk does that): see their logs, or /readyz")
	}
	rows := map[engine.Unit]row{}
	for _, e := range entries {
		p := e.Position
		status := engine.UnitStatus{
			Unit: e.Unit, Epoch: p.Epoch, ResourceVersion: p.ResourceVersion, Synced: p.ResourceVersion != "",
		}
		owner, known := byID[p.Owner]
		claimed, described := claims[claim{p.Owner, e.Unit}]
		switch {
		case described:
			rows[e.Unit] = row{claimed, owner.ID, owner.Age}
		case known: // it has just taken the unit, or has more than a report describes
			rows[e.Unit] = row{status, owner.ID, owner.Age}
		case p.Owner != "":
			status.State, status.Synced, status.Problem = "Unowned", false, p.Owner+" has ended without a word"
			rows[e.Unit] = row{status, "", 0}
		}
	}
	for _, m := range members {
		for _, u := range m.Waiting {
			if _, owned := rows[u.Unit]; !owned {
				rows[u.Unit] = row{u, "", m.Age}
			}
		}
		for _, u := range m.Units {
			if _, owned := rows[u.Unit]; !owned {
				u.State, u.Synced, u.Problem = "Unowned", false, m.ID+" publishes it no more, and nobody has taken it"
				rows[u.Unit] = row{u, "", m.Age}
			}
		}
	}
	for _, u := range rows {
		lease := byID[u.Owner].Lease
		switch {
		case u.Problem != "":
			problem("%s: %s", u.Unit, u.Problem)
		case !u.Synced:
			problem("%s is not synced", u.Unit)
		}
		if behind := u.Lag + u.Age; u.Pending > 0 && behind > lease {
			problem("%s is behind by %v, which is more than the lease of %v", u.Unit, rounded(behind), lease)
		}
		if u.Skipped > 0 {
			problem("%s: %d events are skipped: the log of %s says which", u.Unit, u.Skipped, u.Owner)
		}
		r.Units = append(r.Units, u)
	}
	slices.SortFunc(r.Units, func(a, b row) int { return a.Unit.Compare(b.Unit) })
	slices.Sort(r.Problems)
	return r
}

func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

func (r report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "UNIT\tOWNER\tEPOCH\tSTATE\tSYNCED\tVERSION\tOBJECTS\tPENDING\tLAG\tAGE")
	for _, u := range r.Units {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%t\t%s\t%d\t%d\t%v\t%v\n", clean(u.Unit.String()), clean(u.Owner), u.Epoch,
			clean(u.State), u.Synced, clean(u.ResourceVersion), u.Objects, u.Pending, u.Lag.Round(time.Millisecond),
			rounded(u.Age))
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
