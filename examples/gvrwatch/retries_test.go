package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/stream"
)

// TestRetriesAreGathered: what several types report at the same time for the same reason is one line.
func TestRetriesAreGathered(t *testing.T) {
	refused, busy := errors.New("connection refused"), errors.New("busy")
	type report struct {
		after    time.Duration // since the one before
		resource string
		err      error // nil: the type watches again
		wait     time.Duration
	}
	const ms = time.Millisecond
	const alone = `failed: cannot list boats.v1.example.com across the cluster: Get "/a": connection refused`
	for _, tt := range []struct {
		why     string
		reports []report
		after   time.Duration // until the end
		want    string
	}{
		{"several types, each with its own request", []report{
			{0, "a", refused, 100 * ms}, {10 * ms, "b", refused, 100 * ms}, {500 * ms, "c", refused, 1234 * ms},
			{100 * ms, "a", refused, 300 * ms},
		}, time.Second, "3 types: trying again in 300ms: connection refused\n"},
		{"a single type has its line as it is", []report{{0, "a", refused, 1234 * ms}}, time.Second,
			"a: trying again in 1.2s: " + alone + "\n"},
		{"another second is another line", []report{
			{0, "a", refused, 100 * ms}, {0, "b", refused, 100 * ms}, {time.Second, "a", refused, 2 * time.Second},
		}, time.Second, "2 types: trying again in 100ms: connection refused\n" +
			"a: trying again in 2s: " + alone + "\n"},
		{"another reason is another line", []report{
			{0, "a", refused, 100 * ms}, {0, "b", busy, 100 * ms}, {0, "c", refused, 100 * ms},
			{0, "d", busy, 200 * ms},
		}, time.Second, "2 types: trying again in 100ms: connection refused\n2 types: trying again in 200ms: busy\n"},
		{"types that recover, after what they have reported before", []report{
			{0, "a", refused, 100 * ms}, {0, "b", refused, 100 * ms}, {100 * ms, "b", nil, 0}, {0, "a", nil, 0},
		}, time.Second, "2 types: trying again in 100ms: connection refused\n2 types: watching again\n"},
		{"the end does not wait", []report{{0, "a", refused, 100 * ms}, {0, "b", refused, 100 * ms}}, 0,
			"2 types: trying again in 100ms: connection refused\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var b bytes.Buffer
			r := &retries{w: &locked{w: &b}}
			log := slog.New(logHandler{w: r.w, retries: r})
			for _, report := range tt.reports {
				time.Sleep(report.after)
				synctest.Wait()
				if report.err == nil {
					log.Info("watching again", "resource", report.resource, "resourceVersion", "5")
					continue
				}
				err := fmt.Errorf("failed: %w", &stream.RequestError{
					Verb: "list", Resource: event(stream.Added).Resource,
					Err: &url.Error{Op: "Get", URL: "/" + report.resource, Err: report.err},
				})
				log.Warn("trying again after a failure",
					"resource", report.resource, "after", report.wait, "error", err)
			}
			time.Sleep(tt.after)
			synctest.Wait()
			waited := b.String()
			r.flush()
			got := b.String()
			if tt.after > 0 && waited != got {
				t.Errorf("%s: after %v there is only %s", tt.why, tt.after, waited)
			}
			want := ""
			for line := range bytes.Lines([]byte(tt.want)) {
				want += "gvrwatch: " + string(line)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}
