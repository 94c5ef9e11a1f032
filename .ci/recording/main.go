// Command recording runs a command line in a terminal and writes what the terminal shows as an animated SVG. It needs
// tmux, which is the terminal.
//
//	go run ./.ci/recording -o docs/tool.svg -for 12s 'gvrwatch watch robots,planets -A'
//
// A viewer that shows no animations shows the last frame.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"
)

const sampling = 100 * time.Millisecond

func main() {
	out := flag.String("o", "", "the file to write")
	columns := flag.Int("columns", 100, "width of the terminal")
	rows := flag.Int("rows", 22, "height of the terminal")
	length := flag.Duration("for", 10*time.Second, "how long the recording lasts")
	flag.Parse()
	if *out == "" || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "recording: needs -o FILE and one command line")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	frames, err := record(ctx, flag.Arg(0), *columns, *rows, *length)
	if err == nil {
		err = os.WriteFile(*out, draw(frames, *columns, *rows, *length), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// frame is what the terminal shows from a moment on.
type frame struct {
	at    time.Duration
	lines []string // with escape sequences for colors
}

// record runs the command line in a tmux server of its own, which it ends.
func record(ctx context.Context, line string, columns, rows int, length time.Duration) ([]frame, error) {
	tmux := func(args ...string) (string, error) {
		b, err := exec.CommandContext(ctx, "tmux", append([]string{"-L", "gvrwatch-recording", "-f", "/dev/null"}, args...)...).
			CombinedOutput()
		if err != nil {
			err = fmt.Errorf("tmux %s: %w: %s", args[0], err, b)
		}
		return string(b), err
	}
	size := []string{"-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows)}
	// The terminal stays after the command, with what it has shown.
	session := append([]string{"new-session", "-d"}, size...)
	if _, err := tmux(append(session, "stty -echo; "+line+"; sleep 3600")...); err != nil {
		return nil, err
	}
	defer exec.Command("tmux", "-L", "gvrwatch-recording", "kill-server").Run()
	if _, err := tmux("set-option", "-g", "status", "off"); err != nil {
		return nil, err
	}
	var frames []frame
	last := ""
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		at := time.Since(began)
		if at >= length {
			return frames, nil
		}
		shown, err := tmux("capture-pane", "-p", "-e")
		if err != nil {
			return nil, err
		}
		if shown != last {
			last = shown
			frames = append(frames, frame{at, selfContained(strings.Split(strings.TrimRight(shown, "\n"), "\n"))})
		}
	}
}

// selfContained repeats at the begin of each line the escape sequences that are in force there: tmux writes only what
// changes.
func selfContained(lines []string) []string {
	inForce := ""
	for i, line := range lines {
		lines[i] = inForce + line
		for _, part := range strings.Split(line, "\x1b[")[1:] {
			codes, _, _ := strings.Cut(part, "m")
			if first, _, _ := strings.Cut(codes, ";"); first == "" || first == "0" {
				inForce = ""
			}
			inForce += "\x1b[" + codes + "m"
		}
	}
	return lines
}

// shown is a line of the terminal, at a row, for a time. to is zero if it is shown until the end.
type shown struct {
	row      int
	text     string
	from, to time.Duration
}

// lines returns each line that is shown, once for each time that it appears at a row.
func lines(frames []frame, rows int) (all []shown) {
	current := make([]int, rows) // index in all, plus 1
	for _, f := range frames {
		for row := range rows {
			text := ""
			if row < len(f.lines) {
				text = f.lines[row]
			}
			if n := current[row]; n > 0 {
				if all[n-1].text == text {
					continue
				}
				all[n-1].to = f.at
				current[row] = 0
			}
			if strings.TrimSpace(text) != "" {
				all = append(all, shown{row: row, text: text, from: f.at})
				current[row] = len(all)
			}
		}
	}
	return all
}

const (
	cellWidth, cellHeight = 8.4, 18.0
	margin                = 14.0
	style                 = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d0d7de;white-space:pre}` +
		`.b{font-weight:bold}.d{fill:#8b949e}.r{fill:#ff7b72}.g{fill:#7ee787}.y{fill:#e3b341}.m{fill:#d2a8ff}.v{text-decoration:underline}`
)

// draw returns the frames as an SVG, which repeats.
func draw(frames []frame, columns, rows int, length time.Duration) []byte {
	all := lines(frames, rows)
	width, height := float64(columns)*cellWidth+2*margin, float64(rows)*cellHeight+2*margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" xml:space="preserve">`+"\n<style>%s",
		width, height, width, height, style)
	percent := func(at time.Duration) float64 { return 100 * at.Seconds() / length.Seconds() }
	for i, l := range all {
		hidden := ""
		if l.to > 0 {
			hidden = fmt.Sprintf("%.2f%%,100%%{visibility:hidden}", percent(l.to))
		}
		fmt.Fprintf(&b, "\n@keyframes k%d{0%%{visibility:hidden}%.2f%%{visibility:visible}%s}", i, percent(l.from), hidden)
		fmt.Fprintf(&b, "#l%d{animation:k%d %.1fs step-end infinite}", i, i, length.Seconds())
	}
	b.WriteString("\n@media (prefers-reduced-motion){text{animation:none!important}}</style>\n")
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" rx="8" fill="#0d1117"/>`+"\n", width, height)
	for i, l := range all {
		visibility := ""
		if l.to > 0 {
			visibility = ` visibility="hidden"` // unless it is animated
		}
		fmt.Fprintf(&b, `<text id="l%d" x="%.0f" y="%.0f"%s>%s</text>`+"\n",
			i, margin, margin+float64(l.row+1)*cellHeight-4, visibility, spans(l.text))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// spans returns a line with escape sequences as text and tspans.
func spans(line string) string {
	var b strings.Builder
	styles := map[string]bool{}
	for line != "" {
		text, rest, found := strings.Cut(line, "\x1b[")
		writeSpan(&b, text, styles)
		if !found {
			break
		}
		codes, after, _ := strings.Cut(rest, "m")
		for code := range strings.SplitSeq(codes, ";") {
			apply(styles, code)
		}
		line = after
	}
	return b.String()
}

// classes are those of SGR codes: bold, dim, reverse, which is shown as an underline, and the colors of the tool.
var classes = map[string]string{"1": "b", "2": "d", "7": "v", "31": "r", "32": "g", "33": "y", "35": "m"}

func apply(styles map[string]bool, code string) {
	switch code {
	case "", "0":
		clear(styles)
	case "22":
		delete(styles, "b")
		delete(styles, "d")
	case "31", "32", "33", "35", "39":
		for _, color := range []string{"r", "g", "y", "m"} {
			delete(styles, color)
		}
	}
	if class, ok := classes[code]; ok {
		styles[class] = true
	}
}

func writeSpan(b *strings.Builder, text string, styles map[string]bool) {
	var names []string
	for _, class := range []string{"b", "d", "v", "r", "g", "y", "m"} {
		if styles[class] {
			names = append(names, class)
		}
	}
	text = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
	if len(names) == 0 || text == "" {
		b.WriteString(text)
		return
	}
	fmt.Fprintf(b, `<tspan class="%s">%s</tspan>`, strings.Join(names, " "), text)
}
