package timeline

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
	"unicode"
)

//go:embed page/page.html
var pageHTML string

//go:embed page/page.css
var style string

//go:embed page/data.js
var dataScript string

//go:embed page/time.js
var timeScript string

//go:embed page/rows.js
var rowsScript string

//go:embed page/details.js
var detailsScript string

//go:embed page/main.js
var mainScript string

var (
	script = dataScript + timeScript + rowsScript + detailsScript + mainScript
	page   = template.Must(template.New("page").Parse(pageHTML))
)

// policy forbids the page everything but its own style and its own script: no other script runs in it, and it loads
// nothing.
var policy = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src '" + hashOf(style) +
	"'; script-src '" + hashOf(script) + "'"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Write writes the page as HTML. It writes nothing unless the whole page is made. The same page is the same bytes.
func Write(w io.Writer, p Page) error {
	d, n := encode(p)
	var b bytes.Buffer
	err := page.Execute(&b, map[string]any{
		"Title": printable(cut(p.Title, maxName)), "Summary": summary(p, d, n), "Policy": policy,
		"Style": template.CSS(style), "Script": template.JS(script), "Data": d,
	})
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// summary returns the line below the title, which is also there in print and without scripts.
func summary(p Page, d data, n counts) string {
	var parts []string
	if p.Cluster != "" {
		parts = append(parts, "cluster "+printable(cut(p.Cluster, maxName)))
	}
	if p.Selection != "" {
		parts = append(parts, printable(cut(p.Selection, maxName)))
	}
	const layout = "2006-01-02 15:04:05"
	from, to := time.UnixMilli(d.From).UTC(), time.UnixMilli(d.To).UTC()
	if n.objects > 0 || !p.From.IsZero() {
		parts = append(parts, fmt.Sprintf("%s to %s UTC", from.Format(layout), to.Format(layout)))
	}
	counted := fmt.Sprintf("%s: %s created, %s changed, %s deleted, %s existed before", count(n.objects, "object"),
		thousands(n.marks[Created]), thousands(n.marks[Changed]), thousands(n.marks[Deleted]),
		thousands(n.marks[Existed]))
	return strings.Join(append(parts, counted, count(n.gaps, "gap")), " · ")
}

// printable is that of the page's script: characters that are not seen, or that reorder others, become escapes.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, "\\u{%x}", r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// count returns "1 gap" or "1,000 gaps".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
