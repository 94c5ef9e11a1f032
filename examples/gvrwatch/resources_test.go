package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResources(t *testing.T) {
	status, stdout, stderr := runTool(t, "resources", "-o", "name")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, %s", status, stderr)
	}
	want := "customresourcedefinitions.v1.apiextensions.k8s.io\nboats.v1.cli.example.com\noceans.v1.cli.example.com\n"
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, stdout, _ = runTool(t, "resources")
	for _, want := range []string{
		`(?m)^NAME +SHORTNAMES +APIVERSION +KIND +CLUSTER-WIDE +PER-NAMESPACE *$`,
		`(?m)^boats +bt +cli\.example\.com/v1 +Boat +true +true *$`,
		`(?m)^oceans +cli\.example\.com/v1 +Ocean +true +false *$`,
	} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("no line like %s in\n%s", want, stdout)
		}
	}
	_, stdout, _ = runTool(t, "resources", "-o", "wide")
	if !regexp.MustCompile(`boats .* delete,`).MatchString(stdout) {
		t.Errorf("no verbs in\n%s", stdout)
	}
	_, stdout, _ = runTool(t, "resources", "-o", "json")
	for line := range strings.Lines(stdout) {
		var r resourceJSON
		if err := json.Unmarshal([]byte(line), &r); err != nil || !r.ClusterWatch || r.Resource == "" {
			t.Errorf("%s: %v", line, err)
		}
	}
}
