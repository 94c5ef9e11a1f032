package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/stream"
)

// filterFlags say which events are printed.
type filterFlags struct {
	types   []string
	changed []string
	ignore  []string
	since   time.Duration
	summary bool
}

func (o *filterFlags) addFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.types, "types", nil,
		"Print only events of these types: ADDED, MODIFIED, DELETED. In JSON and YAML, SYNCED and GAP are printed if "+
			"they are named, and are lines on stderr otherwise.")
	f.StringArrayVar(&o.changed, "changed", nil,
		"Print only events that change the value at this JSONPath: .spec or .status.phase. What counts is the "+
			"object's last event, printed or not. May be repeated: one of them must differ.")
	f.StringArrayVar(&o.ignore, "ignore", nil,
		"Do not print an event in which nothing has changed but this JSONPath, managedFields, resourceVersion and "+
			"generation: '.status.conditions[*].lastHeartbeatTime'. -o diff does not show it either. May be repeated.")
	f.DurationVar(&o.since, "since", 0,
		"Of what exists at the start, print only what was created within this time, such as 10m. Of Events it is the "+
			"time of their last observation. Changes that come later are all printed.")
	f.BoolVar(&o.summary, "summary", false,
		"Print at the end, on stderr, how many objects were added, modified and deleted. By type and namespace.")
}

// eventTypes are the values of --types.
var eventTypes = []stream.Type{stream.Added, stream.Modified, stream.Deleted, stream.Synced, stream.Gap}

func (o *filterFlags) check() error {
	for i, name := range o.types {
		o.types[i] = strings.ToUpper(strings.TrimSpace(name))
		if !slices.Contains(eventTypes, stream.Type(o.types[i])) {
			hint := ""
			if o.types[i] == "WARNING" || o.types[i] == "NORMAL" { // kubectl events --types
				hint = "; for Events of this type use --field-selector type=" + name
			}
			return fmt.Errorf("--types=%s: must be of ADDED, MODIFIED, DELETED, SYNCED and GAP%s", name, hint)
		}
	}
	if o.since < 0 {
		return fmt.Errorf("--since=%v: must not be negative", o.since)
	}
	_, err := o.newFilter(time.Time{})
	return err
}

// needsContent reports whether the filter looks at more than metadata.
func (o *filterFlags) needsContent() bool { return len(o.changed)+len(o.ignore) > 0 || o.since > 0 }

// filter decides which events are printed. It keeps a hash of each object.
type filter struct {
	types   map[stream.Type]bool // nil for all
	changed []objectPath
	ignore  []objectPath
	from    time.Time // of --since
	states  map[string]state
	synced  map[string]bool // by resource and namespace: what comes now did not exist at the start
}

// state is a hash of what the filter compares of an object.
type state [sha256.Size]byte

// newFilter returns the filter of a run that begins at a time.
func (o *filterFlags) newFilter(begin time.Time) (*filter, error) {
	f := &filter{states: map[string]state{}, synced: map[string]bool{}}
	for _, t := range o.types {
		if f.types == nil {
			f.types = map[stream.Type]bool{}
		}
		f.types[stream.Type(t)] = true
	}
	if o.since > 0 {
		f.from = begin.Add(-o.since)
	}
	for _, text := range o.changed {
		p, err := parsePath(text)
		if err != nil {
			return nil, fmt.Errorf("--changed=%s: %w", text, err)
		}
		f.changed = append(f.changed, p)
	}
	for _, text := range o.ignore {
		p, err := parsePath(text)
		if err == nil && !p.removes() {
			err = errors.New("must end with the name of a field or with [*], so that it can be left out")
		}
		if err != nil {
			return nil, fmt.Errorf("--ignore=%s: %w", text, err)
		}
		f.ignore = append(f.ignore, p)
	}
	return f, nil
}

// pass reports whether an event is printed, and returns it without what is ignored, for a printer of changes.
func (f *filter) pass(ev stream.Event) (stream.Event, bool) {
	if !ev.HasObject() {
		if ev.Type == stream.Synced {
			f.synced[ev.Resource.String()+" "+ev.Namespace] = true
		}
		return ev, true // where it is printed depends on its type
	}
	pass := f.types == nil || f.types[ev.Type]
	if len(f.changed)+len(f.ignore) > 0 {
		var differs bool
		ev, differs = f.compare(ev) // also if the type is left out: the next event is compared with this one
		pass = pass && differs
	}
	return ev, pass && !f.before(ev)
}

// controls reports whether a control event is printed like others. If not, it is a line on stderr.
func (f *filter) controls(t stream.Type) bool { return f.types == nil || f.types[t] }

// before reports whether an event is older than --since. A later change is not, whatever its object's age: a selector
// may come to match an old object.
func (f *filter) before(ev stream.Event) bool {
	of := ev.Resource.String() + " "
	if f.from.IsZero() || ev.Type != stream.Added || f.synced[of] || f.synced[of+ev.Namespace] {
		return false
	}
	at := timeOf(ev)
	return !at.IsZero() && at.Before(f.from)
}

// timeOf returns when an Event was observed last, or when another object was created. It is zero if that is not known.
func timeOf(ev stream.Event) time.Time {
	if isEvent(ev) {
		var e struct {
			Series struct {
				LastObservedTime time.Time `json:"lastObservedTime"`
			} `json:"series"`
			LastTimestamp           time.Time `json:"lastTimestamp"`
			DeprecatedLastTimestamp time.Time `json:"deprecatedLastTimestamp"` // its name in events.k8s.io
			EventTime               time.Time `json:"eventTime"`
		}
		if json.Unmarshal(ev.JSON, &e) == nil {
			for _, t := range []time.Time{
				e.Series.LastObservedTime, e.LastTimestamp, e.DeprecatedLastTimestamp, e.EventTime,
			} {
				if !t.IsZero() {
					return t
				}
			}
		}
	}
	return ev.Meta().GetCreationTimestamp().Time
}

func isEvent(ev stream.Event) bool {
	r := ev.Resource
	return r.Kind == "Event" && (r.Group == "" || r.Group == "events.k8s.io")
}

// compare reports whether an event differs from the last one of its object in what counts, and returns it without what
// is ignored. An event whose object was not known before, or can't be decoded, differs.
func (f *filter) compare(ev stream.Event) (stream.Event, bool) {
	key := cmp.Or(string(ev.Meta().GetUID()), ev.Resource.String()+" "+ev.NamespacedName().String())
	before, known := f.states[key]
	if ev.Type == stream.Deleted {
		delete(f.states, key)
		none, _ := f.hash(nil)
		return ev, len(f.changed) == 0 || !known || before != none
	}
	o, err := ev.Decode()
	if err != nil {
		return ev, true
	}
	if ev.Object != nil {
		o = o.DeepCopy()
	}
	m := ev.Meta()
	for _, p := range f.ignore {
		p.remove(o.Object)
	}
	if len(f.ignore) > 0 { // what is ignored may be what says which object it is
		o.SetNamespace(m.GetNamespace())
		o.SetName(m.GetName())
		o.SetUID(m.GetUID())
	}
	if len(f.ignore) > 0 && ev.JSON != nil {
		if ev.JSON, err = json.Marshal(o.Object); err != nil {
			return ev, true
		}
	}
	now, ok := f.hash(o)
	if !ok { // the next event is not known to be the same
		delete(f.states, key)
		return ev, true
	}
	f.states[key] = now
	if !known && ev.Type == stream.Added {
		before, _ = f.hash(nil)
		known = true
	}
	return ev, !known || before != now
}

// hash returns the hash of an object, which it changes, or of the values that must have changed. Nil is no object. It
// reports false if a path can't be used on the object.
func (f *filter) hash(o *unstructured.Unstructured) (hash state, ok bool) {
	var values any
	switch {
	case len(f.changed) > 0:
		found := make([][]any, len(f.changed))
		for i, p := range f.changed {
			if o != nil {
				if found[i], ok = p.find(o.Object); !ok {
					return state{}, false
				}
			}
		}
		values = found
	case o != nil:
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field) // each counts changes of others
		}
		values = o.Object
	}
	b, err := json.Marshal(values)
	if err != nil { // never: the values were decoded from JSON
		return state{}, false
	}
	return sha256.Sum256(b), true
}
