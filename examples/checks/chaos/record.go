package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

// Kind is what a change or a report is about.
type Kind string

const (
	added    Kind = "ADDED"
	modified Kind = "MODIFIED"
	deleted  Kind = "DELETED"
	synced   Kind = "SYNCED" // everything up to here has been reported
	gap      Kind = "GAP"    // something may not have been reported

	// committed is where the checkpoint of a client stands: at ResourceVersion.
	committed Kind = "POSITION"

	// contents is what a cache contains: see Has and Wrong.
	contents Kind = "CONTENTS"
)

// change is one change in etcd: the truth.
type change struct {
	Epoch     int       // counts how often etcd was restored from a copy
	Revision  int64     // of etcd, which is the resourceVersion
	At        time.Time // when the harness saw it, milliseconds after the commit
	Kind      Kind      // added, modified or deleted
	Resource  string    // "widgets.chaos.example.com"
	Namespace string    // empty for a cluster-scoped object
	Name      string
	UID       types.UID
	Labels    map[string]string // of the object; of the last state if it is deleted
	Reported  bool              // At is when somebody reported it: it can have been long before
}

// epoch is a part of the truth. Each begins when etcd is restored from a copy, which voids the changes of earlier
// epochs after the copy's revision. The first epoch begins at revision 0.
type epoch struct {
	After int64 // revision of the copy
	At    time.Time
}

// report is one thing that a client reported.
type report struct {
	At              time.Time
	Run             int // of the client, from 1
	Kind            Kind
	Resource        string
	Namespace       string // of the object; of the worker for SYNCED and GAP
	Worker          string // the namespace of the list or watch that reports; empty for the whole cluster
	Name            string
	UID             types.UID
	ResourceVersion string
	Inferred        bool                 // found by comparing lists
	Reason          string               // of a GAP
	From            string               // of a GAP: everything up to here has been reported, if it is known
	HistoryLost     bool                 // of a GAP
	Acked           bool                 // handled: in a later run it may be missing
	Has             map[types.UID]string // versions of all objects in a cache, whose representation is in Worker
	Wrong           string               // why these are not what the server answered
	Unversioned     bool                 // the last list had no version: etcd need not have had what the cache has
}

// The reasons of GAPs that clients do not know: anyReason can be GapUnordered. A program that gives none has lost
// nothing before its GAP, or it is to blame.
const (
	anyReason    = "any"
	reasonUnsaid = "not given"
)

// reusesVersions reports whether known states may be reported again after a GAP.
func (r report) reusesVersions() bool {
	return r.Reason == anyReason || r.Reason == reasonUnsaid || r.Reason == string(stream.GapRewound)
}

// mayLieBack reports whether changes may be missing from before the reports just before a GAP: events were reported
// while a list was due.
func (r report) mayLieBack() bool {
	return r.Reason == anyReason || r.Reason == string(stream.GapUnordered)
}

// fault is one fault that the harness caused.
type fault struct {
	Name     string // such as "reset" or "kill -9 of the API server"
	From, To time.Time
}

// recording is what one client reported, in order. It may be used from several goroutines.
type recording struct {
	mu      sync.Mutex
	reports []report
	errors  []string
	calm    chan struct{} // closed when nothing is to be broken any more
}

func newRecording() *recording { return &recording{calm: make(chan struct{})} }

// add returns the index of the report.
func (r *recording) add(one report) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, one)
	return len(r.reports) - 1
}

func (r *recording) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.reports)
}

// since returns the reports from an index on.
func (r *recording) since(i int) []report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reports[i:])
}

// ack marks a report as acked.
func (r *recording) ack(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports[i].Acked = true
}

const maxErrors = 1000 // that a recording keeps

// fail notes an error that a client returned to its caller, or a line that it wrote to its standard error.
func (r *recording) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errors) < maxErrors {
		r.errors = append(r.errors, fmt.Sprintf("%s %v", clock(time.Now()), err))
	}
}

func (r *recording) all() []report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reports)
}
