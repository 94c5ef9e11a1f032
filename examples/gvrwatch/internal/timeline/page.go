package timeline

import (
	"time"

	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
)

// Page is what a page shows.
type Page struct {
	Title     string // such as the name of a file
	Cluster   string // may be empty
	Selection string // what was watched, may be empty
	// From and To are when the first and the last recorder began and ended. What lies outside widens them.
	From, To time.Time
	Gaps     []Gap
	Objects  []Object // in any order
}

// Gap is a time in which events may be missing.
type Gap struct {
	From, To time.Time
	Type     string // of the objects that are concerned: empty for all
	// Namespace is that of the objects that are concerned: empty for all namespaces.
	Namespace string
	Reason    string // a sentence
	// Forgets says that nothing is known of objects from before it, unless they are seen again.
	Forgets bool
}

// Object is a row: one object, or several of the same name one after the other.
type Object struct {
	Type, Namespace, Name string
	Marks                 []Mark // in the order of the events
}

// Kind is what an event says about an object.
type Kind int

// The page's script has the same numbers.
const (
	Existed Kind = iota // before the recording began: a state, not a change
	Created
	Changed
	Deleted
	kinds
)

// Mark is an event.
type Mark struct {
	Time     time.Time
	Kind     Kind
	Inferred bool // from a comparison: it happened between the last event and Time
	Fields   []changes.Field
	More     int      // fields that have changed as well
	By       []string // field managers, may be empty
	Note     string   // why there are no Fields, may be empty
}
