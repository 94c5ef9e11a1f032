package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

var secrets = schema.GroupResource{Resource: "secrets"}

// Selected is a resource to publish, or a namespace of it, and how.
type Selected struct {
	Unit     engine.Unit
	Resource gvr.Resource
	// Options are those of its Stream.
	Options stream.Options

	connection *Connection
	redaction  *message.Redaction
	scope      string // identifies what is published: see engine.Position
	split      bool   // into namespaces
}

// selector decides which resources of a cluster are published, and how.
type selector struct {
	selection Selection
	patterns  follow.Selection
	names     []gvr.Ref
	rules     []rule
}

// rule is a Rule, and what its texts mean.
type rule struct {
	config    Rule
	pattern   follow.Selection // if Resource is a pattern
	name      gvr.Ref          // otherwise
	redaction *message.Redaction
}

func newSelector(c *Config) (*selector, error) {
	s := &selector{selection: c.Selection, patterns: follow.Selection{
		Categories: c.Selection.Categories, Exclude: c.Selection.Exclude,
	}}
	for _, text := range c.Selection.Resources {
		if isPattern(text) {
			s.patterns.Resources = append(s.patterns.Resources, text)
			continue
		}
		name, err := gvr.ParseRef(text)
		if err != nil {
			return nil, fmt.Errorf("invalid selection.resources: %w", err)
		}
		s.names = append(s.names, name)
	}
	if _, err := s.patterns.Selects(gvr.Resource{}); err != nil {
		return nil, fmt.Errorf("invalid selection: %w", err)
	}
	for i, r := range c.Rules {
		made := rule{config: r}
		var err error
		if isPattern(r.Resource) {
			made.pattern.Resources = []string{r.Resource}
			made.pattern.NoDefaultExclude = true
			_, err = made.pattern.Selects(gvr.Resource{})
		} else {
			made.name, err = gvr.ParseRef(r.Resource)
		}
		if err == nil && len(r.Redact) > 0 {
			made.redaction, err = message.ParseRedaction(r.Redact)
		}
		if err != nil {
			return nil, fmt.Errorf("invalid rules[%d]: %w", i, err)
		}
		s.rules = append(s.rules, made)
	}
	return s, nil
}

// isPattern reports whether follow.Selection takes text for a pattern.
func isPattern(text string) bool { return strings.ContainsAny(text, `*?[\`) }

// resources returns what is selected of what the server serves, sorted, and what could not be found out.
func (s *selector) resources(ctx context.Context, c *Connection, served []gvr.Resource) ([]*Selected, []error) {
	var problems []error
	uid, err := c.UID(ctx)
	if err != nil {
		return nil, []error{fmt.Errorf("identify cluster %s: %w", c.Name, err)}
	}
	chosen := map[schema.GroupResource]gvr.Resource{}
	for _, r := range served {
		if yes, err := s.patterns.Selects(r); err == nil && yes && r.GroupResource() != secrets && r.ClusterWatch() {
			chosen[r.GroupResource()] = r
		}
	}
	resolve := func(name gvr.Ref) (gvr.Resource, bool) {
		r, err := c.Resolver.Resolve(ctx, name)
		if err != nil {
			problems = append(problems, fmt.Errorf("cluster %s: %w", c.Name, err))
		}
		return r, err == nil
	}
	for _, name := range s.names {
		if r, ok := resolve(name); ok && r.ClusterWatch() {
			chosen[r.GroupResource()] = r
		} else if ok {
			problems = append(problems, &mistake{text: fmt.Sprintf("cluster %s: %s can't be watched", c.Name, r)})
		}
	}
	named := make([]schema.GroupResource, len(s.rules))
	for i, r := range s.rules {
		if r.name != (gvr.Ref{}) {
			found, err := c.Resolver.Resolve(ctx, r.name)
			if err != nil {
				problems = append(problems, fmt.Errorf("cluster %s: rules[%d]: %w", c.Name, i, err))
			}
			if notFound := (*discovery.NotFoundError)(nil); err != nil && !errors.As(err, &notFound) {
				// Without its rule, more of a resource might be published than its rule permits.
				return nil, problems
			}
			named[i] = found.GroupResource()
		}
	}
	problems = append(problems, s.mistakes(c.Name, served, chosen, named)...)
	var all []*Selected
	for _, r := range chosen {
		all = append(all, s.selected(c, uid, r, named))
	}
	slices.SortFunc(all, func(a, b *Selected) int { return a.Unit.Compare(b.Unit) })
	return all, problems
}

// selected returns how to publish r. named are the resources that the names of the rules stand for.
func (s *selector) selected(c *Connection, uid string, r gvr.Resource, named []schema.GroupResource) *Selected {
	var found rule
	if i := s.firstRule(r, named); i >= 0 {
		found = s.rules[i]
	}
	made := &Selected{
		Unit:     engine.Unit{Cluster: c.Name, Group: r.Group, Resource: r.Resource},
		Resource: r,
		Options: stream.Options{
			LabelSelector: s.selection.LabelSelector, FieldSelector: found.config.FieldSelector,
			Objects: stream.Raw,
		},
		connection: c, redaction: found.redaction, split: found.config.Split && r.Namespaced,
	}
	if found.config.LabelSelector != "" {
		made.Options.LabelSelector = found.config.LabelSelector
	}
	if r.GroupResource() == secrets && !found.config.Unredacted {
		made.redaction = message.SecretRedaction(found.redaction)
	}
	made.scope = hash(uid, made.Options.LabelSelector, made.Options.FieldSelector, made.redaction.String())
	return made
}

// same reports whether a Stream of s would publish what one of t does.
func (s *Selected) same(t *Selected) bool {
	return s.Unit == t.Unit && s.scope == t.scope && s.Resource.GroupVersionResource == t.Resource.GroupVersionResource
}

// in returns s for one namespace.
func (s *Selected) in(namespace string) *Selected {
	made := *s
	made.Unit.Namespace, made.Options.Namespaces = namespace, []string{namespace}
	return &made
}

// Resources returns what a relay with cfg would publish of a cluster now.
func Resources(ctx context.Context, cfg Config, c *Connection) ([]*Selected, error) {
	s, err := newSelector(&cfg)
	if err != nil {
		return nil, err
	}
	served, err := c.Resolver.Watchables(ctx)
	if err != nil {
		return nil, err
	}
	found, problems := s.resources(ctx, c, served)
	if len(found) > 0 { // what is selected can be compared
		problems = slices.DeleteFunc(problems, isMistake)
	}
	return found, errors.Join(problems...)
}
