package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/internal/size"
	"github.com/gvrwatch/gvrwatch/stream"
)

// templatePrinter prints objects with a template of kubectl, or their events with --output-watch-events.
type templatePrinter struct {
	printers.ResourcePrinter
	out, errOut io.Writer
	events      bool
	flags       printFlags
	descents    int // the number of ".." in JSONPaths
	noItems     noItems
	printed     bool // the template was used on an object
	leftOut     *int // objects on which it can't be used
	now         func() time.Time
}

// newTemplate returns the printer of the output, or nil if it has no template.
func (o *printFlags) newTemplate(out, errOut io.Writer) (*templatePrinter, error) {
	if !withTemplate(o.format) {
		return nil, nil
	}
	kind, text := o.format, o.template
	if name, isFile := strings.CutSuffix(kind, "file"); isFile {
		b, err := os.ReadFile(text)
		if err != nil {
			return nil, fmt.Errorf("--output=%s: %w", kind, err)
		}
		kind, text = strings.TrimSuffix(name, "-"), string(b)
		if kind == "custom-columns" {
			if text, err = columnsOfFile(text); err != nil {
				return nil, fmt.Errorf("--output=%s: %w", o.output, err)
			}
		}
	}
	var err error
	t := &templatePrinter{
		out: out, errOut: errOut, events: o.watchEvents && o.eventsAsked, flags: *o, leftOut: new(int),
	}
	switch kind {
	case "go-template", "template":
		var p *printers.GoTemplatePrinter
		if p, err = printers.NewGoTemplatePrinter([]byte(text)); err == nil {
			p.AllowMissingKeys(true)
			t.ResourcePrinter = p
		}
	case "custom-columns":
		t.descents = strings.Count(text, "..")
		t.ResourcePrinter, err = newCustomColumns(text, out, o.noHeaders)
	default:
		p := jsonPath{text: text, asJSON: kind == "jsonpath-as-json"}
		t.descents = strings.Count(text, "..")
		t.ResourcePrinter = p
		_, err = p.parse()
	}
	if err != nil {
		return nil, fmt.Errorf("--output=%s: %w", o.output, err)
	}
	t.noItems = noItemsOf(text)
	return t, nil
}

// print writes at least a line end after each object: kubectl leaves that to the template, and a watch without it is
// one endless line.
func (t *templatePrinter) print(ev stream.Event, written func()) error {
	var o *unstructured.Unstructured
	var err error
	if t.events {
		var document []byte
		if document, err = json.Marshal(newEventDocument(ev, t.now(), t.flags, false)); err == nil {
			o = &unstructured.Unstructured{}
			err = json.Unmarshal(document, &o.Object)
		}
	} else {
		o, err = ev.Decode()
	}
	if err != nil {
		o = &unstructured.Unstructured{}
		if err := json.Unmarshal(identityOf(ev), &o.Object); err != nil {
			return err
		}
	}
	if size.TooDeep(o.Object, t.descents) {
		return t.skip(ev, "the object is too deep or too large for \"..\"", written)
	}
	noList := t.noItems.of(o.Object)
	if noList {
		t.noItems.warn(t.errOut, t.flags.format)
	}
	var b limited
	switch p := t.ResourcePrinter.(type) {
	case *customColumns:
		err = p.print(o, written)
		if !errors.Is(err, errTooLarge) {
			return err
		}
	case jsonPath:
		err = p.print(&b, o.Object)
	default:
		err = t.PrintObj(o, &b)
	}
	if b.tooLarge || errors.Is(err, errTooLarge) {
		return t.skip(ev, errTooLarge.Error(), written)
	}
	if err != nil {
		return t.leaveOut(ev, err, written)
	}
	t.printed = true
	if noList && b.Len() == 0 { // scripts must not take it for an empty list
		*t.leftOut++
	}
	if b.Len() > 0 && !bytes.HasSuffix(b.Bytes(), []byte("\n")) {
		b.WriteByte('\n')
	}
	if _, err = t.out.Write(b.Bytes()); err == nil {
		written()
	}
	return err
}

// skip says why nothing is printed of an object, which is no mistake in the template.
func (t *templatePrinter) skip(ev stream.Event, why string, written func()) error {
	printMessage(t.errOut, "--output=%s: nothing is printed of %s: %s", t.flags.format, nameWithKind(ev), why)
	written()
	return nil
}

// leaveOut says why nothing is printed of an object, which may be odd: a field of it has another type than in others.
// If the template can't be used on any of the first ones, the template is wrong.
func (t *templatePrinter) leaveOut(ev stream.Event, err error, written func()) error {
	const most = 10
	*t.leftOut++
	switch {
	case *t.leftOut <= most:
		printMessage(t.errOut, "--output=%s: the template can't be used on %s: %v",
			t.flags.format, nameWithKind(ev), err)
	case !t.printed:
		return fmt.Errorf("--output=%s: the template can't be used on any of the first %d objects",
			t.flags.format, *t.leftOut)
	case *t.leftOut == most+1:
		printMessage(t.errOut, "--output=%s: more objects are left out, which are not named", t.flags.format)
	}
	written()
	return nil
}

// checkLeftOut returns an error if objects were left out: scripts must not take a part for the whole.
func (s *session) checkLeftOut() error {
	if s.leftOut == 0 || s.opts.end.condition != "" {
		return nil
	}
	return fmt.Errorf("--output=%s: the template can't be used on %s, of which nothing is printed",
		s.opts.print.format, count(s.leftOut, "event"))
}

// noItems is what a template should be that is meant for the list of kubectl get: nothing if it is not.
type noItems struct {
	instead string
	said    bool
}

var (
	rangeOfItems = regexp.MustCompile(`\{+-? *range +\$?\.items(\[[^]]*\])? *-?\}+`)
	items        = regexp.MustCompile(`(^|[{ (:,|$])\.items(\[[^]]*\])?(\W|$)`)
	endOfRange   = regexp.MustCompile(`\{+-? *end *-?\}+`)
)

func noItemsOf(template string) noItems {
	if !items.MatchString(template) {
		return noItems{}
	}
	instead := template
	if rangeOfItems.MatchString(template) {
		instead = endOfRange.ReplaceAllString(rangeOfItems.ReplaceAllString(template, ""), "")
	}
	whole := strings.NewReplacer("{{}}", "{{.}}", "{}", "{@}")
	return noItems{instead: whole.Replace(items.ReplaceAllString(instead, "$1$3"))}
}

// of reports whether the template is meant for a list, and the object is none. If it has the field, the template is
// right.
func (n *noItems) of(object map[string]any) bool {
	_, has := object["items"]
	return n.instead != "" && !has
}

// warn says once what the template should be.
func (n *noItems) warn(errOut io.Writer, output string) {
	if n.said {
		return
	}
	n.said = true
	printMessage(errOut, "--output=%s: there are no .items here, because each object is printed by itself: use %s",
		output, n.instead)
}

// jsonPath prints the values of a JSONPath.
type jsonPath struct {
	printers.ResourcePrinter // nil: its error has the whole object
	text                     string
	asJSON                   bool
}

func (p jsonPath) parse() (*jsonpath.JSONPath, error) {
	j := jsonpath.New("out").AllowMissingKeys(true)
	j.EnableJSONOutput(p.asJSON)
	return j, j.Parse(p.text)
}

// print parses the path each time, because the evaluation of a range changes what was parsed.
func (p jsonPath) print(to io.Writer, object map[string]any) error {
	j, err := p.parse()
	if err != nil {
		return err
	}
	results, err := j.FindResults(object)
	const unfiltered = " is not array or slice and cannot be filtered" // after the whole value
	if err != nil && strings.HasSuffix(err.Error(), unfiltered) {
		return errors.New("what it filters" + unfiltered)
	}
	if err != nil {
		return err
	}
	if isTooLarge(results) {
		return errTooLarge
	}
	for _, list := range results {
		if err := j.PrintResults(to, list); err != nil {
			return err
		}
	}
	return nil
}

var errTooLarge = errors.New("the result is larger than 32 MiB")

const mostResult = 32 << 20

// limited is a Buffer for at most mostResult.
type limited struct {
	bytes.Buffer
	tooLarge bool
}

func (l *limited) Write(b []byte) (int, error) {
	if l.tooLarge = l.tooLarge || l.Len()+len(b) > mostResult; l.tooLarge {
		return 0, errTooLarge
	}
	return l.Buffer.Write(b)
}

// isTooLarge reports whether the values of JSONPaths are larger than 32 MiB as JSON with indentation: "{..}" repeats a
// value for each level around it.
func isTooLarge(results [][]reflect.Value) bool {
	room := mostResult
	for _, list := range results {
		for _, v := range list {
			if room = roomAfter(room, v.Interface(), 1); room < 0 {
				return true
			}
		}
	}
	return false
}

// roomAfter returns what is left of room after a value.
func roomAfter(room int, value any, depth int) int {
	const indentation, punctuation = 4, 8
	room -= depth*indentation + punctuation
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			if room -= len(key); room < 0 {
				break
			}
			room = roomAfter(room, v, depth+1)
		}
	case []any:
		for _, v := range value {
			if room = roomAfter(room, v, depth+1); room < 0 {
				break
			}
		}
	case string:
		room -= len(value)
	}
	return room
}

func (t *templatePrinter) flush() error {
	if c, ok := t.ResourcePrinter.(*customColumns); ok {
		return c.out.Flush()
	}
	return nil
}

// setFinite says whether a table of custom columns ends soon.
func (t *templatePrinter) setFinite(finite bool) {
	if c, ok := t.ResourcePrinter.(*customColumns); ok {
		c.out.Finite = finite
	}
}

// customColumns prints the values of JSON paths as a table.
type customColumns struct {
	printers.ResourcePrinter // nil
	out                      screen.Table
	columns                  []screen.Column
	paths                    []*jsonpath.JSONPath
}

// newCustomColumns parses HEADER:PATH[,HEADER:PATH]..., as kubectl does.
func newCustomColumns(spec string, out io.Writer, noHeaders bool) (*customColumns, error) {
	c := &customColumns{out: screen.Table{Out: out, Live: true, NoHeaders: noHeaders}}
	for column := range strings.SplitSeq(spec, ",") {
		header, path, ok := strings.Cut(column, ":")
		if !ok || header == "" || path == "" {
			return nil, fmt.Errorf("invalid column %q: must be HEADER:PATH, such as NAME:.metadata.name", column)
		}
		p := jsonpath.New(header).AllowMissingKeys(true)
		if err := p.Parse(braced(path)); err != nil {
			return nil, fmt.Errorf("invalid path %q: %w", path, err)
		}
		c.columns, c.paths = append(c.columns, screen.Column{Title: header, Name: header == "NAME"}), append(c.paths, p)
	}
	return c, nil
}

// braced adds the braces and the dot that kubectl lets users omit: metadata.name is {.metadata.name}.
func braced(path string) string {
	path = strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}")
	if !strings.HasPrefix(path, ".") && !strings.HasPrefix(path, "[") && !strings.HasPrefix(path, "$") {
		path = "." + path
	}
	return "{" + path + "}"
}

// columnsOfFile turns the two lines of a file, headers and paths, into a list of HEADER:PATH.
func columnsOfFile(text string) (string, error) {
	first, second, _ := strings.Cut(strings.TrimSpace(text), "\n")
	headers, paths := strings.Fields(first), strings.Fields(second)
	if len(headers) == 0 || len(headers) != len(paths) {
		return "", errors.New("must have a line of headers, and one with as many paths")
	}
	var columns []string
	for i := range headers {
		columns = append(columns, headers[i]+":"+paths[i])
	}
	return strings.Join(columns, ","), nil
}

func (c *customColumns) print(o *unstructured.Unstructured, written func()) error {
	if err := c.out.Columns(c.columns...); err != nil {
		return err
	}
	var cells []screen.Text
	for _, p := range c.paths {
		var values []string
		results, err := p.FindResults(o.Object)
		if err != nil {
			results = nil // the path does not fit the object: no value
		}
		if isTooLarge(results) {
			return errTooLarge
		}
		for _, list := range results {
			for _, v := range list {
				values = append(values, fmt.Sprint(v.Interface()))
			}
		}
		if len(values) == 0 {
			values = []string{"<none>"}
		}
		cells = append(cells, screen.Text{Text: strings.Join(values, ",")})
	}
	return c.out.Row(written, cells...)
}
