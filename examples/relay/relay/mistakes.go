package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
)

// mistake is an error in what the configuration says of a cluster that was read. It may become right when the cluster
// serves something else.
type mistake struct {
	text  string
	minor bool // may be meant: it is in the log, and no problem in the status
}

func (m *mistake) Error() string { return m.text }

func isMistake(err error) bool {
	m := (*mistake)(nil)
	return errors.As(err, &m)
}

func isMinor(err error) bool {
	m := (*mistake)(nil)
	return errors.As(err, &m) && m.minor
}

// mistakes returns what matches nothing of a cluster, and the rules that never apply. chosen is what is selected of
// what is served; named are the resources that the names of the rules stand for.
func (s *selector) mistakes(
	cluster string, served []gvr.Resource, chosen map[schema.GroupResource]gvr.Resource, named []schema.GroupResource,
) (all []error) {
	add := func(minor bool, format string, args ...any) {
		all = append(all, &mistake{fmt.Sprintf("cluster %s: ", cluster) + fmt.Sprintf(format, args...), minor})
	}
	var idle []string // patterns and categories that match nothing
	matched := map[schema.GroupResource]bool{}
	match := func(name string, one follow.Selection) {
		one.NoDefaultExclude = true
		found := matching(one, served)
		if len(found) == 0 {
			idle = append(idle, name)
		}
		for _, r := range found {
			matched[r.GroupResource()] = true
		}
	}
	for _, p := range s.patterns.Resources {
		match(p, follow.Selection{Resources: []string{p}})
	}
	for _, c := range s.patterns.Categories {
		match(c, follow.Selection{Categories: []string{c}})
	}
	everything := follow.Selection{Resources: []string{"*"}, NoDefaultExclude: true}
	for _, e := range s.patterns.Exclude {
		but := everything
		but.Exclude = []string{e}
		if len(matching(but, served)) == len(matching(everything, served)) {
			add(true, "selection: exclude %q matches none of the %d resource types of the server", e, len(served))
		}
	}
	switch {
	case len(chosen) > 0:
		for _, name := range idle {
			add(true, "selection: %q matches none of the %d resource types of the server", name, len(served))
		}
	case len(s.names) > 0: // each that is not found is a problem already
	case len(matched) == 0:
		add(false, "selection: %s matches none of the %d resource types of the server",
			strings.Join(idle, ", "), len(served))
	case len(matched) == 1 && matched[secrets]:
		add(false, "selection: patterns do not select secrets: must be named")
	default:
		add(false, "selection: exclude (%s) leaves out all that it selects",
			strings.Join(s.patterns.Excluded(), ", "))
	}
	for i, r := range s.rules {
		matches := func(r gvr.Resource) bool { return s.applies(i, r, named) }
		if r.name == (gvr.Ref{}) && !slices.ContainsFunc(served, matches) {
			add(false, "rules[%d]: %q matches none of the %d resource types of the server", i, r.config.Resource,
				len(served))
		}
		if first, hidden := s.hidden(i, chosen, named); hidden {
			add(false, "rules[%d] (%s) never applies: rules[%d] (%s) comes before it: must come after it", i,
				r.config.Resource, first, s.rules[first].config.Resource)
		}
	}
	return all
}

// matching returns what a selection of patterns and categories selects.
func matching(s follow.Selection, served []gvr.Resource) (found []gvr.Resource) {
	for _, r := range served {
		if yes, err := s.Selects(r); err == nil && yes {
			found = append(found, r)
		}
	}
	return found
}

// hidden reports whether an earlier rule applies to each of the resources that rule i matches, and returns that rule.
func (s *selector) hidden(
	i int, chosen map[schema.GroupResource]gvr.Resource, named []schema.GroupResource,
) (earlier int, hidden bool) {
	for _, r := range chosen {
		if !s.applies(i, r, named) {
			continue
		}
		first := s.firstRule(r, named)
		if first == i {
			return 0, false
		}
		if !hidden || first < earlier {
			earlier, hidden = first, true
		}
	}
	return earlier, hidden
}

// firstRule returns the index of the rule of r, or -1. named are the resources that the names of the rules stand for.
func (s *selector) firstRule(r gvr.Resource, named []schema.GroupResource) int {
	for i := range s.rules {
		if s.applies(i, r, named) {
			return i
		}
	}
	return -1
}

// applies reports whether rule i matches r.
func (s *selector) applies(i int, r gvr.Resource, named []schema.GroupResource) bool {
	if s.rules[i].name == (gvr.Ref{}) {
		yes, _ := s.rules[i].pattern.Selects(r) // newSelector has checked it
		return yes
	}
	return named[i] == r.GroupResource()
}

// findNamespaces keeps w.missing up to date: the selected namespaces that do not exist. It asks for each until that
// exists, or until the server does not say.
func (w *wanted) findNamespaces(ctx context.Context) {
	for unknown := w.selector.selection.Namespaces; len(unknown) > 0 && ctx.Err() == nil; {
		var missing, later []string
		for _, ns := range unknown {
			exists, err := w.namespaceExists(ctx, ns)
			if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
				continue // nobody can say
			}
			if err != nil || !exists {
				later = append(later, ns)
			}
			if err == nil && !exists {
				missing = append(missing, ns)
				if !slices.Contains(w.missing, ns) {
					w.logger.Warn("a selected namespace does not exist", "cluster", w.connection.Name, "namespace", ns)
				}
			}
		}
		w.mu.Lock()
		w.missing = missing
		w.mu.Unlock()
		w.changed()
		unknown = later
		wait(ctx, removedGrace)
	}
}

// namespaceExists lists, as the rights of a relay include that.
func (w *wanted) namespaceExists(ctx context.Context, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	list, err := w.connection.Client.Resource(namespaces).List(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + name, Limit: 1,
	})
	return err == nil && len(list.Items) > 0, err
}
