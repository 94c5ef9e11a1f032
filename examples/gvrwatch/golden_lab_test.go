//go:build lab

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// goldenKinds are the kinds whose columns are compared with kubectl's. Each object is created before the watch, changed
// by a patch, and deleted.
var goldenKinds = []struct {
	kind, name string
	manifest   string // without apiVersion's metadata
	patch      []string
}{
	{"pods", "web-0", `{apiVersion: v1, kind: Pod, spec: {containers: [{name: web, image: nginx}]}}`,
		[]string{"--subresource=status", `-p={"status":{"phase":"Running","podIP":"10.0.0.1","containerStatuses":[` +
			`{"name":"web","ready":true,"restartCount":2,"image":"nginx","imageID":"x","state":{"running":{}}}]}}`}},
	{"deployments", "web", `{apiVersion: apps/v1, kind: Deployment, spec: {selector: {matchLabels: {app: web}},
		template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}}}`,
		[]string{"--subresource=status", `-p={"status":{"replicas":3,"readyReplicas":2,"updatedReplicas":3}}`}},
	{"statefulsets", "db", `{apiVersion: apps/v1, kind: StatefulSet, spec: {selector: {matchLabels: {app: db}},
		template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: postgres}]}}}}`,
		[]string{`-p={"spec":{"replicas":5}}`}},
	{"services", "web", `{apiVersion: v1, kind: Service, spec: {selector: {app: web}, ports: [{port: 80}]}}`,
		[]string{`-p={"spec":{"ports":[{"port":81}]}}`}},
	{"ingresses", "web", `{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {rules: [{host: a.example.com}]}}`,
		[]string{`-p={"spec":{"rules":[{"host":"b.example.com"}]}}`}},
	{"configmaps", "settings", `{apiVersion: v1, kind: ConfigMap, data: {a: b}}`, []string{`-p={"data":{"c":"d"}}`}},
	{"secrets", "token", `{apiVersion: v1, kind: Secret, stringData: {a: b}}`, []string{`-p={"stringData":{"c":"d"}}`}},
	{"serviceaccounts", "robot", `{apiVersion: v1, kind: ServiceAccount}`,
		[]string{`-p={"metadata":{"labels":{"a":"b"}}}`}},
	{"jobs", "once", `{apiVersion: batch/v1, kind: Job, spec: {template: {spec: {restartPolicy: Never,
		containers: [{name: once, image: busybox}]}}}}`, []string{`-p={"spec":{"parallelism":2}}`}},
	{"cronjobs", "often", `{apiVersion: batch/v1, kind: CronJob, spec: {schedule: "* * * * *", jobTemplate: {spec:
		{template: {spec: {restartPolicy: Never, containers: [{name: once, image: busybox}]}}}}}}`,
		[]string{`-p={"spec":{"suspend":true}}`}},
	{"leases", "leader", `{apiVersion: coordination.k8s.io/v1, kind: Lease, spec: {holderIdentity: a}}`,
		[]string{`-p={"spec":{"holderIdentity":"b"}}`}},
	{"events", "web.1", `{apiVersion: v1, kind: Event, reason: Started, type: Normal, message: "it  started\nnow",
		involvedObject: {kind: Pod, name: web-0, namespace: NAMESPACE}}`, []string{`-p={"message":"it has started"}`}},
	{"nodes", "golden-node", `{apiVersion: v1, kind: Node}`,
		[]string{"--subresource=status", `-p={"status":{"conditions":[{"type":"Ready","status":"True"}]}}`}},
}

// TestLabColumnsAreThoseOfKubectl: the rows of watch are those of kubectl get --watch, for each flag that changes them.
func TestLabColumnsAreThoseOfKubectl(t *testing.T) {
	kubeconfig := os.Getenv("GVRWATCH_LAB_ADMIN")
	kubectl := func(t *testing.T, stdin string, args ...string) {
		t.Helper()
		c := exec.Command("kubectl", append([]string{"--kubeconfig", kubeconfig}, args...)...)
		c.Stdin = strings.NewReader(stdin)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("kubectl %q: %v: %s", args, err, out)
		}
	}
	flagSets := [][]string{
		{"--output-watch-events"}, {"--output-watch-events=false"}, {"--output-watch-events", "-o", "wide"},
		{"--output-watch-events", "--show-labels", "-L", "app,example.com/tier"}, {"--output-watch-events", "-A"},
		{"--output-watch-events=false", "--no-headers"}, {"-o", "jsonpath={.metadata.name}{\"\\n\"}"},
		{"-o", "custom-columns=NAME:.metadata.name,LABELS:metadata.labels.app,NONE:{.spec.none}"},
		{"-o", "go-template={{.metadata.name}} {{.kind}}{{\"\\n\"}}"},
	}
	for i, flags := range flagSets {
		ns := fmt.Sprintf("golden-%d-%d", os.Getpid(), i)
		kubectl(t, "", "create", "namespace", ns)
		defer kubectl(t, "", "delete", "namespace", ns, "--wait=false")
		for _, k := range goldenKinds {
			t.Run(k.kind+" "+strings.Join(flags, " "), func(t *testing.T) {
				manifest := strings.ReplaceAll(k.manifest, "NAMESPACE", ns)
				metadata := ", metadata: {name: " + k.name + ", labels: {app: web}}, kind:"
				manifest = strings.Replace(manifest, ", kind:", metadata, 1)
				document, err := yaml.YAMLToJSON([]byte(manifest))
				if err != nil {
					t.Fatal(err)
				}
				kubectl(t, string(document), "apply", "-n", ns, "-f", "-")
				// One object, so that the order is no matter. Names in kubectl's -A are refused.
				selector := []string{"--field-selector", "metadata.name=" + k.name}
				if k.kind != "nodes" {
					selector = append(selector, "-n", ns)
				}
				args := append(append([]string{k.kind}, selector...), flags...)
				theirs := newSearchedOutput()
				c := exec.Command("kubectl", append([]string{"--kubeconfig", kubeconfig, "get", "-w"}, args...)...)
				c.Stdout, c.Stderr = theirs, os.Stderr
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				ours := start(t, append([]string{"watch", "--kubeconfig", kubeconfig}, args...)...)
				ours.awaitStderr(k.kind + ".v1")
				awaitLines := func(o *searchedOutput, n int) {
					for strings.Count(o.String(), "\n") < n {
						if !o.await("\n") {
							t.Fatalf("want %d lines, got %s", n, o)
						}
					}
				}
				rows := strings.Count(ours.out.String(), "\n")
				awaitLines(theirs, rows)
				kubectl(t, "", append([]string{"patch", k.kind, k.name, "-n", ns, "--type=merge"}, k.patch...)...)
				kubectl(t, "", "delete", k.kind, k.name, "-n", ns, "--force", "--grace-period=0")
				awaitLines(theirs, rows+2)
				awaitLines(ours.out, rows+2)
				_ = c.Process.Kill()
				_ = c.Wait()
				got, _ := ours.end()
				if diff := cmp.Diff(cells(theirs.String()), cells(got)); diff != "" {
					t.Errorf("(-kubectl +gvrwatch):\n%s", diff)
				}
			})
		}
	}
}

var durations = regexp.MustCompile(`^[0-9]+[smhd]([0-9]+[smh])?$`)

// cells returns the words of each line. Ages may differ, because the server computes them for each watch.
func cells(table string) (all [][]string) {
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		for i, w := range words {
			words[i] = durations.ReplaceAllString(w, "AGE")
		}
		all = append(all, words)
	}
	return all
}
