package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// settings are what the flags say.
type settings struct {
	events    int
	objects   int // in the rotation of events
	runs      int
	timedRuns int // runs of latencies and snapshots
	gogc      int
	only      []string
	quick     bool
	profiles  string

	snapshotObjects int // objects of a first snapshot
	heapObjects     int
	rates           []int
	latency         time.Duration // at each rate
	repeatFor       time.Duration // after which nothing is measured again; zero means never
}

func defaultSettings() settings {
	return settings{events: 200_000, objects: templates, runs: 5, timedRuns: 5, gogc: 100, snapshotObjects: 50_000, heapObjects: 100_000, rates: []int{1000, 4000, 20_000}, latency: 3 * time.Second}
}

// hurry makes them those of -quick: fewer of everything. What is named by its
// number of objects in the issue is measured with a tenth of it, or less.
func (s *settings) makeQuick() {
	s.quick = true
	s.events, s.runs, s.timedRuns, s.snapshotObjects, s.heapObjects, s.latency = 2000, 2, 1, 5000, 5000, 400*time.Millisecond
	s.repeatFor = 40 * time.Second
}

// measurement is what is done runs times, each in a process of its own.
type measurement struct {
	name string // of the row that it is part of
	peer peer
	job  job // without URL
	gogc int
	runs int
}

const otherGOGC = 400

// plan is all that is to be measured. How much is kept is the same each time, so
// that it is measured once.
func (s settings) plan() ([]measurement, error) {
	var all []measurement
	add := func(name string, p peer, gogc, runs int, ph phase, sc scenario) {
		if p.size != "" {
			sc.Size = p.size
		} else {
			sc.Size = small
		}
		all = append(all, measurement{name: name, peer: p, gogc: gogc, runs: runs, job: job{Peer: p.name, Phase: ph, Scenario: sc}})
	}
	flood := func(p peer) scenario {
		n := s.events
		if p.size == big { // which take four times as long
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
				add(p.name, p, s.gogc, s.timedRuns, latencyPhase, scenario{Objects: s.objects, Rate: rate, Length: s.latency})
			}
		}
	}
	for _, p := range peers() {
		if slices.Contains(lowestRatePeers, p.name) {
			add(p.name, p, s.gogc, 1, latencyPhase, scenario{Objects: s.objects, Rate: slices.Min(s.rates), Length: s.latency})
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

// alsoTimed are measured at the lowest rate alone.
var lowestRatePeers = []string{
	"retrywatcher", "controller-runtime", "metadata-informer", "dynamic-on-ours", "informer-on-ours",
	"ours-stock", "ours-2workers", "ours-nomanaged", "ours-select10", "ours-metadata", "ours-mux8", "ours-checkpoint",
}

// otherName is the row of a peer at the other GOGC.
func otherName(name string) string { return fmt.Sprintf("%s-gogc%d", name, otherGOGC) }

// chosen leaves those that -only names.
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
			return nil, fmt.Errorf("-only: there is no %q: there are %s", name, strings.Join(slices.Compact(names), ", "))
		}
	}
	return slices.DeleteFunc(all, func(m measurement) bool { return !slices.Contains(s.only, m.name) }), nil
}
