package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

const tolerance = 5 * time.Second

// second returns a time on the clock of these tests.
func second(n int) time.Time { return time.Unix(1000+int64(n), 0) }

// says returns a sample: of status, if replica is empty.
func says(replica string, well bool, from, to int) sample {
	return sample{from: second(from), to: second(to), replica: replica, well: well}
}

// TestDenied: what says in the last part of an outage that all is well is found.
func TestDenied(t *testing.T) {
	all := outage{interval{second(10), second(20)}, "the disk is full", ""}
	one := outage{interval{second(10), second(20)}, "partition", "r1"}
	for _, c := range []struct {
		why    string
		outage outage
		sample sample
		judged int
		broken bool
	}{
		{"status says it", all, says("", true, 15, 16), 1, true},
		{"readyz says it", all, says("r2", true, 16, 20), 1, true},
		{"status denies it", all, says("", false, 15, 16), 1, false},
		{"readyz denies it", all, says("r1", false, 15, 16), 1, false},
		{"before the relay must know", all, says("", true, 14, 15), 0, false},
		{"after the outage", all, says("", true, 21, 22), 0, false},
		{"answered after the outage", all, says("", true, 19, 21), 0, false},
		{"the replica that is cut off says it", one, says("r1", true, 15, 16), 1, true},
		{"another replica", one, says("r2", true, 15, 16), 0, false},
		{"the others have taken its units", one, says("", true, 15, 16), 0, false},
	} {
		broken, judged := denied([]sample{c.sample}, []outage{c.outage}, tolerance)
		if judged != c.judged || len(broken) > 0 != c.broken {
			t.Errorf("%s: %d samples, found %q", c.why, judged, broken)
		}
	}
}

// TestUntrue: what says that all is well while a write waits is found.
func TestUntrue(t *testing.T) {
	log := func(owner string, published int) []record {
		m := object(engine.Added, "a", "7", 1)
		m.time = second(published)
		return []record{position(owner, 1, second(0)), m, position(owner, 1, second(published))}
	}
	wrote := acked{write{"widgets", "a", "7"}, second(10)}
	taken := slices.Insert(log("r1", 20), 1, position("r2", 2, second(14)))
	taken[3].position.Position = engine.Position{Owner: "r2", Epoch: 2}
	back := slices.Insert(slices.Clone(taken), 2, position("r1", 3, second(15)))
	back[4].position.Position = engine.Position{Owner: "r1", Epoch: 3}
	for _, c := range []struct {
		why             string
		log             []record
		write           acked
		sample          sample
		silent, excused []interval
		broken          bool
	}{
		{why: "status says it", log: log("r1", 20), write: wrote, sample: says("", true, 16, 17), broken: true},
		{why: "its owner says it", log: log("r1", 20), write: wrote, sample: says("r1", true, 16, 17), broken: true},
		{why: "status denies it", log: log("r1", 20), write: wrote, sample: says("", false, 16, 17)},
		{why: "another replica", log: log("r1", 20), write: wrote, sample: says("r2", true, 16, 17)},
		{
			why: "one that has just taken the unit", log: taken, write: wrote, sample: says("r2", true, 16, 17),
			broken: true,
		},
		{why: "status knows how late it is", log: taken, write: wrote, sample: says("", true, 16, 17), broken: true},
		{
			why: "one that has taken it again", log: back, write: wrote, sample: says("r1", true, 16, 17), broken: true,
		},
		{why: "one that took it long ago", log: taken, write: wrote, sample: says("r2", true, 19, 19), broken: true},
		{why: "the write has not waited for long", log: log("r1", 20), write: wrote, sample: says("", true, 15, 16)},
		{why: "published before the answer", log: log("r1", 20), write: wrote, sample: says("", true, 19, 20)},
		{why: "published soon", log: log("r1", 15), write: wrote, sample: says("", true, 12, 13)},
		{
			why: "an API server was silent meanwhile", log: log("r1", 20), write: wrote, sample: says("", true, 16, 17),
			silent: []interval{{second(8), second(11)}},
		},
		{
			why: "an API server was silent before", log: log("r1", 20), write: wrote, sample: says("", true, 16, 17),
			silent: []interval{{second(8), second(9)}}, broken: true,
		},
		{
			why: "excused", log: log("r1", 20), write: wrote, sample: says("", true, 16, 17),
			excused: []interval{{second(17), second(18)}},
		},
		{
			why: "not excused any more", log: log("r1", 20), write: wrote, sample: says("", true, 16, 17),
			excused: []interval{{second(12), second(15)}}, broken: true,
		},
		{
			why: "a list has skipped it", log: log("r1", 20), sample: says("", true, 16, 17),
			write: acked{write{"widgets", "a", "6"}, second(10)},
		},
	} {
		writes := publications(c.log, []acked{c.write})
		got := untrue(c.log, writes, []sample{c.sample}, c.silent, c.excused, tolerance)
		if len(got) > 0 != c.broken {
			t.Errorf("%s: found %q", c.why, got)
		}
	}
}

// TestJudgeHostile: what is missing among hostile objects is found, and what is published of a secret value.
func TestJudgeHostile(t *testing.T) {
	of := func(typ engine.Type, name, version string) record {
		r := object(typ, "uid-"+name, version, 1)
		r.message.Unit.Cluster, r.message.Name = hostileCluster, name
		return r
	}
	skips := func(cluster, name string) record {
		r := mark(engine.Skipped, "")
		r.message.Unit.Cluster, r.skipped = cluster, name
		return r
	}
	well := []record{
		of(engine.Added, "good-1", "2"), of(engine.Modified, "good-1", "4"), of(engine.Added, "long-version-1", "3"),
	}
	for _, d := range disguises {
		well = append(well, skips(hostileCluster, "shop/"+d.name+"-1"))
	}
	leak := of(engine.Modified, "good-1", "4")
	leak.leaks = true
	for _, c := range []struct {
		why  string
		log  []record
		want []string // the beginnings of what is found
	}{
		{"nothing is broken", well, nil},
		{"an old state", append(slices.Clone(well), of(engine.Modified, "good-1", "3")),
			[]string{"among hostile objects: uid"}},
		{"missing", well[2:], []string{"among hostile objects: uid"}},
		{"not deleted", append(slices.Clone(well), of(engine.Added, "good-2", "9")),
			[]string{"among hostile objects: unreported"}},
		{"no record", slices.Concat(well[:3], well[4:]),
			[]string{"no message says that an object is skipped: long-name"}},
		{"a real object is skipped", append(slices.Clone(well), skips("c", "large")),
			[]string{"skipped without a reason"}},
		{"a password", append(slices.Clone(well), leak), []string{"a password is published"}},
	} {
		got := judgeHostile(c.log, map[string]string{"uid-good-1": "4"})
		same := slices.EqualFunc(got, c.want, strings.HasPrefix)
		if !same {
			t.Errorf("%s: found %q, want %q", c.why, got, c.want)
		}
	}
}

// TestPlan: a short run with the seed of .ci/run meets a full disk and a slow NATS, and each run all faults in the end.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		why               string
		embedded, hasDisk bool
		want              []string // of the first faults of seed 1
	}{
		{"all", false, true, []string{"NATS slowed", "NATS's disk full"}},
		{"replicas run NATS", true, true, []string{}},
		{"no disk", true, false, []string{}},
	} {
		all := possible(c.embedded, c.hasDisk)
		next := plan(all, rand.New(rand.NewPCG(1, 2)))
		var names []string
		for range all {
			names = append(names, next().name)
		}
		if diff := cmp.Diff(c.want, names[:len(c.want)]); diff != "" {
			t.Errorf("%s: the first faults (-want +got):\n%s", c.why, diff)
		}
		slices.Sort(names)
		if n := len(slices.Compact(names)); n != len(all) {
			t.Errorf("%s: %d faults of %d occur", c.why, n, len(all))
		}
		if has := slices.Contains(names, "NATS's disk full"); has != c.hasDisk {
			t.Errorf("%s: the disk is full: %t", c.why, has)
		}
		if has := slices.Contains(names, "NATS killed"); has == c.embedded {
			t.Errorf("%s: NATS is killed: %t", c.why, has)
		}
	}
}

// TestDisk: a disk that is full takes nothing, and one that is free again does.
func TestDisk(t *testing.T) {
	d, err := mountDisk(t.TempDir())
	if err != nil {
		t.Skipf("no disk can be mounted: %v", err) // as a rule only root may
	}
	defer func() {
		if err := d.unmount(); err != nil {
			t.Error(err)
		}
	}()
	if err := os.WriteFile(filepath.Join(d.dir, "file"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.fill(); err != nil {
		t.Fatal(err)
	}
	more := filepath.Join(d.dir, "more")
	if err := os.WriteFile(more, make([]byte, 1), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write to the full disk returns %v, want %v", err, syscall.ENOSPC)
	}
	if err := d.free(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(more, make([]byte, 1<<20), 0o600); err != nil {
		t.Error(err)
	}
}

// TestMemory: a replica that takes more than it may is found.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		why  string
		peak int64
		want int
	}{
		{"as much as it may", mostMemory, 0},
		{"more", mostMemory + 1, 1},
	} {
		if got := (happened{peak: c.peak, greatest: "r1"}).memory(); len(got) != c.want {
			t.Errorf("%s: found %q", c.why, got)
		}
	}
	self := &process{Cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	if got := self.peak(); got < 1<<20 {
		t.Errorf("this process has taken %d bytes at most", got)
	}
}
