package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/stream"
)

// TestGet: without -w, everything printed exists, and is printed as kubectl get prints it.
func TestGet(t *testing.T) {
	const nothing = "gvrwatch: no boats found in the namespace nowhere (-A looks in all)\n"
	for _, c := range []struct {
		why, args, stdout, stderr string
		status                    int
	}{
		{"a table without EVENT", "boats --no-headers -L name", "argo N argo", "", 0},
		{"objects", "boats -o go-template={{.kind}}", "Boat", "", 0},
		{"JSON of objects, not of events", "boats -n nowhere -o json", "", nothing, 0},
		{"a cluster-scoped type", "oceans -o name", "ocean.cli.example.com/pacific", "", 0},
		{"a pattern", "boat* -A -o name", "boat.cli.example.com/argo\nboat.cli.example.com/bounty", "", 0},
		{"events if they are asked for", "boats -o name --output-watch-events",
			"boat.cli.example.com/argo", "gvrwatch: boats.v1.cli.example.com: synced at resourceVersion N\n", 0},
		{"nothing found", "boats -n nowhere", "", nothing, 0},
		{"a named object that does not exist", "boats none -n nowhere -o name", "",
			"gvrwatch: no boats with the name none found in the namespace nowhere (-A looks in all)\n" +
				"gvrwatch: not seen: boats.v1.cli.example.com/none (--allow-missing permits that)\n", 1},
		{"one of two", "boats argo none -o name", "boat.cli.example.com/argo",
			"gvrwatch: not seen: boats.v1.cli.example.com/none (--allow-missing permits that)\n", 1},
		{"a diff has events", "boats -o diff --limit 1 --color never",
			"ADDED boat default/argo by gvrwatch.test", "", 0},
		{"-w is watch", "boats -w -o name --timeout 300ms", "boat.cli.example.com/argo",
			"gvrwatch: boats.v1.cli.example.com: synced at resourceVersion N\n", 0},
		{"--watch-only implies -w, as in kubectl", "boats --watch-only -o name --timeout 300ms", "",
			"gvrwatch: boats.v1.cli.example.com: synced at resourceVersion N\n", 0},
	} {
		status, stdout, stderr := runTool(t, append([]string{"get"}, strings.Fields(c.args)...)...)
		got := strings.TrimSuffix(strings.Join(trimmed(ages.ReplaceAllString(stdout, "N")), "\n"), "\n")
		want := []any{c.status, c.stdout, c.stderr}
		if diff := cmp.Diff(want, []any{status, got, versionText.ReplaceAllString(stderr, "${1}N")}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
	_, stdout, _ := runTool(t, strings.Fields("get boats -o json")...)
	if !strings.HasPrefix(stdout, `{"apiVersion":"cli.example.com/v1","kind":"Boat"`) ||
		strings.Count(stdout, "\n") != 1 {
		t.Errorf("an object is one line: %s", stdout)
	}
}

// TestGetPrintsWhatExists: a followed type goes on after its SYNCED, until all types are synced.
func TestGetPrintsWhatExists(t *testing.T) {
	var out, errOut bytes.Buffer
	p := newPrinter(t, &out, &errOut, "name", true).(delivered)
	p.to.existing = &existing{true, true, map[string]bool{}}
	inOne := event(stream.Synced)
	inOne.Namespace = "one"
	acked := 0
	for _, ev := range []stream.Event{
		event(stream.Added), inOne, event(stream.Added), event(stream.Synced), event(stream.Modified),
		event(stream.Deleted),
	} {
		if err := p.print(ev, func() { acked++ }); err != nil {
			t.Error(err)
		}
	}
	const argo = "boat.example.com/argo\n"
	if diff := cmp.Diff([]any{argo + argo, "", 6}, []any{out.String(), errOut.String(), acked}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNothingFound: a run that finds nothing says where it has looked.
func TestNothingFound(t *testing.T) {
	for _, c := range []struct{ why, args, want string }{
		{"one namespace", "boats -n nowhere", "no boats found in the namespace nowhere (-A looks in all)"},
		{"several namespaces", "boats,oceans -l x=y -n a -n b",
			`no boats, oceans with the labels "x=y" found in the namespaces a, b (-A looks in all)`},
		{"all namespaces", "boats -A -l x=y --field-selector metadata.name=z",
			`no boats with the labels "x=y" with the fields "metadata.name=z" found across all namespaces`},
		{"cluster-scoped", "oceans -l x=y", `no oceans with the labels "x=y" found`},
		{"a name", "boats none --allow-missing", "no boats with the name none found in the namespace default (-A"},
		{"a pattern of names", `boats web-\w+ --allow-missing`,
			`no boats with the name web-\w+ (names are no patterns: -l selects objects) found in the namespace`},
		{"a pattern", "boat* -n nowhere", "no boats found in the namespace nowhere (-A looks in all)"},
		{"something of one type", "boats,oceans -n nowhere", ""},
		{"something", "boats", ""},
		{"JSON has SYNCED", "boats -n nowhere -o json", ""},
	} {
		_, _, stderr := runTool(t, append(strings.Fields("watch --until-synced"), strings.Fields(c.args)...)...)
		said := strings.Contains(stderr, "gvrwatch: no ")
		if said != (c.want != "") || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: want %q, got\n%s", c.why, c.want, stderr)
		}
	}
	s := newScripted(t, robotType)
	s.Put(robotType, "default", "a")
	db := t.TempDir() + "/positions.db"
	checkpointed := "watch robots -o name --until-synced --checkpoint " + db
	s.start(checkpointed).wait(0)
	if stdout, stderr := s.start(checkpointed).wait(0); stdout != "" || strings.Contains(stderr, "found") {
		t.Errorf("an object that is known exists, although nothing of it is new:\n%s%s", stdout, stderr)
	}
	p := s.start("watch robots -n none -o name")
	p.awaitStderr("robots.v1.example.com: synced at resourceVersion")
	p.awaitStderr("no robots found in the namespace none (-A looks in all)\n")
	s.Put(robotType, "none", "b")
	p.awaitStdout("robot.example.com/b")
	p.end()
}

// TestGetNeedsOnlyLists: what exists is known without the right, or the verb, to watch.
func TestGetNeedsOnlyLists(t *testing.T) {
	listed := newType("rocks", "example.com", true)
	listed.Verbs = []string{"get", "list"}
	s := newScripted(t, robotType, listed)
	s.Put(robotType, "default", "a")
	s.Put(listed, "default", "b")
	s.do("robots forbid watch")
	for _, command := range []string{"get", "watch --until-synced"} {
		for resource, want := range map[string]string{
			"robots": "robot.example.com/a\n", "rocks": "rock.example.com/b\n", "robots a": "robot.example.com/a\n",
		} {
			if stdout, stderr := s.start(command + " -o name " + resource).wait(0); stdout != want {
				t.Errorf("%s %s: want %q, got %q\n%s", command, resource, want, stdout, stderr)
			}
		}
	}
	for args, want := range map[string]string{
		"watch robots": "cannot watch robots.v1.example.com", "get -w robots": "cannot watch robots.v1.example.com",
		"watch rocks": "cannot watch rocks.v1.example.com: must have the verbs list and watch",
	} {
		if _, stderr := s.start(args).wait(1); !strings.Contains(stderr, want) {
			t.Errorf("%s: want %q\n%s", args, want, stderr)
		}
	}
}

// TestGetIsInOrder: types and named objects are printed in the order of the command line, and those of a type in the
// server's.
func TestGetIsInOrder(t *testing.T) {
	s := newScripted(t, robotType, planetType, roverType)
	for _, name := range []string{"c", "a", "b"} {
		s.Put(robotType, "shop", name)
		s.Put(planetType, "", name)
	}
	for range 10 {
		for args, want := range map[string]string{
			"planets,rovers,robots -A":    "planet/a planet/b planet/c robot/a robot/b robot/c",
			"robots c a b -n shop":        "robot/c robot/a robot/b",
			"planet/b robot/a planet/a":   "planet/b robot/a planet/a",
			"robots,planets,robots -A":    "robot/a robot/b robot/c planet/a planet/b planet/c",
			"rovers,planets -A --limit 2": "planet/a planet/b",
		} {
			flags := []string{"get", "-n", "shop", "-o", "name", "--server", s.url}
			status, stdout, stderr := runTool(t, append(flags, strings.Fields(args)...)...)
			got := strings.Join(strings.Fields(stdout), " ")
			got = strings.NewReplacer(".space.io", "", ".example.com", "").Replace(got)
			if diff := cmp.Diff(want, got); status != 0 || diff != "" {
				t.Fatalf("get %s: status %d (-want +got):\n%s%s", args, status, diff, stderr)
			}
		}
	}
	status, _, stderr := runTool(t, "get", "rovers,robots,planets", "-n", "none", "-l", "x=y", "--server", s.url)
	const none = `no planets, robots, rovers with the labels "x=y" found`
	if status != 0 || strings.Count(stderr, none) != 1 {
		t.Errorf("status %d: %s", status, stderr)
	}
}
