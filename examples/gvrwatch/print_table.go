package main

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/tables"
	"github.com/gvrwatch/gvrwatch/stream"
)

// eventTable prints the objects of events as rows. The columns of one type are those of kubectl get -w. Several types
// have the columns NAME, AGE and DETAILS in common; DETAILS has the other columns of the type as NAME=VALUE.
type eventTable struct {
	printing printing
	out      screen.Table
	last     map[string][]metav1.TableColumnDefinition // the columns of each type, for objects without cells
	kind     map[string]string                         // the group of each kind, the first one if there are several
}

func newEventTable(p printing) *eventTable {
	return &eventTable{
		printing: p, out: screen.Table{
			Out: p.streams.Out, Live: true, Finite: p.finite, NoHeaders: p.flags.noHeaders,
		},
		last: map[string][]metav1.TableColumnDefinition{}, kind: map[string]string{},
	}
}

func (t *eventTable) flush() error { return t.out.Flush() }

// unknown stands for a cell that nobody has sent, as in an inferred DELETED.
const unknown = "<unknown>"

func (t *eventTable) print(ev stream.Event, written func()) error {
	titles, texts := t.cells(ev)
	if err := t.out.Columns(titles...); err != nil {
		return err
	}
	return t.out.Row(written, texts...)
}

// cells returns the row of an event.
func (t *eventTable) cells(ev stream.Event) (titles []screen.Column, texts []screen.Text) {
	columns, cells := t.row(ev)
	add := func(title, text string) {
		titles, texts = append(titles, screen.Column{Title: title}), append(texts, screen.Text{Text: text})
	}
	if t.printing.flags.timestamps {
		add("TIME", t.printing.now().Format(timeFormat))
	}
	if t.printing.flags.watchEvents {
		add("EVENT", fmt.Sprintf("%-8s", ev.Type))
		texts[len(texts)-1].Style = styles[ev.Type]
	}
	if t.printing.namespaces {
		add("NAMESPACE", ev.Meta().GetNamespace())
	}
	if t.printing.several {
		t.addCommon(ev, columns, cells, add)
	} else {
		for i, c := range columns {
			if c.Priority == 0 || t.printing.flags.format == "wide" {
				add(strings.ToUpper(c.Name), cells[i])
			}
		}
	}
	labelsOf := ev.Meta().GetLabels()
	for _, name := range t.printing.flags.labelColumns {
		add(strings.ToUpper(name[strings.LastIndexByte(name, '/')+1:]), labelsOf[name])
	}
	if t.printing.flags.showLabels {
		add("LABELS", labels.FormatLabels(labelsOf))
	}
	isEvent := ev.Resource.Kind == "Event"
	for i, c := range titles {
		texts[i].Long = isEvent && c.Title == details // MESSAGE is among them
		titles[i].Name = c.Title == "NAME" || isEvent && c.Title == "OBJECT"
		titles[i].Long = isEvent && c.Title == "MESSAGE" // which says what has happened
	}
	return titles, texts
}

// timeFormat is the format of --timestamps in tables.
const timeFormat = "15:04:05.000"

// details is the title of the column with the other columns of a type.
const details = "DETAILS"

// addCommon adds the columns that all types have in common.
func (t *eventTable) addCommon(
	ev stream.Event, columns []metav1.TableColumnDefinition, cells []string, add func(name, text string),
) {
	age := ageOf(ev, t.printing.now())
	var others []string
	for i, c := range columns {
		switch name := strings.ToUpper(c.Name); {
		case c.Format == "name" || c.Priority > 0 && t.printing.flags.format != "wide":
		case name == "AGE":
			age = cells[i]
		default:
			others = append(others, keyOf(name)+"="+quoteSpaces(cells[i]))
		}
	}
	add("NAME", t.shortName(ev))
	add("AGE", age)
	add(details, strings.Join(others, " "))
}

// shortName returns KIND/NAME, or KIND.GROUP/NAME if another group has shown a type of that kind. Groups are long, and
// a line has little room.
func (t *eventTable) shortName(ev stream.Event) string {
	kind := strings.ToLower(ev.Resource.Kind)
	group, known := t.kind[kind]
	if !known {
		t.kind[kind] = ev.Resource.Group
	} else if group != ev.Resource.Group {
		return nameWithKind(ev)
	}
	return kind + "/" + ev.Meta().GetName()
}

// keyOf returns the name of a column without spaces, which would make NAME=VALUE ambiguous.
func keyOf(name string) string {
	key := strings.Join(strings.Fields(name), "-")
	if strings.Contains(key, "=") {
		return `"` + strings.ReplaceAll(key, `"`, `\"`) + `"`
	}
	return quoteSpaces(key)
}

// quoteSpaces puts a text with spaces between double quotes.
func quoteSpaces(s string) string {
	if s == "" || strings.ContainsAny(s, ` "`) {
		return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"`
	}
	return s
}

// row returns the columns of an object and its cells, as texts.
func (t *eventTable) row(ev stream.Event) ([]metav1.TableColumnDefinition, []string) {
	key := ev.Resource.String()
	columns, cells, sent := t.printing.columns.Row(ev)
	known := t.last[key]
	switch {
	case sent:
		t.last[key] = columns
	case known != nil && ev.Inferred:
		columns = known
	default:
		m := ev.Meta()
		return nameAndAge, []string{m.GetName(), ageOf(ev, t.printing.now()), ev.ResourceVersion, string(m.GetUID())}
	}
	texts := make([]string, len(columns))
	for i, c := range columns {
		switch {
		case sent && t.printing.past && isAge(c.Name):
			texts[i] = since(timeOf(ev), t.printing.now())
		case sent:
			texts[i] = tables.Text(cells[i])
		case c.Format == "name":
			texts[i] = ev.Meta().GetName()
		default:
			texts[i] = unknown
		}
	}
	return columns, texts
}

// nameAndAge are the columns of objects without cells.
var nameAndAge = []metav1.TableColumnDefinition{
	{Name: "Name", Format: "name"}, {Name: "Age"}, {Name: "Resource Version", Priority: 1}, {Name: "UID", Priority: 1},
}

func ageOf(ev stream.Event, now time.Time) string {
	return since(ev.Meta().GetCreationTimestamp().Time, now) // an inferred DELETED has none
}

func since(begin, now time.Time) string {
	if begin.IsZero() {
		return unknown
	}
	return duration.HumanDuration(now.Sub(begin))
}

// isAge reports whether a column says how long ago an object was created or, of Events, observed.
func isAge(column string) bool {
	return strings.EqualFold(column, "Age") || strings.EqualFold(column, "Last Seen")
}
