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
	debug   bool // print requests
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
	line := ""
	if resource, ok := attr["resource"]; ok {
		line += resource.String() + ": "
	}
	cause, failed := attr["error"]
	after, again := attr["after"]
	if err, ok := cause.Any().(error); ok && h.follows && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) {
		return nil
	}
	switch {
	case failed && again && attr["resource"].Kind() == slog.KindString:
		line += fmt.Sprintf("trying again in %v: %v", after.Duration().Round(100*time.Millisecond), cause)
	case failed && again:
		line += fmt.Sprintf("%s in %v: %v", r.Message, after.Duration().Round(100*time.Millisecond), cause)
	case failed:
		line += fmt.Sprintf("%s: %v", r.Message, cause)
	default:
		line += r.Message
	}
	printMessage(h.w, "%s", line)
	return nil
}

// Streams and Trackers use neither WithAttrs nor WithGroup.

func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h logHandler) WithGroup(string) slog.Handler      { return h }
