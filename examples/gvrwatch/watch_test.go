package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
)

// versionText matches resourceVersions, which differ from run to run.
var versionText = regexp.MustCompile(`("resourceVersion":|resourceVersion: |at resourceVersion )"?[0-9]+"?`)

func TestWatchOutput(t *testing.T) {
	const argo, bounty = "boat.cli.example.com/argo\n", "boat.cli.example.com/bounty\n"
	const synced = "gvrwatch: boats.v1.cli.example.com: synced at resourceVersion N\n"
	tests := []struct {
		args, stdout, stderr string
		why                  string
	}{
		{"watch bt --until-synced -o name", argo, synced,
			"the kubeconfig's namespace is the default, and control events go to stderr"},
		{"watch boats -A --until-synced -o name", argo + bounty, synced, "-A selects all namespaces"},
		{"watch boats -A -n harbour --until-synced -o name", argo + bounty, synced, "-A overrides -n, as in kubectl"},
		{"watch Boat -n harbour --limit 1 -o name", bounty, "", "--limit ends the run before SYNCED"},
		{"watch BoatList -A -l name=bounty --until-synced -o name", bounty, synced, "-l selects by label"},
		{"watch boats -A --field-selector metadata.name=argo --until-synced -o name", argo, synced,
			"--field-selector selects by field"},
		{"watch bt,boats -n nowhere --until-synced -o json",
			`{"type":"SYNCED","resource":"boats.v1.cli.example.com","resourceVersion":N}` + "\n", "",
			"a resource that is named twice is watched once, and SYNCED is an event in JSON"},
		{"watch boats -A -l name=argo --limit 1 --until-synced -o name", argo, "",
			"--limit or --until-synced ends the run, whichever is first"},
		{"watch oceans --timeout 300ms -o name", "ocean.cli.example.com/pacific\n",
			"gvrwatch: oceans.v1.cli.example.com: synced at resourceVersion N\n",
			"a cluster-scoped resource ignores the default namespace"},
		{"watch oceans --until-synced -o yaml --field-selector metadata.name=none",
			"resource: oceans.v1.cli.example.com\nresourceVersion: N\ntype: SYNCED\n", "",
			"SYNCED is an event in YAML"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			status, stdout, stderr := runTool(t, strings.Fields(tt.args)...)
			got := []string{
				fmt.Sprint(status),
				versionText.ReplaceAllString(stdout, "${1}N"), versionText.ReplaceAllString(stderr, "${1}N"),
			}
			if diff := cmp.Diff([]string{"0", tt.stdout, tt.stderr}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

func TestWatchJSON(t *testing.T) {
	status, stdout, stderr := runTool(t, "watch", "oceans,boats", "-A", "-o", "json", "--until-synced")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %s", status, stderr)
	}
	var got []string
	for line := range strings.Lines(stdout) {
		var ev struct {
			Type, Resource, ResourceVersion string
			Object                          *unstructured.Unstructured
		}
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case ev.Type == "SYNCED" && ev.ResourceVersion == "" || ev.Type == "ADDED" && ev.Object.GetUID() == "":
			t.Errorf("incomplete: %s", line)
		case ev.Object != nil:
			ev.Type += " " + ev.Object.GetName()
		}
		got = append(got, ev.Resource+" "+ev.Type)
	}
	// The order between the two resources is not promised.
	want := map[string][]string{
		"boats": {
			"boats.v1.cli.example.com ADDED argo", "boats.v1.cli.example.com ADDED bounty",
			"boats.v1.cli.example.com SYNCED",
		},
		"oceans": {"oceans.v1.cli.example.com ADDED pacific", "oceans.v1.cli.example.com SYNCED"},
	}
	each := map[string][]string{}
	for _, line := range got {
		name, _, _ := strings.Cut(line, ".")
		each[name] = append(each[name], line)
	}
	if diff := cmp.Diff(want, each); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWatchTable(t *testing.T) {
	age := regexp.MustCompile(`[0-9]+s|[0-9]+m[0-9]*s?`)
	_, stdout, _ := runTool(t, "watch", "boats,oceans", "-A", "--until-synced")
	for _, want := range []string{
		"EVENT ", "NAMESPACE ", "harbour ", "boat/bounty", "ocean/pacific",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing:\n%s", want, stdout)
		}
	}
	_, stdout, _ = runTool(t, "watch", "boats", "--until-synced")
	want := "EVENT      NAME   AGE\nADDED      argo   N\n"
	if diff := cmp.Diff(want, age.ReplaceAllString(stdout, "N")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, stdout, _ = runTool(t, "watch", "boats", "--until-synced", "-o", "wide")
	if diff := cmp.Diff(want, age.ReplaceAllString(stdout, "N")); diff != "" {
		t.Errorf("-o wide has the server's columns (-want +got):\n%s", diff)
	}
}

func TestSignalEndsWatch(t *testing.T) {
	ctx, signal := context.WithCancel(t.Context())
	errOut := &waiter{
		complete:  func(s string) bool { return strings.Contains(s, "synced") },
		completed: make(chan bool),
	}
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, genericiooptions.IOStreams{Out: io.Discard, ErrOut: errOut}, []string{"watch", "boats"})
	}()
	errOut.wait(t)
	signal()
	if got := <-status; got != 0 || strings.Count(errOut.String(), "\n") != 1 {
		t.Errorf("status %d after a signal, want 0; stderr: %s", got, errOut)
	}
}

func TestLimitCountsObjects(t *testing.T) {
	// Three objects of two resources; at least one SYNCED comes before the third.
	status, stdout, _ := runTool(t, "watch", "boats,oceans", "-A", "--limit", "3", "-o", "name")
	if status != 0 || strings.Count(stdout, "\n") != 3 {
		t.Errorf("status %d, want 0 with three lines:\n%s", status, stdout)
	}
}

func TestNamespaceOfTheKubeconfig(t *testing.T) {
	cfg, err := clientcmd.LoadFromFile(srv.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Contexts[cfg.CurrentContext].Namespace = "harbour"
	useKubeconfig(t, cfg)
	for args, want := range map[string]string{
		"watch boats --until-synced -o name":            "boat.cli.example.com/bounty\n",
		"watch boats -n default --until-synced -o name": "boat.cli.example.com/argo\n",
		"watch oceans --until-synced -o name":           "ocean.cli.example.com/pacific\n",
	} {
		if status, stdout, stderr := runTool(t, strings.Fields(args)...); status != 0 || stdout != want {
			t.Errorf("%s: status %d, %q, want %q; %s", args, status, stdout, want, stderr)
		}
	}
}
