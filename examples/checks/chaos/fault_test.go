package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// sightings says for each kind of fault what clients must see of it; some see one of them, some another.
var sightings = map[string][]string{
	"reset":              {"v1/widgets broke"},
	"reset-some":         {"v1/widgets broke", "v1/planets broke"},
	"cut-frame":          {"v1/widgets ended in a frame", "v1/widgets broke in a frame"},
	"end-watches":        {"v1/widgets ended cleanly"},
	"half-open":          {"v1/widgets silent"},
	"partition":          {"v1/widgets timed out", "v1/widgets silent"},
	"slow":               {"slow", "v1/widgets timed out"},
	"restart":            {"v1/widgets failed"},
	"kill":               {"v1/widgets failed"},
	"watch-cache":        {"v1/widgets failed"},
	"two-paused":         {"v1/widgets timed out", "v1/widgets silent"},
	"two-lagging":        {"late"},
	"etcd-restart":       {"v1/widgets timed out", "v1/widgets silent", "v1/widgets 500", "slow"},
	"etcd-restore":       {"far older version"},
	"etcd-restore-ahead": {"v1/widgets failed"},
	"compaction":         {"expired"},
	"compaction-away":    {"expired"},
	"schema":             {"schema changed"},
	"recreate":           {"v1/bolts 404"},
	"unserved":           {"v1/gadgets 404", "v1beta1/gadgets 404"},
	"storage":            {"stored versions [v1 v1beta1]"},
	"rights":             {"limited ns-a 403"},
	"rights-namespaces":  {"limited widgets 403"},
	"rights-watch":       {"limited watch 403"},
	"token":              {"v1/widgets 401"},
	"pause":              {"process paused"},
	"pause-compaction":   {"process paused"},
	"429":                {"Retry-After"},
	"500":                {"v1/widgets 500"},
	"503":                {"v1/widgets 503"},
	"504":                {"v1/widgets 504"},
	"html":               {"html"},
	"empty-object":       {"list without a kind"},
	"truncated":          {"undecodable list", "v1/widgets ended in a frame"},
	"401":                {"v1/widgets 401"},
	"404":                {"v1/widgets 404"},
	"no-version":         {"list without a version"},
	"closed-watch":       {"v1/widgets ended cleanly"},
	"error-frame":        {"ERROR frame with a Widget"},
	"garbage-frame":      {"undecodable frame"},
	"gateway":            {"v1/widgets 404", "v1/widgets 403"},
	"drips":              {"slow", "v1/widgets silent", "v1/widgets timed out"},
	"ignores-timeout":    {"v1/widgets silent"},
	"webhook-down":       {"v1/widgets 500"},
	"restarts-watches":   {"watch from before its version"},
	"empty-pages":        {"page without objects"},
}

func TestClientsSeeEachFault(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes 30 s (.ci/run runs it, without -short)")
	}
	const worlds = 4 // at a time: the faults mostly wait
	todo := make(chan faultKind, len(faultKinds))
	for _, k := range faultKinds {
		todo <- k
	}
	close(todo)
	var done sync.WaitGroup
	defer done.Wait()
	for i := range worlds {
		done.Go(func() {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				w := newWorld(t, 1) // which has no watch cache, so that compaction expires versions
				stopWriters := w.startWriters(t.Context())
				defer stopWriters()
				for k := range todo {
					seeFault(t, w, k)
				}
				stopWriters()
				if err := w.finish(t.Context()); err != nil {
					t.Fatal(err)
				}
				checkTruth(t, w)
			})
		})
	}
}

// seeFault causes a fault until clients see it: on a busy machine they may be too slow for a short one.
func seeFault(t *testing.T, w *world, k faultKind) {
	t.Helper()
	want := sightings[k.name]
	var seen []string
	for try := range uint64(5) {
		r := rand.New(shortest{})
		if try > 0 {
			r = rand.New(rand.NewPCG(try, 0))
		}
		seen = watchFault(t, w, planned{k, r})
		if slices.ContainsFunc(want, func(s string) bool { return slices.Contains(seen, s) }) {
			return
		}
	}
	t.Errorf("fault %s: clients saw %q, but none of %q", k.name, seen, want)
}

// watchFault causes a fault, and returns what clients saw, also of its consequences.
func watchFault(t *testing.T, w *world, p planned) []string {
	t.Helper()
	before := w.database.etcd.KV().Rev() // expires with a compaction, because of the writes meanwhile
	saw, stop := observe(t, w)
	if err := w.database.truth.await(t.Context(), before+1); err != nil {
		t.Fatal(err)
	}
	if _, err := w.cause(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	// Some consequences are seen only after the fault. Some sightings are added below, so the wait is short.
	_ = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 300*time.Millisecond, true,
		func(context.Context) (bool, error) { return slices.ContainsFunc(sightings[p.kind.name], saw), nil })
	seen := stop()
	switch p.kind.name {
	case "compaction", "compaction-away":
		if expiredAt(t.Context(), w, before) {
			seen = append(seen, "expired")
		}
	case "watch-cache": // off again, for the compactions
		if _, err := w.cause(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	case "storage":
		status := definitionOf(t, w, "versions")["status"].(map[string]any)
		seen = append(seen, fmt.Sprint("stored versions ", status["storedVersions"]))
	case "schema":
		if strings.Contains(fmt.Sprint(definitionOf(t, w, "schema")["spec"]), "extra") {
			seen = append(seen, "schema changed")
		}
	}
	return seen
}

// definitionOf returns a CRD as the server has it.
func definitionOf(t *testing.T, w *world, changing string) map[string]any {
	t.Helper()
	name := w.definitions.changing(changing).object().GetName()
	crd, err := w.servers[0].client().Resource(crdResource).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return crd.Object
}

// shortest makes all faults as short as possible. Its numbers are not zero: rand would draw again, for ever.
type shortest struct{}

func (shortest) Uint64() uint64 { return 1 << 32 }

func TestSeedDeterminesTheFaults(t *testing.T) {
	names := func(seed uint64, s selection) (names []string) {
		next := plan(seed, s.kinds())
		for range 3 * len(faultKinds) {
			p := next()
			names = append(names, fmt.Sprint(p.kind.name, p.rand.IntN(100)))
		}
		return names
	}
	if diff := cmp.Diff(names(1, selection{}), names(1, selection{})); diff != "" {
		t.Errorf("a seed has two schedules:\n%s", diff)
	}
	if cmp.Equal(names(1, selection{}), names(2, selection{})) {
		t.Error("two seeds have the same schedule")
	}
}

func TestSelection(t *testing.T) {
	for _, test := range []struct {
		why  string
		in   selection
		want []string
	}{
		{"by name", selection{only: []string{"kill", "reset"}}, []string{"reset", "kill"}},
		{"needs its name", selection{only: []string{"etcd-restore-ahead"}}, []string{"etcd-restore-ahead"}},
		{"without", selection{only: []string{"kill", "reset"}, without: []string{"reset"}}, []string{"kill"}},
	} {
		var got []string
		for _, k := range test.in.kinds() {
			got = append(got, k.name)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.why, diff)
		}
	}
	if len(selection{}.kinds()) >= len(faultKinds) {
		t.Error("a fault that must be asked for happens by default")
	}
	if err := (selection{only: []string{"kil"}}).check(); err == nil {
		t.Error("an unknown fault is accepted")
	}
}
