package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// logHandler writes each log record of a Stream or a Tracker as one line for people:
//
//	gvrwatch: widgets.v1.example.com: trying again in 1.2s: connection refused
type logHandler struct {
	w io.Writer
	// follows drops records of resources that are forbidden or not served, because statusPrinter reports these.
	follows bool
	debug   bool     // print requests
	retries *retries // gathers the lines of several types; may be nil
}

// requestVerbosity is the least -v that prints requests.
const requestVerbosity = 4

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.debug
}

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	attr := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		attr[a.Key] = a.Value
		return true
	})
	resource, ofResource := attr["resource"]
	cause, failed := attr["error"]
	after, again := attr["after"]
	err, _ := cause.Any().(error)
	if h.follows && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
		return nil
	}
	ofStream := resource.Kind() == slog.KindString
	line := r.Message
	if failed && again {
		if ofStream {
			line = "trying again"
		}
		line += fmt.Sprintf(" in %v", after.Duration().Round(100*time.Millisecond))
	}
	if h.retries != nil && ofStream && (failed && again || r.Message == recovered) {
		h.retries.add(resource.String(), line, err)
		return nil
	}
	if failed {
		line += fmt.Sprintf(": %v", cause)
	}
	if ofResource {
		line = resource.String() + ": " + line
	}
	printMessage(h.w, "%s", line)
	return nil
}

// recovered is the message of a Stream that watches again after failures.
const recovered = "watching again"

// Streams and Trackers use neither WithAttrs nor WithGroup.

func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h logHandler) WithGroup(string) slog.Handler      { return h }
