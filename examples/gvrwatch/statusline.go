package main

import (
	"fmt"
	"sync/atomic"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// counts are what the status line says of the events of a run.
type counts struct {
	rate screen.Rate // of objects
	gaps atomic.Int64
}

func (c *counts) add(ev stream.Event) {
	switch {
	case ev.HasObject():
		c.rate.Add(1)
	case ev.Type == stream.Gap:
		c.gaps.Add(1)
	}
}

// statusLine returns the text of the status line, such as
//
//	3 of 5 types synced, 12345 objects, 230 events/s, 1 gap
func statusLine(status mux.Status, c *counts) string {
	synced, objects := 0, 0
	for _, s := range status.Sources {
		if s.Synced {
			synced++
		}
		if s.Stream != nil {
			objects += s.Stream.Objects
		}
	}
	text := "synced"
	switch n := len(status.Sources); {
	case n == 0:
		text = "nothing to watch yet"
	case n == 1 && synced == 0:
		text = "reading what exists"
	case n > 1:
		text = fmt.Sprintf("%d of %d types synced", synced, n)
	}
	text += fmt.Sprintf(", %s, %s/s", count(objects, "object"), count(int(c.rate.PerSecond()+0.5), "event"))
	if gaps := c.gaps.Load(); gaps > 0 {
		text += ", " + count(int(gaps), "gap")
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
