package relay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

// since returns the texts of the messages after the first n, sorted, without GAP and SYNCED.
func (w *world) since(n int) []string {
	var all []string
	for _, m := range w.messages()[n:] {
		if m.UID != "" {
			all = append(all, text(m))
		}
	}
	slices.Sort(all)
	return all
}

// TestConfigChanges: a relay with another configuration goes on in the log of the one before it, with the differences
// or, if that is what has changed, with all objects again.
func TestConfigChanges(t *testing.T) {
	only := func(selector string) func(*relay.Config) {
		return func(c *relay.Config) { c.Selection.LabelSelector = selector }
	}
	split := func(c *relay.Config) { c.Rules = []relay.Rule{{Resource: "widgets", Split: true}} }
	none := func(*relay.Config) {}
	for _, c := range []struct {
		why           string
		before, after func(*relay.Config)
		want          []string
	}{
		{
			why: "the same", before: none, after: none,
			want: []string{"added widgets a/new@10", "deleted widgets a/gone@9", "modified widgets b/red@8"},
		},
		{
			why:    "what no longer matches is deleted, and the rest is published as it is now",
			before: none, after: only("color=red"),
			want: []string{"added widgets b/red@8", "deleted widgets a/blue@", "deleted widgets a/gone@"},
		},
		{
			why: "what matches now is added", before: only("color=red"), after: none,
			want: []string{"added widgets a/blue@5", "added widgets a/new@10", "added widgets b/red@8"},
		},
		{
			why: "namespaces go on with the objects of the whole resource", before: none, after: split,
			want: []string{"added widgets a/new@10", "deleted widgets a/gone@4", "modified widgets b/red@8"},
		},
		{
			why: "the whole resource goes on with the objects of the namespaces", before: split, after: none,
			want: []string{"added widgets a/new@10", "deleted widgets a/gone@4", "modified widgets b/red@8"},
		},
		{
			why: "a namespace goes on", before: split, after: split,
			want: []string{"added widgets a/new@10", "deleted widgets a/gone@9", "modified widgets b/red@8"},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, widgets, namespaces)
			defer w.srv.Close()
			w.config.Selection = relay.Selection{Resources: []string{"widgets"}}
			w.srv.Put(namespaces, "", "a")
			w.srv.Put(namespaces, "", "b")
			w.srv.Put(widgets, "a", "gone")
			w.srv.Put(widgets, "a", "blue", "metadata.labels.color=blue")
			w.srv.Put(widgets, "b", "red", "metadata.labels.color=red")
			before := w.config
			c.before(&before)
			c.after(&w.config)
			after := w.config
			w.config = before
			w.start("one")
			w.ready("one")
			w.stop("one")
			n := len(w.messages())
			w.srv.Put(namespaces, "", "c")
			w.srv.Put(widgets, "b", "red", "metadata.labels.color=red", "spec.x=2")
			if _, err := w.srv.Delete(widgets, "a", "gone"); err != nil {
				t.Fatal(err)
			}
			w.srv.Put(widgets, "a", "new")
			w.config = after
			w.start("two")
			w.ready("two")
			w.stop("two")
			if diff := cmp.Diff(c.want, w.since(n)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.why, diff)
			}
		})
	}
}

// ready waits until a replica has taken and synced everything.
func (w *world) ready(id string) {
	w.t.Helper()
	w.eventually(id, func() string {
		if err := w.replicas[id].relay.Ready(); err != nil {
			return err.Error()
		}
		if len(w.replicas[id].relay.Status().Units) == 0 {
			return "has no units"
		}
		return ""
	})
}

// TestRollingUpdate: replicas with another configuration wait until those before them have ended.
func TestRollingUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, gadgets)
		defer w.srv.Close()
		w.srv.Put(widgets, "ns", "a")
		w.start("old")
		w.ready("old")
		w.config.Selection.LabelSelector = "color=red"
		w.start("new")
		time.Sleep(3 * lease)
		synctest.Wait()
		if units := w.replicas["new"].relay.Status().Units; len(units) > 0 {
			t.Errorf("the new replica has units while the old one runs: %+v", units)
		}
		if err := w.replicas["new"].relay.Ready(); err != nil {
			t.Error("a Deployment would wait forever to end the old replica:", err)
		}
		w.stop("old")
		w.eventually("the new replica", func() string {
			if units := w.replicas["new"].relay.Status().Units; len(units) != 2 {
				return fmt.Sprintf("has %d units", len(units))
			}
			return ""
		})
		w.ready("new")
		w.stop("new")
		if last := w.since(0); !slices.Contains(last, "deleted widgets ns/a@") {
			t.Errorf("the new configuration does not apply: %v", last)
		}
	})
}

// TestSplit: each namespace is a unit, those that appear later too, and namespaces that are deleted are released.
func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, namespaces)
		defer w.srv.Close()
		w.config.Selection.Resources = []string{"widgets"}
		w.config.Rules = []relay.Rule{{Resource: "widgets", Split: true}}
		w.served = w.served[:1]
		units := func() string {
			var all []string
			for _, e := range w.positions() {
				if e.Position.Owner != "" {
					all = append(all, e.Unit.Namespace)
				}
			}
			return strings.Join(all, " ")
		}
		for i := range 3 {
			w.srv.Put(namespaces, "", fmt.Sprintf("ns%d", i))
			w.srv.Put(widgets, fmt.Sprintf("ns%d", i), "a")
		}
		w.start("one")
		w.start("two")
		w.converged()
		w.srv.Put(namespaces, "", "later")
		w.srv.Put(widgets, "later", "a")
		w.converged()
		w.eventually("the units", func() string { return cmp.Diff("later ns0 ns1 ns2", units()) })
		if _, err := w.srv.Delete(widgets, "ns1", "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.srv.Delete(namespaces, "", "ns1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		w.converged()
		w.eventually("the units", func() string { return cmp.Diff("later ns0 ns2", units()) })
		w.stopAll()
		w.judge()
	})
}

// TestOtherLease: a replica with a short lease leaves those alive that have a longer one, and beat less often.
func TestOtherLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, gadgets, planets)
		defer w.srv.Close()
		w.start("slow")
		w.converged()
		w.config.Replica.Lease = metav1.Duration{Duration: time.Second}
		w.start("fast")
		w.converged()
		time.Sleep(2 * lease) // the units have moved
		epochs := func() (all []string) {
			for _, e := range w.positions() {
				all = append(all, fmt.Sprintf("%s: %s has epoch %d", e.Unit, e.Position.Owner, e.Position.Epoch))
			}
			return all
		}
		before := epochs()
		time.Sleep(5 * time.Minute)
		if diff := cmp.Diff(before, epochs()); diff != "" {
			t.Errorf("-before +after:\n%s", diff)
		}
		w.stopAll()
		w.judge()
	})
}

func TestNewRefusesIncomplete(t *testing.T) {
	var log engine.Memory
	if _, err := relay.New(relay.Config{}, &log, &log, relay.Options{}); err == nil {
		t.Error("no error")
	}
}

// TestPausedOwnerOfWhole: the owner of a resource, which was paused, publishes nothing after others have taken the
// namespaces of the resource.
func TestPausedOwnerOfWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, namespaces)
		defer w.srv.Close()
		w.config.Selection.Resources = []string{"widgets"}
		w.served = w.served[:1]
		w.srv.Put(namespaces, "", "ns")
		w.srv.Put(widgets, "ns", "a")
		old := w.start("old")
		w.converged()
		old.link.pause()
		w.config.Rules = []relay.Rule{{Resource: "widgets", Split: true}}
		w.start("new")
		time.Sleep(5 * lease)
		w.srv.Put(widgets, "ns", "b")
		if _, err := w.srv.Delete(widgets, "ns", "a"); err != nil {
			t.Fatal(err)
		}
		w.converged()
		n := len(w.messages())
		old.link.resume()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string(nil), w.since(n)); diff != "" {
			t.Errorf("the old owner has published: -want +got:\n%s", diff)
		}
		w.stopAll()
		w.judge()
	})
}

// TestTakeAtOnce: of two replicas that take a resource and a namespace of it at the same time, one has both in the end.
func TestTakeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, namespaces)
		defer w.srv.Close()
		w.config.Selection.Resources = []string{"widgets"}
		w.served = w.served[:1]
		w.srv.Put(namespaces, "", "ns")
		w.srv.Put(widgets, "ns", "a")
		w.start("first")
		w.converged()
		w.stop("first")
		w.log.Fail = func(parts []engine.Part) error {
			if len(parts) == 1 && parts[0].Position.Owner != "" && parts[0].Position.Commit == 0 {
				time.Sleep(4 * time.Second) // others take meanwhile
			}
			return nil
		}
		w.start("whole")
		w.config.Rules = []relay.Rule{{Resource: "widgets", Split: true}}
		w.start("split")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		var owners []string
		for _, e := range w.positions() {
			if e.Position.Owner != "" {
				owners = append(owners, e.Position.Owner)
			}
		}
		if len(owners) != 1 {
			t.Errorf("owners %q, want one", owners)
		}
		w.srv.Put(widgets, "ns", "b")
		w.converged()
		w.stopAll()
		w.judge()
	})
}

// TestFencedByMistake: a batch that the engine refuses, although nobody has taken the unit, is published later.
func TestFencedByMistake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		w.start("one")
		w.converged()
		refuse := 5
		w.log.Fail = func([]engine.Part) error {
			if refuse--; refuse >= 0 {
				return engine.ErrFenced // JetStream does while it is busy with an earlier try
			}
			return nil
		}
		w.srv.Put(widgets, "ns", "a")
		w.converged()
		if e := w.positions()[0]; e.Position.Epoch != 1 {
			t.Errorf("the unit was taken again: %+v", e.Position)
		}
		w.stopAll()
		w.judge()
	})
}

// TestNotReadyWithoutOwner: a replica is not ready while the owner of a unit may be alive, but no replica says that it
// is.
func TestNotReadyWithoutOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		w.start("gone")
		w.converged()
		w.kill("gone")
		if err := w.log.Leave(t.Context(), "gone"); err != nil { // as if its key had expired
			t.Fatal(err)
		}
		one := w.start("one")
		time.Sleep(lease / 2)
		synctest.Wait()
		if err := one.relay.Ready(); err == nil {
			t.Error("the replica is ready although nobody publishes")
		}
		w.ready("one")
		w.stopAll()
		w.judge()
	})
}

// TestRuleOfNothing: a rule whose resource is not served, which may be a slip, is a problem, and keeps nothing from
// being published.
func TestRuleOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		w.config.Rules = []relay.Rule{{Resource: "widget.example.org", Redact: []string{"$.spec.secret"}}}
		w.srv.Put(widgets, "ns", "a")
		one := w.start("one")
		w.converged()
		s := one.relay.Status()
		if len(s.Units) != 1 || len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "rules[0]") {
			t.Errorf("units %v, problems %q, want 1 and that of the rule", s.Units, s.Problems)
		}
		w.stopAll()
		w.judge()
	})
}

// TestLimitShrinks: what is too large, as the engine has restarted with a lower limit, is published as metadata.
func TestLimitShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, gadgets)
		defer w.srv.Close()
		one := w.start("one")
		w.converged()
		one.link.cut(true)
		w.srv.Put(widgets, "ns", "a", "spec.x="+strings.Repeat("x", 5000))
		w.srv.Put(gadgets, "ns", "b")
		time.Sleep(time.Second)
		if err := one.relay.Ready(); err == nil {
			t.Error("the replica is ready although the engine accepts nothing")
		}
		w.log.Max.MessageBytes = 4000
		one.link.cut(false)
		w.srv.Put(gadgets, "ns", "c")
		w.converged()
		w.ready("one")
		w.stopAll()
		w.judge()
	})
}

// TestAmbiguousRule: when the name of a rule becomes ambiguous, the units stay as they are.
func TestAmbiguousRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := resource("other.io", "Widget", "widgets", true)
		w := newWorld(t, widgets, gadgets, other)
		defer w.srv.Close()
		do(t, w, "widgets.other.io delete crd")
		w.config.Selection.Resources = []string{"*.example.com"}
		w.config.Rules = []relay.Rule{{Resource: "widgets", Redact: []string{"$.spec.secret"}}}
		w.served = w.served[:2]
		one := w.start("one")
		w.converged()
		do(t, w, "widgets.other.io create crd")
		time.Sleep(5 * time.Minute)
		w.srv.Put(widgets, "ns", "a", "spec.secret=hunter2")
		w.converged()
		if s := one.relay.Status(); len(s.Units) != 2 || len(s.Problems) != 1 {
			t.Errorf("units %v, problems %q, want 2 and 1", s.Units, s.Problems)
		}
		w.stopAll()
		for _, m := range w.messages() {
			if strings.Contains(string(m.Data), "hunter2") {
				t.Errorf("%s is published without its rule", text(m))
			}
		}
	})
}

// TestExpires: nothing is left of a deleted object after a time, and of others everything.
func TestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		const keep = 10 * time.Minute
		w.config.Log.KeepDeleted = metav1.Duration{Duration: keep}
		w.srv.Put(widgets, "ns", "a")
		w.srv.Put(widgets, "ns", "b")
		w.start("one")
		w.start("two")
		w.converged()
		if _, err := w.srv.Delete(widgets, "ns", "a"); err != nil {
			t.Fatal(err)
		}
		w.converged()
		want := []string{"added widgets ns/a@2", "added widgets ns/b@3", "deleted widgets ns/a@4"}
		time.Sleep(keep - time.Minute)
		if diff := cmp.Diff(want, w.since(0)); diff != "" {
			t.Errorf("before it expires: -want +got:\n%s", diff)
		}
		time.Sleep(keep)
		if diff := cmp.Diff(want[1:2], w.since(0)); diff != "" {
			t.Errorf("after it has expired: -want +got:\n%s", diff)
		}
		w.stopAll()
	})
}

// TestNamespaceGoneMeanwhile: the deletions in a namespace that was deleted while no relay ran are published.
func TestNamespaceGoneMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, namespaces)
		defer w.srv.Close()
		w.config.Selection.Resources = []string{"widgets"}
		w.config.Rules = []relay.Rule{{Resource: "widgets", Split: true}}
		w.served = w.served[:1]
		for i := range 2 {
			w.srv.Put(namespaces, "", fmt.Sprintf("ns%d", i))
			w.srv.Put(widgets, fmt.Sprintf("ns%d", i), "a")
		}
		w.start("one")
		w.converged()
		w.stop("one")
		if _, err := w.srv.Delete(widgets, "ns1", "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.srv.Delete(namespaces, "", "ns1"); err != nil {
			t.Fatal(err)
		}
		w.start("two")
		w.converged()
		time.Sleep(5 * time.Minute)
		if units := w.replicas["two"].relay.Status().Units; len(units) != 1 {
			t.Errorf("units %v, want that of ns0 only", units)
		}
		w.stopAll()
		w.judge()
	})
}

// TestEngineDownAndResourceGone: the deletions of a resource that is removed while the engine is down are published.
func TestEngineDownAndResourceGone(t *testing.T) {
	for _, overflow := range []string{relay.OverflowBlock, relay.OverflowLatest} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, widgets, gadgets)
			defer w.srv.Close()
			w.config.Queue = relay.Queue{Overflow: overflow, Bytes: 4 << 10}
			for i := range 100 {
				w.srv.Put(widgets, "ns", fmt.Sprint(i))
			}
			one := w.start("one")
			w.converged()
			one.link.cut(true)
			do(t, w, "widgets delete crd")
			time.Sleep(3 * time.Minute)
			one.link.cut(false)
			w.converged()
			w.stopAll()
			w.judge()
		})
	}
}

// TestResourceComesAndGoes: a resource is published when it is served, and its deletions when it no longer is.
func TestResourceComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, gadgets)
		defer w.srv.Close()
		w.srv.Put(widgets, "ns", "a")
		w.start("one")
		w.ready("one")
		do(t, w, "widgets delete crd")
		time.Sleep(5 * time.Minute)
		w.converged()
		if units := w.replicas["one"].relay.Status().Units; len(units) != 1 {
			t.Errorf("the replica owns %+v, want gadgets only", units)
		}
		do(t, w, "widgets create crd")
		w.srv.Put(widgets, "ns", "b")
		w.converged()
		w.stopAll()
		w.judge()
	})
}

// TestSecrets: they are published only if they are named.
func TestSecrets(t *testing.T) {
	for _, c := range []struct {
		why       string
		resources []string
		want      []string
	}{
		{"a pattern does not select Secrets", []string{"*"}, []string{"test/widgets.example.com"}},
		{"nor does one that matches nothing else", []string{"secret*"}, nil},
		{"a name does", []string{"*", "secret"}, []string{"test/secrets", "test/widgets.example.com"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, widgets, secrets)
			defer w.srv.Close()
			w.config.Selection.Resources = c.resources
			w.start("one")
			time.Sleep(lease)
			synctest.Wait()
			var got []string
			for _, u := range w.replicas["one"].relay.Status().Units {
				got = append(got, u.Unit.String())
			}
			w.stopAll()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.why, diff)
			}
		})
	}
}

// TestSecretData: the data of Secrets is redacted, also if a rule redacts something else.
func TestSecretData(t *testing.T) {
	for _, c := range []struct {
		why         string
		rule        relay.Rule
		want, never []string
	}{
		{why: "by default", never: []string{"hunter2", "repeated"}, want: []string{"REDACTED", "visible"}},
		{
			why:   "with a path of the user's",
			rule:  relay.Rule{Redact: []string{"$.metadata.labels.x"}},
			never: []string{"hunter2", "repeated", "visible"},
		},
		{
			why:  "not if that is asked for",
			rule: relay.Rule{Unredacted: true}, want: []string{"hunter2", "visible"}, never: []string{"REDACTED"},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, secrets)
			defer w.srv.Close()
			c.rule.Resource = "secrets"
			w.config.Selection.Resources, w.config.Rules = []string{"secrets"}, []relay.Rule{c.rule}
			o := w.srv.Put(secrets, "ns", "a", "data.password=hunter2", "metadata.labels.x=visible")
			o.SetAnnotations(map[string]string{
				"kubectl.kubernetes.io/last-applied-configuration": "repeated", "any.other": "repeated",
			})
			if _, err := w.srv.Update(secrets, o); err != nil {
				t.Fatal(err)
			}
			w.start("one")
			w.converged()
			if _, err := w.srv.Delete(secrets, "ns", "a"); err != nil { // whose message has the last state
				t.Fatal(err)
			}
			w.converged()
			w.stopAll()
			for _, m := range w.messages() {
				for _, s := range c.want {
					if m.UID != "" && !strings.Contains(string(m.Data), s) {
						t.Errorf("%s: the message of %s lacks %q", c.why, text(m), s)
					}
				}
				for _, s := range c.never {
					if strings.Contains(string(m.Data), s) {
						t.Errorf("%s: the message of %s has %q", c.why, text(m), s)
					}
				}
			}
		})
	}
}

// TestEngineDown: while the engine is down, nobody takes a unit from a replica that could not renew its membership.
func TestEngineDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, gadgets, planets)
		defer w.srv.Close()
		for _, id := range []string{"one", "two", "three"} {
			w.start(id)
		}
		w.converged()
		time.Sleep(2 * lease)
		synctest.Wait()
		owners := func() map[string]string {
			all := map[string]string{}
			for _, e := range w.positions() {
				all[e.Unit.String()] = fmt.Sprintf("%s, epoch %d", e.Position.Owner, e.Position.Epoch)
			}
			return all
		}
		before := owners()
		for _, r := range w.replicas {
			r.link.cut(true)
		}
		w.srv.Put(widgets, "ns", "a")
		time.Sleep(10 * lease)
		for i, id := range []string{"one", "two", "three"} {
			w.replicas[id].link.cut(false)
			time.Sleep(time.Duration(i) * time.Second)
		}
		w.converged()
		time.Sleep(2 * lease)
		synctest.Wait()
		if diff := cmp.Diff(before, owners()); diff != "" {
			t.Errorf("-before +after:\n%s", diff)
		}
		for _, r := range w.replicas {
			if err := r.relay.Healthy(); err != nil {
				t.Errorf("unhealthy: %v", err)
			}
		}
		w.stopAll()
		w.judge()
	})
}

// TestLatest: while the engine is down, the newest event of each object takes the place of those before it. The counts
// say how many.
func TestLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		w.config.Queue = relay.Queue{Overflow: relay.OverflowLatest, Bytes: 1 << 10}
		w.srv.Put(widgets, "ns", "a")
		one := w.start("one")
		w.ready("one")
		one.link.cut(true)
		const changes = 1000
		for i := range changes {
			w.srv.Put(widgets, "ns", "a", fmt.Sprintf("spec.x=%d", i))
		}
		synctest.Wait()
		one.link.cut(false)
		w.converged()
		published := 0
		for _, m := range w.messages() {
			if m.Type == engine.Modified {
				published++
			}
		}
		coalesced := int(one.relay.Status().Units[0].Coalesced)
		if published > changes/10 || published+coalesced != changes {
			t.Errorf("%d events are published and %d coalesced, want %d in all", published, coalesced, changes)
		}
		w.stopAll()
		w.judge()
	})
}

// TestClusterDown: a cluster that does not answer delays no other, and does not end the relay.
func TestClusterDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		down := newWorld(t, gadgets)
		defer down.srv.Close()
		do(t, down, "discovery down example.com")
		if err := down.srv.Apply("any *: hang"); err != nil {
			t.Fatal(err)
		}
		w.srv.Put(widgets, "ns", "a")
		dead := connection(t, down.srv, nil)
		dead.Name = "dead"
		began := time.Now()
		w.start("one", dead)
		w.converged()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the cluster that answers is published after %v", took)
		}
		w.ready("one")
		time.Sleep(time.Minute) // discovery waits for an answer for half of that
		synctest.Wait()
		if m := w.replicas["one"].relay.Status(); len(m.Problems) != 1 {
			t.Errorf("the problems are %q, want one of the other cluster", m.Problems)
		}
		do(t, down, "heal")
		do(t, down, "discovery up example.com")
		down.srv.Put(gadgets, "ns", "b")
		w.eventually("the other cluster", func() string {
			for _, m := range w.messages() {
				if m.Unit.Cluster == "dead" && m.Name == "b" {
					return ""
				}
			}
			return "is not published"
		})
		w.stopAll()
	})
}
