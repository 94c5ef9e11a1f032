package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var (
	podType        = withShortName(newType("pods", "", true), "po")
	deploymentType = withShortName(newType("deployments", "apps", true), "deploy")
	jobType        = newType("jobs", "batch", true)
	nodeType       = newType("nodes", "", false)
)

func withShortName(r gvr.Resource, name string) gvr.Resource {
	r.ShortNames = []string{name}
	return r
}

// waitTypes are those of an object in the steps of a test: TYPE/NAME or TYPE/NAMESPACE/NAME.
var waitTypes = map[string]gvr.Resource{
	"pod": podType, "deployment": deploymentType, "job": jobType, "node": nodeType, "robot": robotType,
}

// states are those that a step gives to an object.
var states = map[string][]string{
	"ready":   {`status={"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`},
	"unready": {`status={"phase":"Running","conditions":[{"type":"Ready","status":"False","message":"5ecret"}]}`},
	"available": {"spec.replicas=2", `status={"replicas":2,"updatedReplicas":2,"readyReplicas":2,` +
		`"availableReplicas":2,"conditions":[{"type":"Available","status":"True"}]}`},
	"rolling": {"spec.replicas=2", `status={"replicas":2,"updatedReplicas":2,"readyReplicas":1,"availableReplicas":1}`},
	"started": {`status={"startTime":"2026-01-02T03:04:05Z"}`},
	"web":     {"labels.app=web"},
	"hostile": {`status={"phase":"Running","containerStatuses":["5ecret"]}`},
}

// waitTests are waits in a bubble. The steps: a state and an object, "delete OBJECT", "wait" begins the wait, "waits",
// "met" and "failed" say how it goes, "sleep" takes ten seconds, "signal" ends the program, "serve" serves robots,
// anything else is an action of the server.
var waitTests = []struct{ why, args, steps, out, err string }{
	{"a condition that is met", "pod/a --for condition=Ready", "ready pod/a; wait; met", "pod/a condition met\n", ""},
	{"later", "pod/a --for condition=Ready", "unready pod/a; wait; waits; ready pod/a; met", "pod/a condition met\n",
		""},
	{"of another group", "deployment/a --for create", "available deployment/a; wait; met",
		"deployment.apps/a condition met\n", ""},
	{"a name", "pod/a --for create -o name", "ready pod/a; wait; met", "pod/a\n", ""},
	{"cluster-scoped", "node/a --for create -n b", "web node/a; wait; met", "node/a condition met\n", ""},
	{"a path", "pod a --for jsonpath={.status.phase}=Running", "web pod/a; wait; waits; ready pod/a; met",
		"pod/a condition met\n", ""},
	{"delete", "pod/a --for delete", "ready pod/a; wait; waits; delete pod/a; met", "pod/a condition met\n", ""},
	{"delete of what does not exist", "pod/a --for delete", "wait; met", "", ""},
	{"also with --allow-none", "pod/a --for delete --allow-none", "wait; met", "", ""},
	{"delete of all", "pods --for delete", "ready pod/b; ready pod/a; wait; delete pod/b; waits; delete pod/a; met",
		"pod/a condition met\npod/b condition met\n", ""},
	{"delete of none", "pods -l app=web --for delete", "ready pod/a; wait; met", "", ""},
	{"deleted and recreated", "pod/a --for delete", "ready pod/a; wait; waits; delete pod/a; ready pod/a; met",
		"pod/a condition met\n", ""},
	{"a recreated one is another one", "pod/a pod/b --for condition=Ready",
		"ready pod/a; unready pod/b; wait; waits; delete pod/a; unready pod/a; ready pod/b; waits; ready pod/a; met",
		"pod/a condition met\npod/b condition met\n", ""},
	{"create", "pod/a --for create", "wait; waits; unready pod/a; met", "pod/a condition met\n", ""},
	{"created, and ready", "pod/a --for create --for condition=Ready",
		"wait; waits; unready pod/a; waits; ready pod/a; met", "pod/a condition met\n", ""},
	{"an object that does not exist yet", "pod/a --for condition=Ready", "wait; waits; ready pod/a; met",
		"pod/a condition met\n", ""},
	{"a line of each object, in the order of the arguments", "pod/b deployment/c pod/a --for create",
		"web pod/a; web pod/b; web deployment/c; wait; met",
		"pod/b condition met\ndeployment.apps/c condition met\npod/a condition met\n", ""},
	{"one named twice", "pod/a po/a --for create", "web pod/a; wait; met", "pod/a condition met\n", ""},
	{"JSON", "pod/a --for jsonpath={.metadata.name}=a -o json", "web pod/a; wait; met", `{...{"app":"web"}...}` +
		"\n", ""},
	{"JSON of what is deleted", "pod/a --for delete -o json", "web pod/a; wait; waits; delete pod/a; met",
		`{...{"app":"web"}...}` + "\n", ""},

	{"conditions at the same moment", "pod/a --for condition=Ready --for jsonpath={.metadata.labels.app}=web",
		"ready pod/a; wait; waits; unready pod/a; web pod/a; waits; ready pod/a; met", "pod/a condition met\n", ""},
	{"objects at the same moment", "pods a b --for condition=Ready",
		"ready pod/a; unready pod/b; wait; waits; unready pod/a; ready pod/b; waits; ready pod/a; met",
		"pod/a condition met\npod/b condition met\n", ""},

	{"ready, by the replicas", "deployment/a --for ready",
		"rolling deployment/a; wait; waits; available deployment/a; met",
		"deployment.apps/a condition met\n", ""},
	{"ready, several types in one call", "deploy/a job/b --for ready",
		"available deployment/a; web job/b; wait; waits; started job/b; met",
		"deployment.apps/a condition met\njob.batch/b condition met\n", ""},
	{"ready, for want of a status", "node/a --for ready", "web node/a; wait; met", "node/a condition met\n", ""},
	{"why it is not ready", "deployment/a --for ready", "rolling deployment/a; wait; sleep; sleep; sleep; failed", "",
		"timed out waiting for the condition on deployments/a: is not ready (available: 1/2)\n"},
	{"a hostile object is not ready, and is not quoted", "pod/a --for ready --timeout 5s",
		"hostile pod/a; wait; sleep; failed", "",
		"timed out waiting for the condition on pods/a: is not ready (its status can't be read)\n"},

	{"all of a type", "pods --all --for condition=Ready",
		"ready pod/a; unready pod/b; wait; waits; ready pod/b; met", "pod/a condition met\npod/b condition met\n", ""},
	{"a selector", "pods -l app=web --for create", "ready pod/b; web pod/a; wait; met", "pod/a condition met\n", ""},
	{"nothing matches yet", "pods -l app=web --for condition=Ready",
		"ready pod/b; wait; waits; web pod/a; waits; ready pod/a; met", "pod/a condition met\n", ""},
	{"the only object is deleted meanwhile", "pods --for condition=Ready",
		"unready pod/a; wait; waits; delete pod/a; waits; ready pod/b; met", "pod/b condition met\n", ""},
	{"the first object is deleted before it meets the condition", "pods --for condition=Ready",
		"wait; waits; unready pod/a; waits; delete pod/a; waits; ready pod/b; met", "pod/b condition met\n", ""},
	{"the first object of any type", "pods,deployments -l app=web --for create", "wait; waits; web deployment/a; met",
		"deployment.apps/a condition met\n", ""},
	{"one that is created meanwhile counts", "pods --for condition=Ready",
		"unready pod/a; wait; waits; unready pod/b; ready pod/a; waits; ready pod/b; met",
		"pod/a condition met\npod/b condition met\n", ""},
	{"kubectl's way", "pods -l app=web --for condition=Ready --allow-none", "ready pod/a; wait; failed", "",
		"no matching resources found\n"},
	{"of a name", "pod/a pod/b --for condition=Ready --allow-none", "ready pod/a; wait; failed", "",
		`pods "b" not found` + "\n"},
	{"of another group", "deployment/a --for create --allow-none", "wait; failed", "",
		`deployments.apps "a" not found` + "\n"},
	{"it is only about the beginning", "pod/a --for condition=Ready --allow-none",
		"unready pod/a; wait; waits; delete pod/a; waits; ready pod/a; met", "pod/a condition met\n", ""},

	{"also after a gap", "pod/a --for condition=Ready --allow-none",
		"unready pod/a; wait; waits; close watches; delete pod/a; compact; sleep; waits; ready pod/a; sleep; met",
		"pod/a condition met\n", "...again..."},

	{"another namespace", "pod/a --for create -n shop", "web pod/a; wait; waits; web pod/shop/a; met",
		"pod/a condition met\n", ""},
	{"a name in several namespaces", "pod/a --for create -n shop,default --timeout 5s",
		"web pod/a; wait; sleep; failed",
		"pod/a condition met\n",
		"timed out waiting for the condition on pods/a in namespace shop: does not exist\n"},
	{"all namespaces", "pods -A --for condition=Ready --timeout 5s",
		"ready pod/a; unready pod/shop/a; wait; sleep; failed", "pod/a condition met\n",
		"timed out waiting for the condition on pods/a in namespace shop: condition Ready is False\n"},

	{"after the timeout, those that are met and those that are not", "pod/c pod/b pod/a --for condition=Ready",
		"ready pod/a; unready pod/b; wait; sleep; sleep; waits; sleep; failed", "pod/a condition met\n",
		"timed out waiting for the condition on pods/b: condition Ready is False\n" +
			"timed out waiting for the condition on pods/c: does not exist\n"},
	{"one reason of an object each", "pod/a --for condition=Ready --for jsonpath={.metadata.labels.app} --timeout 1s",
		"unready pod/a; wait; sleep; failed", "",
		"timed out waiting for the condition on pods/a: condition Ready is False; " +
			"{.metadata.labels.app} has no value\n"},
	{"one reason once", "pod/a --for create --for condition=Ready --timeout 1s", "wait; sleep; failed", "",
		"timed out waiting for the condition on pods/a: does not exist\n"},
	{"nothing ever matches", "pods --for create --timeout 1s", "wait; sleep; failed", "",
		"timed out waiting for the condition: no matching resources found\n"},
	{"a week", "pod/a --for create --timeout=-1s", "wait; sleep; sleep; sleep; sleep; waits; web pod/a; met",
		"pod/a condition met\n", ""},
	{"at most ten lines, and how many more", "pods --for condition=Ready --timeout 1s",
		"web pod/a; web pod/b; web pod/c; web pod/d; web pod/e; web pod/f; web pod/g; web pod/h; web pod/i; " +
			"web pod/j; web pod/k; web pod/l; wait; sleep; failed", "",
		"timed out waiting for the condition on pods/a: has no condition Ready\n...condition: 2 more are not met\n"},
	{"a signal", "pod/a pod/b --for condition=Ready", "ready pod/a; unready pod/b; wait; waits; signal; failed", "",
		"interrupted while waiting for the condition on pods/b: condition Ready is False\n"},

	{"check once", "pod/a --for condition=Ready --timeout 0", "ready pod/a; wait; met", "pod/a condition met\n", ""},
	{"once, and not met", "pods --for condition=Ready --timeout 0", "ready pod/a; unready pod/b; wait; failed",
		"pod/a condition met\n", "condition not met for pods/b: condition Ready is False\n"},
	{"once, and not there", "pod/a --for create --timeout 0", "wait; failed", "", `pods "a" not found` + "\n"},
	{"once, and none", "pods --for condition=Ready --timeout 0", "wait; failed", "", "no matching resources found\n"},
	{"once, and none to create", "pods --for create --timeout 0", "wait; failed", "", "no matching resources found\n"},
	{"once, and deleted", "pod/a --for delete --timeout 0", "wait; met", "", ""},
	{"once, and it still exists", "pod/a --for delete --timeout 0", "web pod/a; wait; failed", "",
		"condition not met for pods/a: exists\n"},
	{"once, and the server does not answer", "pod/a --for create --timeout 0",
		"apply pods any *: hang; wait; waits; sleep; sleep; sleep; sleep; failed", "",
		"...condition not met for pods/a: is not known yet\n"},

	{"discovery does not answer", "pod/a --for create --timeout 5s", "apply discovery *: hang; wait; sleep; failed", "",
		"discovery did not complete within 5s\n"},
	{"a signal before it answers", "pod/a --for create", "apply discovery *: hang; wait; waits; signal; failed", "",
		"interrupted before the server has said what it serves\n"},
	{"a type that is never served", "robot/a --for create --follow --timeout 5s", "wait; sleep; failed", "",
		"robot: not served yet: waiting\ntimed out waiting for the condition: what exists is not known yet\n"},
	{"a type that is not served", "robot/a --for create", "wait; failed", "",
		`the server serves no resource type "robot"` + "\n"},
	{"waiting for the type", "robot/a --for create --follow",
		"wait; waits; serve; sleep; waits; web robot/a; sleep; met", "robot.example.com/a condition met\n",
		"robot: not served yet: waiting\nrobots.v1.example.com: served now: watching\n"},
	{"a category", "all --for create", "serve; web robot/a; wait; met", "robot.example.com/a condition met\n", ""},
	{"may not", "pod/a --for create", "pods forbid all; wait; failed", "",
		"cannot watch pods.v1 in namespace \"default\": pods is forbidden..."},
	{"a condition that can't be checked", "pod/a --for jsonpath={.status}=a", "unready pod/a; wait; failed", "",
		`invalid jsonpath "{.status}": must lead to a text...`},
	{"a connection that fails is tried again, and says so", "pod/a --for condition=Ready",
		"apply pods any 1-2: 503; ready pod/a; wait; sleep; met", "pod/a condition met\n",
		"pods.v1: trying again in ...again\n"},
	{"a closed connection is nothing to say", "pod/a --for condition=Ready",
		"unready pod/a; wait; sleep; close watches; sleep; waits; ready pod/a; sleep; met", "pod/a condition met\n",
		""},
	{"within a gap", "pod/a --for condition=Ready",
		"unready pod/a; wait; waits; close watches; ready pod/a; compact; sleep; met", "pod/a condition met\n",
		"...again..."},
}

func TestWait(t *testing.T) {
	for _, tt := range waitTests {
		t.Run(tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWaitRun(t, tt.args)
				for _, step := range strings.Split(tt.steps, "; ") {
					w.step(step)
				}
				stdout, stderr := w.out.String(), strings.ReplaceAll(w.err.String(), "gvrwatch: ", "")
				if !like(tt.out, stdout) {
					t.Errorf("stdout (-want +got):\n%s", cmp.Diff(tt.out, stdout))
				}
				if !like(tt.err, stderr) || strings.Contains(stderr, "5ecret") {
					t.Errorf("stderr (-want +got):\n%s", cmp.Diff(tt.err, stderr))
				}
			})
		})
	}
}

// like reports whether a text is the wanted one, in which "..." stands for any text.
func like(want, text string) bool {
	first, rest, any := strings.Cut(want, "...")
	text, ok := strings.CutPrefix(text, first)
	if !ok || !any {
		return ok && text == ""
	}
	for i := range len(text) + 1 {
		if like(rest, text[i:]) {
			return true
		}
	}
	return false
}

// waitRun is a wait in a bubble.
type waitRun struct {
	*testing.T
	srv      *streamtest.Server
	options  *waitOptions
	want     wanted
	out, err bytes.Buffer
	signal   context.CancelFunc
	done     chan struct{}
	result   error
}

func newWaitRun(t *testing.T, args string) *waitRun {
	t.Helper()
	w := &waitRun{T: t, srv: streamtest.NewServer(podType, deploymentType, jobType, nodeType), options: &waitOptions{}}
	t.Cleanup(w.srv.Close)
	flags := pflag.NewFlagSet("wait", pflag.ContinueOnError)
	w.options.addFlags(flags)
	err := flags.Parse(strings.Fields(args))
	if err == nil {
		w.want, err = w.options.check(flags.Args())
	}
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return w
}

func (w *waitRun) start() {
	cluster, err := gvrwatch.Connect(w.srv.Config())
	if err != nil {
		w.Fatal(err)
	}
	client, err := stream.NewClient(w.srv.Config(), nil)
	if err != nil {
		w.Fatal(err)
	}
	s := &session{
		opts: &w.options.watch, srv: &server{cluster, w.srv.Config(), "default"}, client: client,
		streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &w.out, ErrOut: &locked{w: &w.err}},
	}
	var ctx context.Context
	ctx, w.signal = context.WithCancel(w.Context())
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		if w.result = w.options.wait(ctx, s, w.want); w.result != nil {
			printMessage(s.streams.ErrOut, "%v", w.result) // as run does
		}
	}()
}

func (w *waitRun) state() string {
	select {
	case <-w.done:
		if w.result != nil {
			return "failed"
		}
		return "met"
	default:
		return "waits"
	}
}

func (w *waitRun) step(step string) {
	w.Helper()
	verb, rest, _ := strings.Cut(step, " ")
	parts := strings.Split(rest, "/")
	resource, namespace, name := waitTypes[parts[0]], "default", parts[len(parts)-1]
	switch {
	case !resource.Namespaced:
		namespace = ""
	case len(parts) == 3:
		namespace = parts[1]
	}
	var err error
	switch {
	case verb == "wait":
		w.start()
	case verb == "signal":
		w.signal()
	case verb == "sleep":
		time.Sleep(10 * time.Second)
	case verb == "serve":
		w.srv.Serve(robotType)
	case verb == "apply":
		err = w.srv.Apply(rest)
	case verb == "waits", verb == "met", verb == "failed":
		synctest.Wait()
		if got := w.state(); got != verb {
			w.Errorf("it %s, want %s", got, verb)
			w.signal()
			<-w.done
		}
	case verb == "delete":
		_, err = w.srv.Delete(resource, namespace, name)
	case states[verb] != nil:
		w.srv.Put(resource, namespace, name, states[verb]...)
	default:
		err = w.srv.Do(step)
	}
	if synctest.Wait(); err != nil {
		w.Fatalf("%s: %v", step, err)
	}
}

// TestWaitMistakes: each is found without a request.
func TestWaitMistakes(t *testing.T) {
	for _, tt := range []struct{ why, args, want string }{
		{"a type is required", "--for ready",
			"missing resource type: name one, as in pods, or an object, as in pod/web-0"},
		{"a condition is required", "pods", "missing --for: name a condition, such as ready, condition=Ready"},
		{"kubectl does not know it either", "pods --for Ready",
			"--for=Ready: must be condition=NAME[=STATUS], jsonpath={PATH}[=VALUE], create, delete or ready"},
		{"each condition is checked", "pods --for ready --for jsonpath={.a", "--for=jsonpath={.a: must have "},
		{"nothing meets both", "pod/a --for delete --for create",
			"--for=delete and other conditions exclude each other"},
		{"the first type would be enough", "pods,jobs --follow --for ready", "--follow: waits for one type"},
		{"a name and a pattern", "pods,*.a --follow --for ready", "--follow: waits for one type"},
		{"the first namespace would be enough", "pod/a -n a,b --follow --for ready", "--follow: waits for one type"},
		{"as kubectl says it", "pod/a -A --for ready", "a resource cannot be retrieved by name across all namespaces"},
		{"as kubectl says it", "pod a -l app=web --for ready", "name cannot be provided when a selector is specified"},
		{"a name and all", "pod a --all --for ready", "--all and names exclude each other: omit one"},
		{"a name of an unset variable", "pod/ --for ready",
			`invalid argument "pod/": must have a name after the slash`},
		{"a selector", "pods -l a=( --for ready", "--selector=a=(: must be a label selector"},
		{"a namespace of an unset variable", "pods --namespace= --for ready", "--namespace: must not be empty"},
		{"an output of kubectl", "pods -o yaml --for ready", "--output=yaml: must be one of name, json"},
		{"files", "-f a.yaml --for ready pods", "--filename is not supported: use kubectl wait, or name the objects"},
		{"folders", "-R pods --for ready", "--recursive is not supported: use kubectl wait"},
		{"kustomizations", "-k . pods --for ready", "--kustomize is not supported: use kubectl wait"},
		{"without a server", "--local pods --for ready", "--local is not supported: use kubectl wait"},
		{"a flag of watch", "pods --for ready --limit 1", "unknown flag: --limit"},
	} {
		status, stdout, stderr := runTool(t, append([]string{"wait"}, strings.Fields(tt.args)...)...)
		if status != statusUsage || stdout != "" || !strings.HasPrefix(stderr, "gvrwatch: "+tt.want) {
			t.Errorf("%s: status %d, want 2 with %q\n%s%s", tt.why, status, tt.want, stdout, stderr)
		}
	}
}

// TestWaitOnAServer: the exit status, and what is printed, of the program on a real API server.
func TestWaitOnAServer(t *testing.T) {
	for _, tt := range []struct {
		why, args, stdout, stderr string
		status                    int
	}{
		{"met", "boats argo --for jsonpath={.spec.size}=1", "boat.cli.example.com/argo condition met\n", "", 0},
		{"ready", "boats,oceans -A --for ready -o name",
			"boat.cli.example.com/argo\nboat.cli.example.com/bounty\nocean.cli.example.com/pacific\n", "", 0},
		{"JSON", "boat/argo --for create -o json", `{...,"kind":"Boat",...,"name":"argo",...}` + "\n", "", 0},
		{"not met", "boat/argo --for condition=Ready --timeout 0", "",
			"gvrwatch: condition not met for boats/argo: has no condition Ready\n", 1},
		{"not served", "cars/a --for create", "", `gvrwatch: the server serves no resource type "cars"` + "\n", 1},
	} {
		status, stdout, stderr := runTool(t, append([]string{"wait"}, strings.Fields(tt.args)...)...)
		if status != tt.status || !like(tt.stdout, stdout) || !like(tt.stderr, stderr) {
			t.Errorf("%s: status %d, want %d\n%s%s", tt.why, status, tt.status, stdout, stderr)
		}
	}
	status, _, stderr := runTool(t, strings.Fields("watch boats argo --for ready")...)
	if want := "gvrwatch: condition met: ready\n"; status != 0 || !strings.HasSuffix(stderr, want) {
		t.Errorf("watch --for ready: status %d, want %q\n%s", status, want, stderr)
	}
	for args, want := range map[string]string{
		"wait boats ": "argo", "wait boat/a": "boat/argo", "wait bo": "boats", "wait boats --for ": "ready",
		"wait boats -o ": "json", "watch boats --for ": "ready",
	} {
		words := strings.Split("__complete "+args, " ")
		status, stdout, stderr := runTool(t, words...)
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("completion of %q: status %d, want %q\n%s%s", args, status, want, stdout, stderr)
		}
	}
}
