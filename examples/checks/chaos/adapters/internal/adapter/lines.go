package adapter

import (
	"encoding/json"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Lines writes the lines that the judge reads, each with one call of Write. Its methods may be called from any
// goroutine. They panic if a line can't be written.
type Lines struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

// line is one of them.
type line struct {
	Type            string    `json:"type"`
	Name            string    `json:"name,omitempty"` // of an object or, in CLIENT, of the client
	Version         string    `json:"version,omitempty"`
	Strict          bool      `json:"strict,omitempty"`
	Resource        string    `json:"resource,omitempty"`
	Namespace       string    `json:"namespace,omitempty"`
	UID             types.UID `json:"uid,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	Inferred        bool      `json:"inferred,omitempty"`
	Gap             *Gap      `json:"gap,omitempty"`
	Message         string    `json:"message,omitempty"`
}

// Gap is what a client knows of a GAP, in the words of stream.GapDetails. It excuses less than a GAP of which nothing
// is known.
type Gap struct {
	Reason      string `json:"reason"`
	From        string `json:"from,omitempty"`
	HistoryLost bool   `json:"historyLost,omitempty"`
}

// NewLines returns Lines that are written to w.
func NewLines(w io.Writer) *Lines { return &Lines{encoder: json.NewEncoder(w)} }

func (l *Lines) write(one line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.encoder.Encode(one); err != nil {
		panic(err)
	}
}

// Object says that an object was added, modified or deleted. Inferred means that the client found it out by comparing
// what it knew with a list.
func (l *Lines) Object(what watch.EventType, r schema.GroupVersionResource, o metav1.Object, inferred bool) {
	l.write(line{
		Type: string(what), Resource: r.GroupResource().String(), Namespace: o.GetNamespace(), Name: o.GetName(),
		UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Inferred: inferred,
	})
}

// Synced says that what existed at this version has been reported. The version may be empty: then it is not known
// exactly.
func (l *Lines) Synced(r schema.GroupVersionResource, version string) {
	l.write(line{Type: "SYNCED", Resource: r.GroupResource().String(), ResourceVersion: version})
}

// Gap says that changes may be missing from here to the next SYNCED.
func (l *Lines) Gap(r schema.GroupVersionResource, g Gap) {
	l.write(line{Type: "GAP", Resource: r.GroupResource().String(), Gap: &g})
}

// Error says that something failed.
func (l *Lines) Error(err error) { l.write(line{Type: "ERROR", Message: err.Error()}) }

func (l *Lines) client(c Client, version string) {
	l.write(line{Type: "CLIENT", Name: c.Name, Version: version, Strict: c.Strict})
}
