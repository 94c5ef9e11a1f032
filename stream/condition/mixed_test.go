package condition_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var errTwice = errors.New("there are two conditions")

// isReady is met by what meets condition=Ready.
var isReady = condition.New("is-ready", func(o *unstructured.Unstructured) (bool, error) {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions") // panics if o is nil
	if len(all) == 2 {
		return false, errTwice
	}
	return len(all) == 1 && all[0].(map[string]any)["status"] == "True", nil
})

// mixed returns targets: "door: condition=Ready, *: delete, shop/*: create, gadgets/shop/lock: is-ready". Names are
// those of the function named, and "*" is every object of the source, "widgets" all widgets.
func mixed(text string) (targets []condition.Target) {
	for _, one := range strings.Split(text, ", ") {
		name, text, _ := strings.Cut(one, ": ")
		var t condition.Target
		switch o := named(name); {
		case name == "*":
		case name == "widgets":
			t.Resource = "widgets.example.com"
		case o.name == "*" && o.namespace != "shop":
			t.Namespace = o.namespace
		default:
			t = target(o.resource, strings.TrimSuffix(o.name, "*"))
			t.Namespace = o.namespace
		}
		if t.For = isReady; text != "is-ready" {
			t.For = condition.MustParse(text)
		}
		targets = append(targets, t)
	}
	return targets
}

// TestMixedTargets: each target has a condition of its own.
func TestMixedTargets(t *testing.T) {
	const (
		both  = "door: condition=Ready, gadgets/shop/lock: create"
		three = both + ", window: create"
	)
	tests := []struct{ why, targets, steps string }{
		{"two resources", "door: condition=Ready, gadgets/shop/lock: condition=Ready=False",
			"unready door; start; = waits; ready door; = waits; unready gadgets/shop/lock; = met"},
		{"met, unmet and met again", both,
			"ready door; start; = waits; unready door; ready gadgets/shop/lock; = waits; ready door; = met"},
		{"recreated", both,
			"ready door; start; delete door; unready door; ready gadgets/shop/lock; = waits; ready door; = met"},
		{"recreated in a gap", three, "ready door; ready gadgets/shop/lock; start; silence; delete door; " +
			"unready door; ready window; compact; sleep; = waits; ready door; = met"},
		{"unmet in a gap", three, "ready door; ready gadgets/shop/lock; start; silence; unready door; ready window; " +
			"compact; sleep; = waits; ready door; = met"},
		{"met in a gap", both, "start; silence; ready door; ready gadgets/shop/lock; compact; sleep; = met"},
		{"the type of one goes", "door: condition=Ready, gadgets/shop/lock: delete",
			"ready door; ready gadgets/shop/lock; start; widgets.example.com delete crd; sleep; " +
				"delete gadgets/shop/lock; = waits; widgets.example.com create crd; sleep; = waits; ready door; = met"},

		{"delete of one, ready of another", "door: delete, window: condition=Ready",
			"ready door; start; ready window; = waits; delete door; = met"},
		{"deleted first, and recreated", "door: delete, window: condition=Ready",
			"ready door; start; delete door; ready door; = waits; ready window; = met"},
		{"deleted in a gap, and recreated", "door: delete, gadgets/shop/lock: condition=Ready",
			"ready door; start; silence; delete door; ready door; compact; sleep; = waits; ready gadgets/shop/lock; " +
				"= met"},
		{"what delete waits for is fixed while another target waits", "door: delete, window: condition=Ready",
			"start; = waits; ready door; = waits; ready window; = met"},

		{"two conditions of one object", "door: condition=Ready, door: jsonpath={.metadata.name}=door",
			"unready door; start; = waits; ready door; = met"},
		{"two conditions that exclude each other", "door: condition=Ready, door: condition=Ready=False",
			"ready door; start; = waits; unready door; = waits"},
		{"delete and create: replaced", "door: delete, door: create",
			"ready door; start; = waits; delete door; = waits; ready door; = met"},
		{"a target twice counts once", "door: condition=Ready, door: condition=Ready",
			"unready door; start; = waits; ready door; = met"},

		{"every widget, and one gadget", "widgets: condition=Ready, gadgets/shop/lock: create",
			"ready door; unready window; unready gadgets/shop/lock; start; = waits; unready roof; ready window; " +
				"= waits; ready roof; = met"},
		{"every widget and one of them", "widgets: condition=Ready, door: jsonpath={.metadata.name}=door",
			"ready window; start; = waits; unready door; = waits; ready door; = met"},
		{"every widget of a namespace", "gadgets/shop/lock: create, shop/*: condition=Ready",
			"ready door; unready hall/door; start; = waits; ready gadgets/shop/lock; = met"},
		{"every object of a namespace, of all types", "hall/*: condition=Ready",
			"unready door; ready hall/door; unready gadgets/hall/lock; start; = waits; ready gadgets/hall/lock; = met"},
		{"every object, of all types", "*: condition=Ready",
			"ready door; unready gadgets/hall/lock; start; = waits; ready gadgets/hall/lock; = met"},
		{"every object, and none of another condition", "*: create, widgets: delete",
			"start; = waits; ready door; = met"},
		{"delete of all widgets", "widgets: delete, gadgets/shop/lock: create",
			"ready door; ready hall/door; start; ready window; delete door; ready gadgets/shop/lock; = waits; " +
				"delete hall/door; = met"},
		{"a type without objects", "door: condition=Ready, widgets: condition=Ready, hall/*: delete",
			"ready gadgets/shop/lock; start; " +
				"= condition: cannot wait for condition=Ready of widgets.example.com *: no objects exist"},
		{"a namespace without objects", "door: create, hall/*: is-ready",
			"ready door; start; = condition: cannot wait for is-ready of hall/*: no objects exist"},
		{"create of all widgets waits for the first one", "widgets: create, widgets: condition=Ready",
			"ready gadgets/shop/lock; start; = waits; unready door; = waits; ready door; = met"},
		{"the first one is deleted before it meets the condition", "widgets: create, widgets: condition=Ready",
			"start; unready door; = waits; delete door; = waits; ready window; = met"},
		{"the first one, of all types", "*: create, *: is-ready", "start; = waits; ready gadgets/shop/lock; = met"},
		{"create of another namespace is another target", "shop/*: create, hall/*: is-ready", "ready door; start; " +
			"= condition: cannot wait for is-ready of hall/*: no objects exist"},
		{"all of a type are gone later", "widgets: condition=Ready, gadgets/shop/lock: create",
			"ready door; start; delete door; ready gadgets/shop/lock; = waits; ready window; = met"},

		{"a function", "door: is-ready, gadgets/shop/lock: condition=Ready",
			"unready door; ready gadgets/shop/lock; start; = waits; ready door; = met"},
		{"a function is not called for what does not exist", "door: is-ready",
			"start; = waits; ready window; = waits; ready door; = met"},
		{"nor for what is deleted", "door: is-ready, window: create",
			"ready door; start; delete door; ready window; = waits; ready door; = met"},
		{"a function of every object", "*: is-ready",
			"ready door; unready gadgets/shop/lock; start; = waits; ready gadgets/shop/lock; = met"},
		{"an error of a function for one object", "*: is-ready", "unready door; ready window; start; = waits; " +
			"twice roof; = condition: cannot check is-ready: there are two conditions (widgets.example.com shop/roof)"},
		{"an object that is no target is not checked", "door: is-ready",
			"unready door; start; twice roof; twice gadgets/shop/door; = waits; ready door; = met"},
	}
	for name, newSource := range kinds {
		if !strings.Contains(name, "Mux") && name != "follow" && name != "Latest" {
			continue // it has no gadgets
		}
		for _, tt := range tests {
			t.Run(name+"/"+tt.why, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { runScenario(t, newSource, mixed(tt.targets), tt.steps) })
			})
		}
	}
}

// TestDeleteIsFixedForEachTarget: what is to be deleted is known once the type of the target is, although the type of
// another target is created later.
func TestDeleteIsFixedForEachTarget(t *testing.T) {
	for _, tt := range []struct{ why, before, after, want string }{
		{"created after its type was synced", "", "door", "met"},
		{"it was there", "door", "", "waits"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets)
			put := func(name string) {
				if name != "" {
					srv.Put(widgets, "shop", name, ready)
				}
				time.Sleep(5 * time.Minute)
			}
			put(tt.before)
			w := startWait(t.Context(), t, kinds["follow"](srv), mixed("door: delete, gadgets/shop/lock: create")...)
			time.Sleep(5 * time.Minute)
			put(tt.after)
			if got := w.state(); got != "waits" {
				t.Fatalf("%s, before the gadgets: %s", tt.why, got)
			}
			srv.Serve(gadgets)
			srv.Put(gadgets, "shop", "lock")
			time.Sleep(5 * time.Minute)
			if got := w.state(); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.why, got, tt.want)
			}
		})
	}
}

// TestUnmetOfMixedTargets: the error has what is not met of each target.
func TestUnmetOfMixedTargets(t *testing.T) {
	const locks = "*: condition=Ready, gadgets/shop/lock: condition=Complete"
	var twelve string
	for i := range 9 {
		twelve += fmt.Sprintf("by widgets.example.com shop/w%02d: condition Ready is False; ", i)
	}
	for _, tt := range []struct{ why, targets, put, want string }{
		{"one", "door: condition=Ready", "door",
			"condition=Ready is not met by widgets.example.com shop/door: condition Ready is False: time is up"},
		{"by condition, then by object",
			"roof: is-ready, gadgets/shop/lock: condition=Complete, door: is-ready", "door",
			"condition=Complete is not met by gadgets.example.com shop/lock: does not exist; " +
				"is-ready is not met by widgets.example.com shop/door: does not meet is-ready; " +
				"by widgets.example.com shop/roof: does not exist: time is up"},
		{"two conditions of one object", "door: create, door: delete, door: condition=Ready", "door",
			"condition=Ready is not met by widgets.example.com shop/door: condition Ready is False; " +
				"delete is not met by widgets.example.com shop/door: exists: time is up"},
		{"one object of two targets", "door: is-ready, *: is-ready", "door",
			"is-ready is not met by widgets.example.com shop/door: does not meet is-ready: time is up"},
		{"no object of what is to exist", "door: is-ready, hall/*: create", "door",
			"create is not met by hall/*: has no objects; " +
				"is-ready is not met by widgets.example.com shop/door: does not meet is-ready: time is up"},
		{"many of one hide none of another", locks, "w00 w01 w02 w03 w04 w05 w06 w07 w08 w09 w10 w11",
			"condition=Complete is not met by gadgets.example.com shop/lock: does not exist; " +
				"condition=Ready is not met " + twelve + "and by 3 more: time is up"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets, gadgets)
			for _, name := range strings.Fields(tt.put) {
				srv.Put(widgets, "shop", name, unready)
			}
			ctx, cancel := timeUp(t)
			defer cancel()
			w := startWait(ctx, t, kinds["Mux"](srv), mixed(tt.targets)...)
			time.Sleep(2 * time.Hour)
			if diff := cmp.Diff(tt.want, w.state()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
			var unmet *condition.UnmetError
			if !errors.As(w.err, &unmet) || len(unmet.Unmet) > 10 {
				t.Fatalf("%s: %#v", tt.why, w.err)
			}
			for target, reason := range unmet.Unmet {
				text := "by " + target.String() + ": " + reason
				if target.For == (condition.Condition{}) || !strings.Contains(w.err.Error(), text) {
					t.Errorf("%s: the text does not have %+v %s", tt.why, target, reason)
				}
			}
		})
	}
}

// TestTargetOfAMuxThatCannotBe: no object is one of a namespaced resource without a namespace, or one of a
// cluster-scoped resource with one. Otherwise a deletion that has not happened would count as done.
func TestTargetOfAMuxThatCannotBe(t *testing.T) {
	moons := resource("Moon", "moons")
	moons.Namespaced, moons.Verbs = false, []string{"list", "watch"}
	const clustered = "must not have a namespace, because its resource is cluster-scoped"
	for _, tt := range []struct {
		why, text string
		target    condition.Target
		resource  gvr.Resource
		want      string
	}{
		{"namespaced", "create", condition.Target{Resource: "widgets.example.com", Name: "door"}, widgets,
			`invalid targets "widgets.example.com door": must have a namespace, because its resource is namespaced`},
		{"every object", "create", condition.Target{Resource: "widgets.example.com"}, widgets, "met"},
		{"a gvr.Resource of the program", "create", condition.Target{Resource: "widgets.example.com", Name: "door"},
			gvr.Resource{GroupVersionResource: widgets.GroupVersionResource}, "waits"},
		{"its objects may have namespaces", "create", target(widgets, "door"),
			gvr.Resource{GroupVersionResource: widgets.GroupVersionResource}, "met"},
		{"cluster-scoped", "delete", target(moons, "titan"), moons,
			`invalid targets "moons.example.com shop/titan": ` + clustered},
		{"every object of a namespace", "delete", target(moons, ""), moons,
			`invalid targets "moons.example.com shop/*": ` + clustered},
		{"of all resources", "delete", condition.Target{Namespace: "shop"}, moons, "met"},
		{"without a namespace", "delete", condition.Target{Resource: "moons.example.com", Name: "titan"}, moons,
			"waits"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets, moons)
			srv.Put(widgets, "shop", "door")
			srv.Put(moons, "", "titan")
			m := must(mux.New(nil, must(stream.New(srv.Client(), tt.resource, nil))))
			w := start(t.Context(), t, m, tt.text, tt.target)
			if got := w.state(); !strings.HasSuffix(got, tt.want) {
				t.Errorf("%s: %s, want %s", tt.why, got, tt.want)
			}
		})
	}
}

// TestRandomMixedTargets compares Wait with what exists, for random targets and conditions, as TestRandomHistories
// does for two targets with one.
func TestRandomMixedTargets(t *testing.T) {
	type state struct {
		uid   types.UID
		ready bool
	}
	conditions := []string{"condition=Ready", "is-ready", "condition=Ready=False", "create", "delete"}
	for seed := range seedtest.Default(10).All(t) {
		for _, kind := range []string{"Mux", "Latest", "follow"} {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 2))
				srv := streamtest.NewServer(widgets, gadgets)
				exist := map[string]state{}
				var log []string
				change := func() {
					name := []string{"door", "window"}[random.IntN(2)]
					old := exist[name]
					if random.IntN(4) == 0 {
						_, _ = srv.Delete(widgets, "shop", name)
						delete(exist, name)
						log = append(log, "delete "+name)
						return
					}
					now := state{ready: random.IntN(2) == 0}
					fields := map[bool]string{true: ready, false: unready}[now.ready]
					now.uid = srv.Put(widgets, "shop", name, fields).GetUID()
					if old.uid != "" && old.uid != now.uid {
						t.Fatal("another uid")
					}
					exist[name] = now
					log = append(log, fmt.Sprint(name, " ready ", now.ready))
				}
				for range random.IntN(4) {
					change()
				}
				var texts []string
				for range 1 + random.IntN(3) {
					name := []string{"door", "window", "widgets", "*"}[random.IntN(4)]
					texts = append(texts, name+": "+conditions[random.IntN(len(conditions))])
				}
				log = append(log, strings.Join(texts, ", "))
				atFirst := map[types.UID]bool{}
				for _, s := range exist {
					atFirst[s.uid] = true
				}
				isMet := func(text string) bool {
					name, of, _ := strings.Cut(text, ": ")
					n, unmet, old := 0, 0, 0
					for other, s := range exist {
						if len(name) > 1 && name != "widgets" && name != other {
							continue
						}
						n++
						if atFirst[s.uid] {
							old++
						}
						switch of {
						case "condition=Ready", "is-ready":
							if !s.ready {
								unmet++
							}
						case "condition=Ready=False":
							if s.ready {
								unmet++
							}
						}
					}
					return of == "delete" && old == 0 || of != "delete" && n > 0 && unmet == 0
				}
				noObjects := len(exist) == 0 && slices.ContainsFunc(texts, func(text string) bool {
					name, of, _ := strings.Cut(text, ": ")
					return (name == "*" || name == "widgets") && of != "create" && of != "delete"
				})
				w := startWait(t.Context(), t, kinds[kind](srv), mixed(strings.Join(texts, ", "))...)
				met := false
				for range 12 {
					met = met || !slices.ContainsFunc(texts, func(text string) bool { return !isMet(text) })
					got := w.state()
					want := map[bool]string{true: "met", false: "waits"}[met]
					if noObjects && errors.Is(w.err, condition.ErrNoObjects) {
						return
					}
					if got != want || noObjects {
						t.Fatal(kind, cmp.Diff(want, got), strings.Join(log, "; "))
					}
					if random.IntN(3) > 0 {
						change()
						continue
					}
					do(t, srv, "silence")
					for range 1 + random.IntN(6) {
						change()
					}
					do(t, srv, "compact") // what was met in between is lost
					time.Sleep(5 * time.Minute)
					log = append(log, "gap")
				}
			})
			if t.Failed() {
				return
			}
		}
	}
}
