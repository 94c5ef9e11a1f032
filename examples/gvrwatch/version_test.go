package main

import (
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVersion(t *testing.T) {
	dep := func(path, version string, replaced bool) *debug.Module {
		m := &debug.Module{Path: path, Version: version}
		if replaced {
			m.Replace = &debug.Module{Path: ".."}
		}
		return m
	}
	const library, clientGo = "github.com/gvrwatch/gvrwatch", "k8s.io/client-go"
	for _, c := range []struct {
		why      string
		info     *debug.BuildInfo
		released string
		want     [3]string
	}{
		{"no information", nil, "", [3]string{"(unknown)", "(unknown)", "(unknown)"}},
		{"installed from a proxy", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Deps: []*debug.Module{
			dep(library, "v1.2.3", false), dep(clientGo, "v0.37.2", false),
		}}, "", [3]string{"v1.2.3", "v1.2.3", "v0.37.2"}},
		{"built in a clone", &debug.BuildInfo{
			Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}},
			Deps: []*debug.Module{dep(library, "v0.0.0", true), dep(clientGo, "v0.37.2", false)},
		}, "", [3]string{"(devel) abc", "(devel)", "v0.37.2"}},
		{"an archive", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "v1.2.3",
			[3]string{"v1.2.3", "(unknown)", "(unknown)"}},
	} {
		v := versionsOf(c.info, c.released)
		if diff := cmp.Diff(c.want, [3]string{v.Gvrwatch, v.Library, v.ClientGo}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
	status, stdout, _ := runTool(t, "version")
	if status != 0 || !strings.HasPrefix(stdout, "gvrwatch ") || strings.Count(stdout, "\n") != 4 {
		t.Errorf("status %d: %s", status, stdout)
	}
	status, stdout, _ = runTool(t, "version", "-o", "json")
	var v versions
	if err := json.Unmarshal([]byte(stdout), &v); status != 0 || err != nil || !strings.HasPrefix(v.Go, "go") {
		t.Errorf("status %d, %v: %s", status, err, stdout)
	}
}

// TestVersionFlag: --version prints what version does.
func TestVersionFlag(t *testing.T) {
	_, want, _ := runTool(t, "version")
	status, got, stderr := runTool(t, "--version")
	if diff := cmp.Diff(want, got); diff != "" || status != 0 || stderr != "" || want == "" {
		t.Errorf("status %d, %s (-want +got):\n%s", status, stderr, diff)
	}
}
