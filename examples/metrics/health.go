package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/mux/follow"
)

// Readyz returns a handler that answers 200 while everything that exists has been delivered: each watched source is
// synced. Otherwise it answers 503, with a line for each source that is not synced, and for each resource of a
// follow.Mux that is not watched. Without a watched source nothing is ready.
//
// A source that was ready is not while it catches up after a GAP. Use it for readiness only where that is wanted.
func (m *Metrics) Readyz() http.Handler {
	return handler("ready", func() (bool, []string) {
		st := m.status()
		var lines []string
		if len(st.sources) == 0 {
			lines = append(lines, "no source")
		}
		for _, s := range st.sources {
			if !s.Synced {
				lines = append(lines, line(s))
			}
		}
		for _, r := range st.followed {
			if r.State != follow.Watching {
				lines = append(lines, printable(followedName(r))+": "+string(r.State)+since(r.Since)+reason(r.Cause))
			}
		}
		if st.discovery != nil {
			lines = append(lines, "discovery: "+outcome(st.discovery))
		}
		return !st.unsynced, lines
	})
}

// Healthz returns a handler that answers 503 if only a restart of the program helps, else 200:
//
//   - A source has ended with an error that is final, and not that of its context. A source that retries is alive.
//   - The body of a loop over Count has been handling the same event for longer than stuckAfter. Zero means that this
//     does not matter.
func (m *Metrics) Healthz(stuckAfter time.Duration) http.Handler {
	return handler("live", func() (bool, []string) {
		var lines []string
		for _, s := range m.status().sources {
			if s.Err != nil && !s.retried && !isEndOfContext(s.Err) {
				lines = append(lines, line(s))
			}
		}
		if busy, _ := m.busy(); stuckAfter > 0 && busy > stuckAfter {
			lines = append(lines, fmt.Sprintf("the loop body: %v for one event", busy.Round(time.Second)))
		}
		return len(lines) == 0, lines
	})
}

func isEndOfContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// maxLines bounds an answer.
const maxLines = 100

func handler(name string, check func() (ok bool, lines []string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		ok, lines := check()
		if ok {
			fmt.Fprintln(w, name)
			return
		}
		slices.Sort(lines)
		if more := len(lines) - maxLines; more > 0 {
			lines = append(lines[:maxLines], fmt.Sprintf("and %d more", more))
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, strings.Join(append([]string{"not " + name}, lines...), "\n"))
	})
}

// line describes a source. It has no text of an error, because such answers are often for anybody: a word says what
// kind of error it is, and Status and the log have the rest.
func line(s source) string {
	state, cause, began, attempt := string(s.State), s.Err, time.Time{}, s.Attempt
	if s.Stream != nil {
		began, cause, attempt = s.Stream.Since, cmp.Or(s.Err, s.Stream.Cause), max(attempt, s.Stream.Attempt)
	}
	text := printable(s.Key) + ": " + cmp.Or(state, "not synced") + since(began)
	if attempt > 0 {
		text += fmt.Sprintf(", failures: %d", attempt)
	}
	return text + reason(cause)
}

func since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " for " + time.Since(t).Round(time.Second).String()
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return ", " + outcome(err)
}

// printable returns what may be shown in a terminal, and is not long.
func printable(name string) string {
	quoted := strconv.Quote(name[:min(len(name), maxName)])
	return quoted[1 : len(quoted)-1]
}
