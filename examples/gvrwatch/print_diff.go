package main

import (
	"math"
	"slices"
	"strings"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/difftext"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
	"github.com/gvrwatch/gvrwatch/stream"
)

// diffPrinter prints what has changed since the last event of an object:
//
//	MODIFIED  pod web/web-0  status.phase: Pending → Running  by kubelet (status)
//
// If several fields have changed, or a terminal is too narrow, each field has a line of its own below.
type diffPrinter struct {
	printing printing
	differ   *changes.Differ
}

func newDiffPrinter(p printing) *diffPrinter { return &diffPrinter{p, changes.NewDiffer()} }

func (p *diffPrinter) flush() error { return nil }

// observe takes note of an event that is not printed.
func (p *diffPrinter) observe(ev stream.Event) { _, _ = p.differ.CompareAt(ev, p.printing.now()) }

func (p *diffPrinter) print(ev stream.Event, written func()) error {
	var line []screen.Text
	add := func(style screen.Style, text string) { line = append(line, screen.Text{Text: text, Style: style}) }
	if p.printing.flags.timestamps {
		add(screen.Dim, p.printing.now().Format(timeFormat)+"  ")
	}
	add(styles[ev.Type], string(ev.Type))
	add(screen.Plain, strings.Repeat(" ", max(0, 10-len(ev.Type)))+strings.ToLower(ev.Resource.Kind)+" ")
	name := ev.Meta().GetName()
	if ns := ev.Meta().GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	line = append(line, screen.Text{Text: name, Style: screen.Bold, Most: math.MaxInt})
	change, err := p.differ.CompareAt(ev, p.printing.now())
	switch {
	case err != nil:
		add(screen.Plain, "  the server sent an object that can't be decoded")
	case ev.Type == stream.Modified && !change.Known:
		add(screen.Dim, "  its state before is not known") // after a checkpoint, or --watch-only
	case ev.Type == stream.Modified && len(change.Fields) == 0:
		add(screen.Dim, "  no change but its resourceVersion")
	}
	by := screen.Text{Style: screen.Dim, Most: difftext.MostOfValue}
	if len(change.By) > 0 {
		by.Text = "  by " + strings.Join(change.By, ", ")
	}
	out, fields := p.printing.streams.Out, change.Fields
	if len(fields) == 1 {
		oneLine := append(append(slices.Clone(line), screen.Text{Text: "  "}), difftext.Of(fields[0])...)
		if oneLine = append(oneLine, by); screen.Fits(out, oneLine...) {
			line, by, fields = oneLine, screen.Text{}, nil
		}
	}
	if err := screen.WriteLine(out, append(line, by)...); err != nil {
		return err
	}
	for _, f := range fields {
		texts := append([]screen.Text{{Text: "          "}}, difftext.Of(f)...)
		if !screen.Fits(out, texts...) {
			texts = append(texts[:1], difftext.Of(difftext.Shorten(f))...)
		}
		if err := screen.WriteLine(out, texts...); err != nil {
			return err
		}
	}
	written()
	return nil
}
