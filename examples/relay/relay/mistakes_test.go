package relay_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

// lines are those of a log, without their times.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// warnings returns the lines of level WARN that have a text.
func (l *lines) warnings(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// logged makes the replicas that start write to lines.
func (w *world) logged() *lines {
	l := &lines{}
	w.logger = slog.New(slog.NewTextHandler(l, nil))
	return l
}

// TestMistakes: what the configuration says and the cluster does not serve is a problem in the status, and one line in
// the log, not one in each round.
func TestMistakes(t *testing.T) {
	const none = "cluster test: selection: *.exmple.com matches none of the 5 resource types of the server"
	for _, c := range []struct {
		why       string
		selection relay.Selection
		rules     []relay.Rule
		problems  []string
		warning   string // of which the log has one; that of the problem if empty
		notReady  string
	}{
		{
			why:       "a pattern with a typo",
			selection: relay.Selection{Resources: []string{"*.exmple.com"}},
			problems:  []string{none},
			notReady:  "nothing is published: " + none,
		},
		{
			why:       "everything is excluded",
			selection: relay.Selection{Resources: []string{"*.example.com"}, Exclude: []string{"*.example.com"}},
			problems: []string{"cluster test: selection: exclude (events., events.events.k8s.io, " +
				"leases.coordination.k8s.io, leasecandidates.coordination.k8s.io, *.example.com) leaves out all that " +
				"it selects"},
			notReady: "nothing is published: cluster test: selection: exclude (",
		},
		{
			why:       "a pattern for Secrets",
			selection: relay.Selection{Resources: []string{"secrets*"}},
			problems:  []string{"cluster test: selection: patterns do not select secrets: must be named"},
			notReady:  "must be named",
		},
		{
			why:       "a name with a typo, and nothing else",
			selection: relay.Selection{Resources: []string{"widgetts"}},
			problems: []string{
				`cluster test: the server serves no resource type "widgetts"; did you mean widgets.v1.example.com?`,
			},
			warning:  "widgetts",
			notReady: "nothing is published: cluster test: the server serves no resource type",
		},
		{
			why:       "one pattern of two, which may be meant",
			selection: relay.Selection{Resources: []string{"*.example.com", "*.exmple.com"}},
			warning:   `selection: \"*.exmple.com\" matches none of the 5 resource types`,
		},
		{
			why:       "one exclusion of two",
			selection: relay.Selection{Resources: []string{"*"}, Exclude: []string{"planets", "gadgetts"}},
			warning:   `selection: exclude \"gadgetts\" matches none of the 5 resource types`,
		},
		{
			why:       "a category that nothing is in",
			selection: relay.Selection{Resources: []string{"widgets"}, Categories: []string{"al"}},
			warning:   `selection: \"al\" matches none of the 5 resource types`,
		},
		{
			why:       "a rule for a pattern with a typo",
			selection: relay.Selection{Resources: []string{"*"}},
			rules:     []relay.Rule{{Resource: "*.exmple.com", Redact: []string{"$.spec"}}},
			problems: []string{
				`cluster test: rules[0]: "*.exmple.com" matches none of the 5 resource types of the server`,
			},
			warning: `rules[0]: \"*.exmple.com\" matches none`,
		},
		{
			why:       "a rule that an earlier one hides, and one that it hides in a part",
			selection: relay.Selection{Resources: []string{"*"}},
			rules: []relay.Rule{
				{Resource: "widgets"}, {Resource: "*.example.com"}, {Resource: "planets", Redact: []string{"$.spec"}},
			},
			problems: []string{
				"cluster test: rules[2] (planets) never applies: rules[1] (*.example.com) comes before it: " +
					"must come after it",
			},
		},
		{
			why:       "a rule for what is not selected is none",
			selection: relay.Selection{Resources: []string{"widgets"}},
			rules:     []relay.Rule{{Resource: "*"}, {Resource: "planets"}},
		},
		{
			why:       "a namespace that does not exist",
			selection: relay.Selection{Resources: []string{"widgets"}, Namespaces: []string{"demo", "demmo"}},
			problems:  []string{`cluster test: selection.namespaces: "demmo" does not exist`},
			warning:   `a selected namespace does not exist" cluster=test namespace=demmo`,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, widgets, gadgets, planets, secrets, namespaces)
			defer w.srv.Close()
			w.srv.Put(namespaces, "", "demo")
			log := w.logged()
			w.config.Selection, w.config.Rules = c.selection, c.rules
			one := w.start("one")
			time.Sleep(10 * lease)
			synctest.Wait()
			if d := cmp.Diff(c.problems, one.relay.Status().Problems); d != "" {
				t.Errorf("%s: problems -want +got:\n%s", c.why, d)
			}
			warning := c.warning
			if warning == "" && len(c.problems) > 0 {
				warning = c.problems[0]
			}
			want := 0
			if warning != "" {
				want = 1
			}
			if n, all := log.warnings(warning), log.warnings(""); n != want || all != want {
				t.Errorf("%s: %d warnings with %s, and %d in all, want %d:\n%s", c.why, n, warning, all, want,
					log.text.String())
			}
			got := ""
			if err := one.relay.Ready(); err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.notReady) || (got == "") != (c.notReady == "") {
				t.Errorf("%s: Ready returns %q, want %q", c.why, got, c.notReady)
			}
			w.stopAll()
		})
	}
}

// TestMistakesEnd: a problem ends when what was missing exists.
func TestMistakesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, gadgets, namespaces)
		defer w.srv.Close()
		do(t, w, "gadgets delete crd")
		w.config.Selection = relay.Selection{Resources: []string{"gadgets", "widgets"}, Namespaces: []string{"later"}}
		one := w.start("one")
		problems := func(want int) func() string {
			return func() string {
				if all := one.relay.Status().Problems; len(all) != want {
					return strings.Join(all, "; ")
				}
				return ""
			}
		}
		w.eventually("two problems", problems(2))
		w.srv.Put(namespaces, "", "later")
		w.eventually("one problem", problems(1))
		do(t, w, "gadgets create crd")
		w.eventually("no problem", problems(0))
		w.stopAll()
	})
}

// TestOtherConfiguration: a replica that waits for others says for whom and what to do, once in the log.
func TestOtherConfiguration(t *testing.T) {
	for _, c := range []struct {
		why    string
		change func(*relay.Config)
		units  string
	}{
		{"another selection", func(c *relay.Config) { c.Selection.LabelSelector = "a=b" }, "2"},
		{
			"namespaces of what the other has whole",
			func(c *relay.Config) { c.Rules = []relay.Rule{{Resource: "widgets", Split: true}} }, "3",
		},
		{"another selection that overlaps", func(c *relay.Config) { c.Selection.Resources = []string{"widgets"} }, "1"},
		{"nothing in common", func(c *relay.Config) { c.Selection.Resources = []string{"planets"} }, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, widgets, gadgets, planets, namespaces)
			defer w.srv.Close()
			w.srv.Put(namespaces, "", "x")
			w.srv.Put(namespaces, "", "y")
			w.config.Selection.Resources = []string{"widgets", "gadgets"}
			w.start("old")
			w.ready("old")
			log := w.logged()
			c.change(&w.config)
			status := w.start("new").relay.Status
			time.Sleep(10 * lease)
			synctest.Wait()
			var want []string
			if c.units != "" {
				want = []string{"replicas with another configuration (old) own " + c.units + " of the units of this " +
					"one: must be restarted with this configuration, or this one have another log.stream and " +
					"log.prefix"}
			}
			if d := cmp.Diff(want, status().Problems); d != "" {
				t.Errorf("%s: problems -want +got:\n%s", c.why, d)
			}
			if n := log.warnings("replicas with another configuration"); n != len(want) {
				t.Errorf("%s: %d warnings, want %d:\n%s", c.why, n, len(want), log.text.String())
			}
			if problems := w.replicas["old"].relay.Status().Problems; len(problems) > 0 {
				t.Errorf("%s: the replica that owns the units has the problems %q", c.why, problems)
			}
			w.stop("old")
			w.ready("new")
			if problems := status().Problems; len(problems) > 0 {
				t.Errorf("%s: after the end of the other: %q", c.why, problems)
			}
			w.stop("new")
		})
	}
}

// TestSameID: two replicas with one ID take the units from each other. Both say so, until one ends.
func TestSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		log := w.logged()
		one := w.start("one")
		w.ready("one")
		time.Sleep(time.Second)
		two := w.start("one")
		const want = `invalid replica.id "one": another process has it: must be unique`
		for _, r := range []*replica{one, two} {
			w.eventually("the problem", func() string {
				if problems := r.relay.Status().Problems; len(problems) != 1 || problems[0] != want {
					return fmt.Sprintf("%q, want %q", problems, want)
				}
				return ""
			})
		}
		if n := log.warnings("another process has the same ID"); n != 2 {
			t.Errorf("%d warnings, want one of each:\n%s", n, log.text.String())
		}
		one.end()
		<-one.done
		w.eventually("no problem", func() string { return strings.Join(two.relay.Status().Problems, "; ") })
		w.stop("one")
	})
}

// TestRestartWithSameID: a replica that is killed and comes back with its ID is no other.
func TestRestartWithSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		w.start("one")
		w.ready("one")
		w.kill("one")
		log := w.logged()
		w.start("one")
		w.ready("one")
		time.Sleep(3 * lease)
		if n := log.warnings("another process"); n > 0 {
			t.Errorf("the earlier process counts as another:\n%s", log.text.String())
		}
		w.stop("one")
	})
}
