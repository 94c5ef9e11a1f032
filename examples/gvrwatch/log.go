package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// logHandler writes what a Stream or a Tracker logs as one line for a person:
//
//	gvrwatch: widgets.v1.example.com: trying again in 1.2s: connection refused
type logHandler struct {
	w io.Writer
	// follows: what is forbidden, or not served, is said of what is followed, see
	// states.
	follows bool
}

func (logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	attr := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		attr[a.Key] = a.Value
		return true
	})
	line := "gvrwatch: "
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
	// One Write a line: several Streams share w.
	_, err := fmt.Fprintln(h.w, strings.Join(strings.Fields(line), " "))
	return err
}

// They add no groups and no attributes of their own.
func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h logHandler) WithGroup(string) slog.Handler      { return h }
