package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"time"
)

// sample is what relay status or the /readyz of a replica has said.
type sample struct {
	from, to time.Time // asked, answered
	replica  string    // empty: of status
	well     bool
	problem  string // one of them, for people
}

func (s sample) String() string {
	who, what := "status", s.problem
	if s.replica != "" {
		who = "readyz of " + s.replica
	}
	if s.well {
		what = "all is well"
	}
	return fmt.Sprintf("%s said at %s, until %s: %s", who, clock(s.from), clock(s.to), what)
}

// sampler takes samples.
type sampler struct {
	status func(context.Context) *exec.Cmd

	mu       sync.Mutex
	replicas map[string]*probe
	samples  []sample
}

// probe is what a sampler knows of a replica that runs.
type probe struct {
	log     string // a file, which has the address
	url     string // empty until it is known
	stopped bool
	since   time.Time // when it was continued
}

func (s *sampler) add(id, log string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas[id] = &probe{log: log}
}

func (s *sampler) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.replicas, id)
}

// stopped says that a replica is stopped, or continues.
func (s *sampler) stopped(id string, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.replicas[id]; p != nil {
		p.stopped, p.since = stopped, time.Now()
	}
}

// run takes samples at an interval until ctx ends.
func (s *sampler) run(ctx context.Context, interval time.Duration) {
	var all sync.WaitGroup
	defer all.Wait()
	for ctx.Err() == nil {
		all.Go(func() { s.keep(s.ofStatus(ctx)) })
		for _, id := range s.answering() {
			all.Go(func() {
				if got, ok := s.ofReplica(ctx, id); ok {
					s.keep(got)
				}
			})
		}
		pause(ctx, interval)
	}
}

func (s *sampler) keep(got sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, got)
}

// answering returns the replicas that run and are not stopped.
func (s *sampler) answering() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.replicas {
		if !p.stopped {
			ids = append(ids, id)
		}
	}
	return ids
}

// skippedOnly matches what is no fault of the relay: objects of the hostile cluster are skipped.
var skippedOnly = regexp.MustCompile(`^` + hostileCluster + `/\S+: \d+ events are skipped`)

func (s *sampler) ofStatus(ctx context.Context) sample {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	got := sample{from: time.Now()}
	out, err := s.status(ctx).Output()
	got.to = time.Now()
	var report struct {
		Problems []string `json:"problems"`
	}
	if json.Unmarshal(out, &report) != nil {
		got.problem = fmt.Sprint("no answer: ", err)
		return got
	}
	left := slices.DeleteFunc(report.Problems, skippedOnly.MatchString)
	if len(left) > 0 {
		got.problem = left[0]
	}
	// Without any problem the exit status is 0.
	got.well = err == nil || len(left) == 0
	return got
}

var listening = regexp.MustCompile(`serving /metrics, /readyz and /healthz" address=(\S+)`)

// ofReplica returns false if there is no answer: the replica has ended, or is stopped.
func (s *sampler) ofReplica(ctx context.Context, id string) (sample, bool) {
	s.mu.Lock()
	p := s.replicas[id]
	if p == nil {
		s.mu.Unlock()
		return sample{}, false
	}
	url, log := p.url, p.log
	s.mu.Unlock()
	if url == "" {
		data, _ := os.ReadFile(log)
		found := listening.FindSubmatch(data)
		if found == nil {
			return sample{}, false
		}
		url = "http://" + string(found[1]) + "/readyz"
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	got := sample{from: time.Now(), replica: id}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return sample{}, false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return sample{}, false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return sample{}, false
	}
	got.to, got.well = time.Now(), resp.StatusCode == http.StatusOK
	if !got.well {
		got.problem = string(body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.url = url
	// What a replica says before it was stopped, or just after, is no answer: it does not know yet how late it is.
	return got, !p.stopped && got.from.After(p.since.Add(time.Second))
}

// wellNow returns nil if status and all replicas say that all is well.
func (s *sampler) wellNow(ctx context.Context) error {
	if got := s.ofStatus(ctx); !got.well {
		return fmt.Errorf("status: %s", got.problem)
	}
	for _, id := range s.answering() {
		got, ok := s.ofReplica(ctx, id)
		if !ok {
			return fmt.Errorf("%s does not answer", id)
		}
		if !got.well {
			return fmt.Errorf("readyz of %s: %s", id, got.problem)
		}
	}
	return nil
}
