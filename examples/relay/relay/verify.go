package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Difference is an object whose last state in the log is not the one that the API server has.
type Difference struct {
	Unit engine.Unit // with the object's namespace
	Name string
	UID  string
	// Want is the version that the API server has, Got that in the log. Empty means none.
	Want, Got string
}

// String describes the difference in a line.
func (d Difference) String() string {
	object := fmt.Sprintf("%s %q (uid %q)", d.Unit, d.Name, d.UID)
	switch {
	case d.Got == "":
		return fmt.Sprintf("missing: %s has version %q in the cluster", object, d.Want)
	case d.Want == "":
		return fmt.Sprintf("extra: %s is not in the cluster", object)
	}
	return fmt.Sprintf("other version: %s has version %q in the cluster and %q in the log", object, d.Want, d.Got)
}

// Verify compares the last states of a resource in the log with the API server. Both may change meanwhile: differences
// count only when the log has reached the version of the list, or after the time until. The end of ctx is an error.
func Verify(
	ctx context.Context, log engine.Log, s *Selected, namespaces []string, until time.Time,
) ([]Difference, error) {
	for {
		want, version, err := list(ctx, s, namespaces)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", s.Unit, err)
		}
		differences, reached, err := compare(ctx, log, s, want, version, namespaces)
		if err != nil || len(differences) == 0 || reached || !time.Now().Before(until) {
			return differences, err
		}
		wait(ctx, time.Second)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// list returns the objects of the API server by their uid, and the version of the list. With several namespaces it is
// empty: they have no common version.
func list(ctx context.Context, s *Selected, namespaces []string) (map[string]Difference, string, error) {
	opts := s.Options
	opts.Objects, opts.Requests.GiveUpAfter = stream.Metadata, 30*time.Second
	if s.Resource.Namespaced {
		opts.Namespaces = namespaces
	}
	source, err := stream.New(s.connection.Client, s.Resource, &opts)
	if err != nil {
		return nil, "", err
	}
	all, version := map[string]Difference{}, ""
	for ev, err := range source.With(stream.Run{Until: stream.UntilSynced}).Events(ctx) {
		if err != nil {
			return nil, "", err
		}
		if ev.Type == stream.Synced {
			version = ev.ResourceVersion
		}
		if ev.Type == stream.Added {
			m := ev.Meta()
			d := Difference{Unit: s.Unit, Name: m.GetName(), UID: string(m.GetUID()), Want: m.GetResourceVersion()}
			d.Unit.Namespace = m.GetNamespace()
			all[d.UID] = d
		}
	}
	return all, version, nil
}

// compare compares the log with want, what a list of a version has. The log has reached that version if all positions
// have. What is newer than the list is no difference.
func compare(
	ctx context.Context, log engine.Log, s *Selected, want map[string]Difference, version string, namespaces []string,
) (found []Difference, reached bool, err error) {
	reached = version != ""
	positions, err := log.Positions(ctx, s.Unit)
	if err != nil {
		return nil, false, err
	}
	for _, e := range positions {
		if e.Position.ResourceVersion == "" || less(e.Position.ResourceVersion, version) {
			reached = false
		}
	}
	reached = reached && len(positions) > 0
	messages, err := log.Objects(ctx, s.Unit, false)
	if err != nil {
		return nil, false, err
	}
	for _, m := range messages {
		if len(namespaces) > 0 && s.Resource.Namespaced && !slices.Contains(namespaces, m.Unit.Namespace) {
			continue
		}
		d, known := want[m.UID]
		delete(want, m.UID)
		newer := version != "" && less(version, m.ResourceVersion)
		switch {
		case m.Type == engine.Deleted && known && !newer:
			found = append(found, d)
		case m.Type == engine.Deleted || newer || known && d.Want == m.ResourceVersion:
		default:
			d.Unit, d.Name, d.UID, d.Got = m.Unit, m.Name, m.UID, m.ResourceVersion
			found = append(found, d)
		}
	}
	for _, d := range want {
		found = append(found, d)
	}
	slices.SortFunc(found, func(a, b Difference) int { return strings.Compare(a.String(), b.String()) })
	return found, reached, nil
}
