package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// logHandler writes what a Stream logs as one line for a person:
//
//	gvrwatch: widgets.v1.example.com: trying again in 1.2s: connection refused
type logHandler struct{ w io.Writer }

func (logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	attr := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		attr[a.Key] = a.Value
		return true
	})
	line := fmt.Sprintf("gvrwatch: %v: ", attr["resource"])
	if err, ok := attr["error"]; ok {
		line += fmt.Sprintf("trying again in %v: %v", attr["after"].Duration().Round(100*time.Millisecond), err)
	} else {
		line += r.Message
	}
	// One Write a line: several Streams share w.
	_, err := fmt.Fprintln(h.w, strings.Join(strings.Fields(line), " "))
	return err
}

// The Streams add no groups and no attributes of their own.
func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h logHandler) WithGroup(string) slog.Handler      { return h }
