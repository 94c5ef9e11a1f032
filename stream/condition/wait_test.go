package condition_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A step is: "ready NAME", "unready NAME", "delete NAME", "sleep" (5 minutes), an action of the server, or "= STATE". A
// NAME is one that the function named reads.
// Actions that name no resource concern the server. "silence" makes all watches half-open: what follows is not
// delivered before "sleep".
var scenarios = []struct {
	why, condition string
	targets        string // names of widgets; empty means every object
	steps          string
}{
	{"met from the start", "condition=Ready", "door", "ready door; start; = met"},
	{"met later", "condition=Ready", "door", "unready door; start; = waits; ready door; = met"},
	{"others do not matter", "condition=Ready", "door", "ready door; unready window; start; = met"},
	{"the target is created during the wait", "condition=Ready", "door", "start; = waits; ready door; = met"},
	{"all targets at the same moment", "condition=Ready", "door window",
		"ready door; unready window; start; unready door; ready window; = waits; ready door; = met"},
	{"a deleted target does not meet it", "condition=Ready", "door window",
		"ready door; unready window; start; delete door; ready window; = waits; ready door; = met"},
	{"a recreated target starts again", "condition=Ready", "door window",
		"ready door; unready window; start; delete door; unready door; ready window; = waits; ready door; = met"},
	{"jsonpath", "jsonpath={.status.conditions[0].status}=True", "door",
		"unready door; start; = waits; ready door; = met"},
	{"no value yet", "jsonpath={.status.conditions[1].status}=True", "door", "unready door; start; = waits"},

	{"recreated in a gap", "condition=Ready", "door window",
		"ready door; unready window; start; silence; delete door; unready door; ready window; compact; sleep; " +
			"= waits; ready door; = met"},
	{"deleted in a gap", "condition=Ready", "door window",
		"ready door; unready window; start; silence; delete door; ready window; compact; sleep; = waits; " +
			"ready door; = met"},
	{"met in a gap", "condition=Ready", "door", "unready door; start; silence; ready door; compact; sleep; = met"},
	{"met in between, while events are lost", "condition=Ready", "door",
		"unready door; start; silence; ready door; unready door; compact; sleep; = waits; ready door; = met"},
	{"within the differences after a gap, but not at the end", "condition=Ready", "door window",
		"unready door; ready window; start; silence; ready door; unready window; compact; sleep; = waits; " +
			"ready window; = met"},
	{"in the silence the wait goes on", "condition=Ready", "door",
		"unready door; start; silence; ready door; = waits; sleep; = met"},
	{"expired versions", "condition=Ready", "door",
		"unready door; start; widgets.example.com expire; sleep; = waits; ready door; = met"},
	{"a rewound server", "condition=Ready", "door",
		"unready door; ready door; unready door; start; rewind 1 restart; sleep; = met"},

	{"delete", "delete", "door", "ready door; ready window; start; = waits; delete door; = met"},
	{"delete of nothing", "delete", "door", "ready window; start; = met"},
	{"deleted and recreated", "delete", "door", "ready door; start; delete door; ready door; = met"},
	{"deleted and recreated in a gap", "delete", "door",
		"ready door; start; silence; delete door; ready door; compact; sleep; = met"},
	{"not deleted in a gap", "delete", "door",
		"ready door; start; silence; unready door; compact; sleep; = waits; delete door; = met"},
	{"one is recreated, another one still exists", "delete", "door window",
		"ready door; ready window; start; delete door; ready door; = waits; delete window; = met"},
	{"delete of all", "delete", "", "ready door; start; ready window; = waits; delete door; = met"},
	{"delete of all, none exists", "delete", "", "start; = met"},

	{"create", "create", "door", "ready window; start; = waits; unready door; = met"},
	{"it exists", "create", "door", "unready door; start; = met"},
	{"any object", "create", "", "start; = waits; unready door; = met"},
	{"deleted before the other one is created", "create", "door window",
		"ready door; start; delete door; ready window; = waits; ready door; = met"},

	{"every object", "condition=Ready", "", "ready door; unready window; start; = waits; ready window; = met"},
	{"a new one counts", "condition=Ready", "",
		"ready door; unready window; start; unready roof; ready window; = waits; ready roof; = met"},
	{"a deleted one does not", "condition=Ready", "", "ready door; unready window; start; delete window; = met"},
	{"none is left", "condition=Ready", "", "unready door; start; delete door; = waits; ready window; = met"},
	{"none at all", "condition=Ready", "",
		"start; = condition: cannot wait for condition=Ready of *: no objects exist"},

	{"the type goes and returns", "condition=Ready", "door",
		"unready door; start; widgets.example.com delete crd; sleep; = waits; widgets.example.com create crd; sleep; " +
			"= waits; ready door; = met"},
	{"the type goes, and its objects with it", "delete", "door",
		"ready door; start; widgets.example.com delete crd; = met"},
	{"the server is down at first", "condition=Ready", "door",
		"ready door; apply any 1-20: 503; start; sleep; = met"},
	{"several values", "jsonpath={.status.conditions[*].type}=a", "door", "unready door; start; = waits; twice door; " +
		`= gvrwatch: invalid jsonpath "{.status.conditions[*].type}": must lead to one value, leads to several ` +
		"(widgets.example.com shop/door)"},
}

func TestWait(t *testing.T) {
	for name, newSource := range kinds {
		for _, tt := range scenarios {
			t.Run(name+"/"+tt.why, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var targets []condition.Target
					for _, name := range strings.Fields(tt.targets) {
						targets = append(targets, target(widgets, name))
					}
					runScenario(t, newSource, all(must(condition.Parse(tt.condition)), targets...), tt.steps)
				})
			})
		}
	}
}

// A follow.Mux attaches the type of a target during the wait.
func TestTheTypeIsCreatedDuringTheWait(t *testing.T) {
	for _, text := range []string{"condition=Ready", "create", "delete"} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(gadgets)
			srv.Put(gadgets, "shop", "lock", ready)
			w := start(t.Context(), t, kinds["follow"](srv), text, target(widgets, "door"))
			time.Sleep(5 * time.Minute)
			if got := w.state(); got != "waits" {
				t.Fatalf("%s without the type: %s", text, got)
			}
			srv.Serve(widgets)
			if text != "delete" {
				time.Sleep(5 * time.Minute)
				if got := w.state(); got != "waits" {
					t.Fatalf("%s without the object: %s", text, got)
				}
				srv.Put(widgets, "shop", "door", ready)
			}
			time.Sleep(5 * time.Minute)
			if got := w.state(); got != "met" {
				t.Errorf("%s: %s", text, got)
			}
		})
	}
}

// TestWaitOnAFake: client-go's dynamic fake sets neither uids nor resourceVersions.
func TestWaitOnAFake(t *testing.T) {
	for _, text := range []string{"jsonpath=.spec.state=open", "delete", "create"} {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
				map[schema.GroupVersionResource]string{widgets.GroupVersionResource: "WidgetList"})
			objects := client.Resource(widgets.GroupVersionResource).Namespace("shop")
			door := func(state string) *unstructured.Unstructured {
				return object(t, `{"apiVersion":"example.com/v1","kind":"Widget",
					"metadata":{"namespace":"shop","name":"door"},"spec":{"state":"`+state+`"}}`)
			}
			if text != "create" {
				must(objects.Create(t.Context(), door("shut"), metav1.CreateOptions{}))
			}
			w := start(t.Context(), t, must(stream.New(client, widgets, nil)), text, target(widgets, "door"))
			if got := w.state(); got != "waits" {
				t.Fatalf("%s: %s", text, got)
			}
			switch text {
			case "create":
				must(objects.Create(t.Context(), door("shut"), metav1.CreateOptions{}))
			case "delete":
				if err := objects.Delete(t.Context(), "door", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				must(objects.Create(t.Context(), door("shut"), metav1.CreateOptions{}))
			default:
				must(objects.Update(t.Context(), door("open"), metav1.UpdateOptions{}))
			}
			if got := w.state(); got != "met" {
				t.Errorf("%s: %s", text, got)
			}
		})
	}
}

func runScenario(t *testing.T, newSource func(*streamtest.Server) source, targets []condition.Target, steps string) {
	srv := streamtest.NewServer(widgets, gadgets)
	var w *waiting
	for _, step := range strings.Split(steps, "; ") {
		verb, rest, _ := strings.Cut(step, " ")
		of := named(rest)
		switch verb {
		case "start":
			source := newSource(srv)
			if _, ok := source.(*stream.Stream); ok {
				for i := range targets {
					targets[i].Resource = "" // that of the Stream
				}
			}
			w = startWait(t.Context(), t, source, targets...)
		case "ready":
			srv.Put(of.resource, of.namespace, of.name, ready)
		case "unready":
			srv.Put(of.resource, of.namespace, of.name, unready)
		case "twice":
			srv.Put(of.resource, of.namespace, of.name, `status={"conditions":[{"type":"a"},{"type":"b"}]}`)
		case "delete":
			if _, err := srv.Delete(of.resource, of.namespace, of.name); err != nil {
				t.Fatal(err)
			}
		case "apply":
			if err := srv.Apply(rest); err != nil {
				t.Fatal(err)
			}
		case "sleep":
			time.Sleep(5 * time.Minute)
		case "=":
			got := w.state()
			if strings.Contains(rest, " of *: ") { // a Stream has completed the target
				got = strings.Replace(got, " of widgets.example.com *: ", " of *: ", 1)
			}
			if got != rest {
				t.Fatalf("%s: %s, want %s", steps, got, rest)
			}
		default:
			do(t, srv, step)
		}
		synctest.Wait()
	}
}
