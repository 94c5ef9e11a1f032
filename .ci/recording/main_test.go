package main

import (
	"encoding/xml"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSelfContained(t *testing.T) {
	got := selfContained([]string{"a\x1b[1mb", "c\x1b[31md", "\x1b[0;2me\x1b[39mf", "\x1b[mg", "h"})
	want := []string{
		"a\x1b[1mb", "\x1b[1mc\x1b[31md", "\x1b[1m\x1b[31m\x1b[0;2me\x1b[39mf", "\x1b[0;2m\x1b[39m\x1b[mg", "\x1b[mh",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDraw(t *testing.T) {
	frames := []frame{
		{0, []string{"\x1b[1mA & <B>\x1b[0m"}},
		{time.Second, []string{"\x1b[1mA & <B>\x1b[0m", "\x1b[31m\x1b[32mADDED\x1b[39m a", "status 1"}},
		{2 * time.Second, []string{"\x1b[1mA & <B>\x1b[0m", "\x1b[31m\x1b[32mADDED\x1b[39m a", "\x1b[0;7m\x1b[49mb\x1b[0m"}},
	}
	svg := string(draw(frames, 20, 3, 4*time.Second))
	for why, want := range map[string]string{
		"text is escaped and bold":           `<tspan class="b">A &amp; &lt;B&gt;</tspan></text>`,
		"a line of the cursor":               `<tspan class="v">b</tspan></text>`,
		"a color replaces another, and ends": `<tspan class="g">ADDED</tspan> a</text>`,
		"a line that stays has no end":       "@keyframes k1{0%{visibility:hidden}25.00%{visibility:visible}}",
		"a line that is replaced has one":    "25.00%{visibility:visible}50.00%,100%{visibility:hidden}}",
		"without animation it is not seen":   `visibility="hidden">status 1<`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s: %s is missing in\n%s", why, want, svg)
		}
	}
	if n := strings.Count(svg, "<text"); n != 4 {
		t.Errorf("%d lines, want 4: an unchanged line is drawn once", n)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
}
