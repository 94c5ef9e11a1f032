package servers

import (
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/door"
)

// Personality is how a server breaks the rules. The zero Personality breaks none. It is for one server: a hook may
// remember what it has done. Hooks are called from several goroutines.
type Personality struct {
	Name string
	// Ask changes the query of a list or a watch before the server behind sees it.
	Ask func(url.Values)
	// Answer answers a request instead of the server behind, unless it returns false.
	Answer func(w http.ResponseWriter, r *http.Request, behind http.Handler) bool
	// Object changes the metadata of an object, in a list and in a watch.
	Object func(metadata map[string]any)
	// List changes a list. If it returns an error, the answer is a 500 with that text instead.
	List func(*List) error
	// Watch returns what decides about each frame of a watch that begins. It may change the frame.
	Watch func(*List) func(*Frame) Verdict
	// Rate is how many bytes a second the server sends in each answer. 0 means no limit.
	Rate int
}

// List is the answer to a list, or a watch that begins.
type List struct {
	Query url.Values
	Body  map[string]any // nil for a watch
	// Everything reads all objects of the answer from the server behind: those of a list at its version, those of a
	// watch now.
	Everything func() []map[string]any
}

// Metadata returns that of the list.
func (l *List) Metadata() map[string]any { return metadataOf(l.Body) }

// Frame is a frame of a watch.
type Frame struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
	// Open is how long the watch has been open.
	Open time.Duration `json:"-"`
}

// Verdict says what becomes of a frame.
type Verdict int

const (
	Send Verdict = iota
	Drop
	Expire // in its place comes the error that the version of the watch has expired, and the watch ends
)

// Before returns a server with this personality. What it does not answer itself, the server behind answers.
func (p Personality) Before(behind http.Handler) http.Handler { return &front{p, behind} }

// Config configures clients of a server with this personality, in this process and without a network.
func (p Personality) Config(behind http.Handler) *rest.Config {
	return &rest.Config{Host: "http://servers", Transport: door.Transport{Handler: p.Before(behind)}, QPS: -1}
}
