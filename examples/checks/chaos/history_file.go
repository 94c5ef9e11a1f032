package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The types of lines that only a history has, beside ADDED, MODIFIED, DELETED and END.
const (
	lineHistory  = "HISTORY"  // it begins: what exists at the version follows, then each later change
	lineRestored = "RESTORED" // etcd was restored from a copy, which had nothing after the version
	lineFault    = "FAULT"
)

// historyLine is a line of a history. In a change without a time, it is not known when it was committed.
type historyLine struct {
	Type            string            `json:"type"`
	Resource        string            `json:"resource,omitempty"`
	Namespace       string            `json:"namespace,omitempty"`
	Name            string            `json:"name,omitempty"`
	UID             types.UID         `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Time            time.Time         `json:"time,omitzero"`
	Labels          map[string]string `json:"labels,omitempty"`
	From            time.Time         `json:"from,omitzero"` // of a FAULT
	To              time.Time         `json:"to,omitzero"`
}

// changeLine returns the line of a change.
func changeLine(c change) historyLine {
	return historyLine{
		Type: string(c.Kind), Resource: c.Resource, Namespace: c.Namespace, Name: c.Name, UID: c.UID,
		ResourceVersion: fmt.Sprint(c.Revision), Time: c.At, Labels: c.Labels,
	}
}

// writeHistory writes what happened in a run, and says that nothing happened before and after it.
func writeHistory(w io.Writer, h *history, faults []fault) error {
	out := json.NewEncoder(w)
	var errs []error
	epoch := 0
	for _, c := range h.changes {
		for ; epoch < c.Epoch; epoch++ {
			errs = append(errs, out.Encode(restoredLine(h.epochs[epoch+1])))
		}
		errs = append(errs, out.Encode(changeLine(c)))
	}
	for _, e := range h.epochs[epoch+1:] {
		errs = append(errs, out.Encode(restoredLine(e)))
	}
	for _, f := range faults {
		errs = append(errs, out.Encode(historyLine{Type: lineFault, Name: f.Name, From: f.From, To: f.To}))
	}
	return errors.Join(append(errs, out.Encode(historyLine{Type: lineEnd}))...)
}

func restoredLine(e epoch) historyLine {
	return historyLine{Type: lineRestored, ResourceVersion: fmt.Sprint(e.After), Time: e.At}
}

// span is what a history knows: all changes from after one version up to another, and what existed at the first.
type span struct{ from, to int64 }

// everything is the span of a history that knows all.
var everything = span{0, math.MaxInt64}

func (s span) has(revision int64) bool { return s.from < revision && revision <= s.to }

// historyReader makes a history of lines.
type historyReader struct {
	changes    []change
	epochs     []epoch
	faults     []fault
	span       span
	ended      bool
	unreadable int
	problem    string
}

func newHistoryReader() *historyReader { return &historyReader{epochs: []epoch{{}}} }

// read reads a line with a number.
func (r *historyReader) read(number int, text []byte) error {
	var one historyLine
	err := json.Unmarshal(text, &one)
	if err == nil {
		err = r.take(one)
	}
	if err != nil {
		r.refuse(number, text, err)
	}
	return nil
}

func (r *historyReader) refuse(number int, text []byte, err error) {
	if r.unreadable++; r.unreadable == 1 {
		r.problem = fmt.Sprintf("line %d: invalid line %.120q: %v", number, text, err)
	}
}

func (r *historyReader) take(one historyLine) error {
	version := int64(0)
	if one.Type == lineFault {
		r.faults = append(r.faults, fault{Name: one.Name, From: one.From, To: one.To})
		return nil
	}
	if one.ResourceVersion != "" || one.Type != lineEnd {
		if !isVersion(one.ResourceVersion) {
			return fmt.Errorf("invalid resourceVersion %.80q: must be a revision of etcd", one.ResourceVersion)
		}
		version = revision(one.ResourceVersion)
	}
	switch Kind(one.Type) {
	case lineHistory:
		r.span.from = version
	case lineRestored:
		if one.Time.IsZero() {
			return errors.New("a RESTORED must have a time")
		}
		r.epochs = append(r.epochs, epoch{After: version, At: one.Time})
		r.span.to = version
	case lineEnd:
		if r.ended, r.span.to = true, version; one.ResourceVersion == "" {
			r.span.to = math.MaxInt64
		}
	case added, modified, deleted:
		if one.Resource == "" || one.UID == "" {
			return errors.New("a change must have resource and uid")
		}
		name, err := resourceNamed(one.Resource)
		if err != nil {
			return err
		}
		r.changes = append(r.changes, change{
			Epoch: len(r.epochs) - 1, Revision: version, At: one.Time, Kind: Kind(one.Type), Resource: name,
			Namespace: one.Namespace, Name: one.Name, UID: one.UID, Labels: one.Labels,
		})
		r.span.to = max(r.span.to, version)
	default:
		return fmt.Errorf("its type %.40q is unknown", one.Type)
	}
	return nil
}

// finish returns the history of all lines.
func (r *historyReader) finish() (*history, error) {
	if r.unreadable > 0 {
		return nil, fmt.Errorf("%d lines can't be read, and it must be complete: %s", r.unreadable, r.problem)
	}
	if len(r.changes) == 0 {
		return nil, errors.New("it has no change: must be what chaos history writes, or history.jsonl of -record")
	}
	return newHistory(r.changes, slices.Clip(r.epochs)), nil
}
