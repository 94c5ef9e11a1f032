package main

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/changes"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/stream"
)

// diffPrinter prints what has changed since the last event of an object:
//
//	MODIFIED  pod web/web-0  status.phase: Pending → Running  by kubelet (status)
//
// If several fields have changed, each has a line of its own below.
type diffPrinter struct {
	printing
	differ *changes.Differ
}

func newDiffPrinter(p printing) *diffPrinter { return &diffPrinter{p, changes.NewDiffer()} }

func (p *diffPrinter) flush() error { return nil }

// mostOfValue is how many characters of a value are printed.
const mostOfValue = 80

func (p *diffPrinter) print(ev stream.Event, written func()) error {
	var line []screen.Text
	add := func(style screen.Style, text string) { line = append(line, screen.Text{Text: text, Style: style}) }
	if p.flags.timestamps {
		add(screen.Dim, time.Now().Format(clock)+"  ")
	}
	add(styles[ev.Type], string(ev.Type))
	add(screen.Plain, strings.Repeat(" ", max(0, 10-len(ev.Type)))+strings.ToLower(ev.Resource.Kind)+" ")
	name := ev.Meta().GetName()
	if ns := ev.Meta().GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	add(screen.Bold, name)
	change, err := p.differ.Compare(ev)
	switch {
	case err != nil:
		add(screen.Plain, "  the server sent an object that can't be decoded")
	case ev.Type == stream.Modified && !change.Known:
		add(screen.Dim, "  its state before is not known") // after a checkpoint, or --watch-only
	case ev.Type == stream.Modified && len(change.Fields) == 0:
		add(screen.Dim, "  no change but its resourceVersion")
	case len(change.Fields) == 1:
		add(screen.Plain, "  ")
		line = append(line, fieldTexts(change.Fields[0])...)
	}
	if len(change.By) > 0 {
		add(screen.Dim, "  by "+strings.Join(change.By, ", "))
	}
	if err := screen.WriteLine(p.streams.Out, line...); err != nil {
		return err
	}
	if len(change.Fields) > 1 {
		for _, f := range change.Fields {
			line := append([]screen.Text{{Text: "          "}}, fieldTexts(f)...)
			if err := screen.WriteLine(p.streams.Out, line...); err != nil {
				return err
			}
		}
	}
	written()
	return nil
}

// fieldTexts returns "PATH: OLD → NEW", "PATH: NEW" with a plus, or "PATH: OLD" with a minus.
func fieldTexts(f changes.Field) []screen.Text {
	old, now := screen.Text{Text: cut(f.Old), Style: screen.Red}, screen.Text{Text: cut(f.New), Style: screen.Green}
	path := screen.Text{Text: cut(f.Path) + ": "}
	switch {
	case f.Old == "":
		return []screen.Text{{Text: "+ ", Style: screen.Green}, path, now}
	case f.New == "":
		return []screen.Text{{Text: "- ", Style: screen.Red}, path, old}
	}
	return []screen.Text{path, old, {Text: " → "}, now}
}

// cut returns the first characters of a long text, with an ellipsis.
func cut(s string) string {
	if utf8.RuneCountInString(s) <= mostOfValue {
		return s
	}
	return string([]rune(s)[:mostOfValue-1]) + "…"
}
