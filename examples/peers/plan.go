package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// settings are the flags, and what -quick changes beyond them. It has 13 fields because each is set
// once, by parse, and read once, by plan.
type settings struct {
	events    int
	objects   int // that the events change, in turn
	runs      int
	timedRuns int // runs of the latency and snapshot measurements
	gogc      int
	only      []string
	quick     bool
	profiles  string

	snapshotObjects int // objects of a first snapshot
	heapObjects     int // objects of a live heap measurement
	rates           []int
	latency         time.Duration // at each rate
	repeatFor       time.Duration // no repeated run starts after this long; zero means no limit
}

func defaultSettings() settings {
	return settings{
		events: 200_000, objects: templates, runs: 5, timedRuns: 5, gogc: 100,
		snapshotObjects: 50_000, heapObjects: 100_000, rates: []int{1000, 4000, 20_000}, latency: 3 * time.Second,
	}
}

// makeQuick applies -quick. Snapshots and live heaps are measured with at most a tenth of the objects.
func (s *settings) makeQuick() {
	s.quick = true
	s.events, s.runs, s.timedRuns = 2000, 2, 1
	s.snapshotObjects, s.heapObjects, s.latency = 5000, 5000, 400*time.Millisecond
	s.repeatFor = 40 * time.Second
}

// measurement is a job that is done runs times, each time in a new process.
type measurement struct {
	name string // of its row in the tables
	peer peer
	job  job // without URL
	gogc int
	runs int
}

const otherGOGC = 400

// plan returns all measurements. The live heap differs little between runs, so it is measured once.
func (s settings) plan() ([]measurement, error) {
	var all []measurement
	add := func(name string, p peer, gogc, runs int, ph phase, sc scenario) {
		if p.size != "" {
			sc.Size = p.size
		} else {
			sc.Size = small
		}
		j := job{Peer: p.name, Phase: ph, Scenario: sc}
		all = append(all, measurement{name: name, peer: p, gogc: gogc, runs: runs, job: j})
	}
	flood := func(p peer) scenario {
		n := s.events
		if p.size == big { // a big object takes four times as long
			n = max(n/4, namespaces)
		}
		if s.quick {
			n *= max(p.scale, 1)
		}
		return scenario{Objects: s.objects, Events: n}
	}
	for _, p := range peers() {
		add(p.name, p, s.gogc, s.runs, eventPhase, flood(p))
	}
	for _, p := range peers() {
		if s.gogc != otherGOGC && slices.Contains([]string{"dynamic", "ours", "ours-2workers"}, p.name) {
			add(otherName(p.name), p, otherGOGC, s.runs, eventPhase, flood(p))
		}
	}
	for _, rate := range s.rates {
		for _, p := range peers() {
			if slices.Contains([]string{"dynamic", "dynamicinformer", "ours"}, p.name) {
				at := scenario{Objects: s.objects, Rate: rate, Length: s.latency}
				add(p.name, p, s.gogc, s.timedRuns, latencyPhase, at)
			}
		}
	}
	for _, p := range peers() {
		if slices.Contains(lowestRatePeers, p.name) {
			at := scenario{Objects: s.objects, Rate: slices.Min(s.rates), Length: s.latency}
			add(p.name, p, s.gogc, 1, latencyPhase, at)
		}
	}
	for _, p := range snapshotPeers() {
		add(p.name, p, s.gogc, s.timedRuns, snapshotPhase, scenario{Objects: s.snapshotObjects})
	}
	for _, p := range peers() {
		if slices.Contains([]string{"dynamicinformer", "controller-runtime", "metadata-informer", "ours"}, p.name) {
			add(p.name, p, s.gogc, 1, heapPhase, scenario{Objects: s.heapObjects})
		}
	}
	return s.selected(all)
}

// lowestRatePeers are the peers whose latency is measured at the lowest rate only.
var lowestRatePeers = []string{
	"retrywatcher", "controller-runtime", "metadata-informer", "dynamic-on-ours", "informer-on-ours",
	"ours-stock", "ours-2workers", "ours-nomanaged", "ours-select10", "ours-metadata", "ours-mux8", "ours-checkpoint",
}

// otherName names the row of a peer at otherGOGC.
func otherName(name string) string { return fmt.Sprintf("%s-gogc%d", name, otherGOGC) }

// selected returns the measurements that -only names, or all of them without -only.
func (s settings) selected(all []measurement) ([]measurement, error) {
	if len(s.only) == 0 {
		return all, nil
	}
	var names []string
	for _, m := range all {
		names = append(names, m.name)
	}
	for _, name := range s.only {
		if !slices.Contains(names, name) {
			slices.Sort(names)
			return nil, fmt.Errorf("-only: unknown peer %q: must be one of %s",
				name, strings.Join(slices.Compact(names), ", "))
		}
	}
	return slices.DeleteFunc(all, func(m measurement) bool { return !slices.Contains(s.only, m.name) }), nil
}
