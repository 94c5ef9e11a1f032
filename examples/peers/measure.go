package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"
)

// jobTimeout limits a job; after it the peer counts as stuck.
const jobTimeout = 15 * time.Minute

// measurer runs measurements: each peer is a child process, and so is the server.
type measurer struct {
	server   string // its URL
	temp     string // folder for the temporary files of peers
	profiles string // folder, or empty
	progress io.Writer
	// No repeated run starts after repeatFor; zero means no limit.
	repeatFor time.Duration
}

// sample has the outcomes of a measurement's successful runs, and the errors of the others.
type sample struct {
	measurement
	outcomes []outcome
	errs     []error
}

// all makes all measurements: the first run of each, then the second of each, and so on, so that other load on the
// machine affects all of them alike.
func (m *measurer) all(ctx context.Context, plan []measurement) ([]*sample, error) {
	rounds := 0
	var samples []*sample
	for _, of := range plan {
		rounds = max(rounds, of.runs)
		samples = append(samples, &sample{measurement: of})
	}
	start := time.Now()
	for round := range rounds {
		for i, s := range samples {
			if round >= s.runs || round > 0 && m.repeatFor > 0 && time.Since(start) > m.repeatFor {
				continue
			}
			began := time.Now()
			o, err := m.measure(ctx, s.measurement, round)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			fmt.Fprintf(m.progress, "round %d of %d, %d of %d: %s, %s: %.1f s\n",
				round+1, rounds, i+1, len(samples), s.job.Phase, s.name, time.Since(began).Seconds())
			if err != nil {
				fmt.Fprintln(m.progress, "    failed:", err)
				s.errs = append(s.errs, err)
				continue
			}
			s.outcomes = append(s.outcomes, o)
		}
	}
	return samples, nil
}

func (m *measurer) measure(ctx context.Context, of measurement, round int) (outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, jobTimeout, errors.New("the peer is stuck"))
	defer cancel()
	path, err := m.call(ctx, http.MethodPost, "/runs", of.job.Scenario)
	if err != nil {
		return outcome{}, err
	}
	defer m.call(context.WithoutCancel(ctx), http.MethodDelete, path, nil)
	j := of.job
	j.URL = m.server + path
	if m.profiles != "" {
		file := fmt.Sprintf("%s-%s-%d.pprof", of.name, of.job.Phase, round+1)
		if rate := of.job.Scenario.Rate; rate > 0 {
			file = fmt.Sprintf("%s-%s-%d-%d.pprof", of.name, of.job.Phase, rate, round+1)
		}
		j.Profile = filepath.Join(m.profiles, file)
	}
	return runJob(ctx, j, fmt.Sprintf("GOGC=%d", of.gogc), "TMPDIR="+m.temp)
}

// call sends a request to the server's own API (see [server]), and returns the body of the answer.
func (m *measurer) call(ctx context.Context, method, path string, body any) (string, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, method, m.server+path, bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return string(answer), err
}
