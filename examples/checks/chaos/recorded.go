package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"

	recorded "github.com/gvrwatch/gvrwatch/internal/recording"
)

// The types of lines that only files have.
const (
	lineRun = "RUN" // a run of the tool begins, in what --record writes
	lineEnd = "END" // everything that happened before it has been reported
)

// fileTypes are the types of lines that are read. Others are ignored, as BOOKMARK.
var fileTypes = []string{
	string(added), string(modified), string(deleted), string(synced), string(gap),
	lineRun, lineEnd, lineClient, lineReady, linePosition,
}

// unknownTime is that of the reports of a file without times: any restore of etcd may have been before it.
var unknownTime = time.Unix(1<<40, 0)

// fileLine is a line of a recording: what a client writes, and what is known beside that.
type fileLine struct {
	clientLine                 // so that a line of a client is one of a file, to read and to write
	Time       string          `json:"time,omitempty"`
	Run        json.RawMessage `json:"run,omitempty"`   // a number, or the header of a RUN
	Acked      *bool           `json:"acked,omitempty"` // false: in a later run it may be missing
	Coalesced  int             `json:"coalesced,omitempty"`
	Rules      *fileRules      `json:"rules,omitempty"` // of a CLIENT
}

// fileRules are the claims that the judge makes for the clients that are built in.
type fileRules struct {
	Namespaces    []string `json:"namespaces,omitempty"`
	LabelSelector string   `json:"labelSelector,omitempty"`
	Coalesces     bool     `json:"coalesces,omitempty"`
	Chained       bool     `json:"chained,omitempty"`
	ByObject      *bool    `json:"byObject,omitempty"` // nil means the contrary of strict
	Limited       bool     `json:"limited,omitempty"`
}

// recordFile is what one file has of one client.
type recordFile struct {
	subject  subject
	reports  []report
	timed    bool      // lines have times
	ended    time.Time // of the last line
	complete bool      // END: everything before it is due
	cluster  string    // empty if it is not known
	counts   programCounts
}

// recordReader makes a record of lines.
type recordReader struct {
	lines  *lineReader
	rules  fileRules
	some   bool // there are lines of a recording
	header *recorded.Header
	again  restarted
	out    recordFile
}

func newRecordReader(name string) *recordReader {
	r := &recordReader{lines: newLineReader(nil)}
	r.out.subject.Name = name
	return r
}

// read reads a line with a number. The error says why the file can't be judged. A line that can't be read is counted.
func (r *recordReader) read(number int, text []byte) error {
	var one fileLine
	err := json.Unmarshal(text, &one)
	if err == nil {
		err = r.take(one)
	}
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("line %d: %w", number, refused.error)
	case err != nil:
		r.refuse(number, text, err)
	}
	return nil
}

// refuse counts a line that can't be read.
func (r *recordReader) refuse(number int, text []byte, err error) {
	if r.out.counts.Unreadable++; r.out.counts.Unreadable == 1 {
		r.out.counts.Problem = fmt.Sprintf("line %d: invalid line %.120q: %v", number, text, err)
	}
}

// refusal is why a file can't be judged.
type refusal struct{ error }

func refuse(format string, args ...any) error { return &refusal{fmt.Errorf(format, args...)} }

func (r *recordReader) take(one fileLine) error {
	at := r.out.ended
	if one.Time != "" {
		t, err := time.Parse(time.RFC3339Nano, one.Time)
		if err != nil {
			return fmt.Errorf("invalid time: %w", err)
		}
		if at = t; t.After(r.out.ended) {
			r.out.ended = t
		}
		r.out.timed = true
	}
	if !slices.Contains(fileTypes, one.Type) {
		return nil
	}
	r.some = true
	if r.header == nil && one.Run != nil && one.Type != lineRun {
		if err := json.Unmarshal(one.Run, &r.lines.run); err != nil {
			return fmt.Errorf("invalid run: %w", err)
		}
	}
	switch one.Type {
	case lineRun:
		return r.beginRun(one, at)
	case lineEnd:
		r.out.complete = true
	case lineClient:
		if r.rules = (fileRules{}); one.Rules != nil {
			r.rules = *one.Rules
		}
	case lineReady:
		r.out.reports = append(r.out.reports, report{At: at, Run: r.lines.run, Kind: lineReady, Acked: true})
	case string(added), string(modified), string(deleted), string(synced), string(gap), linePosition:
		if err := checkVersions(one.clientLine); err != nil {
			return err
		}
	}
	r.out.subject.Coalesces = r.out.subject.Coalesces || one.Coalesced > 0
	everything := one.Resource == "" && !isEvent(one.clientLine)
	if everything {
		one.Resource = "all" // to be replaced when the resources of the file are known
	}
	reports, err := r.lines.reportsOf(one.clientLine, at)
	if err != nil {
		return err
	}
	for _, report := range reports {
		if everything {
			report.Resource = ""
		}
		report.Acked = one.Acked == nil || *one.Acked
		r.out.reports = append(r.out.reports, r.again.before(report)...)
		r.out.reports = append(r.out.reports, report)
	}
	return nil
}

func isEvent(one clientLine) bool {
	return one.Type == string(added) || one.Type == string(modified) || one.Type == string(deleted)
}

// checkVersions refuses versions that have no order that the judge knows.
func checkVersions(one clientLine) error {
	versions := []string{one.ResourceVersion}
	if one.Gap != nil {
		versions = append(versions, one.Gap.From)
	}
	version := one.ResourceVersion
	if one.Object != nil {
		version = one.Object.Metadata.ResourceVersion
		versions = append(versions, version)
	}
	for _, v := range versions {
		if v != "" && !isVersion(v) {
			return refuse("invalid resourceVersion %.80q: must be a number below 2^63, as the versions of etcd are: "+
				"recordings of such a server can't be judged", v)
		}
	}
	named := one.UID != "" || one.Object != nil && one.Object.Metadata.UID != ""
	if named && version == "" && (one.Type == string(added) || one.Type == string(modified)) {
		return refuse("%s without a resourceVersion: recordings of a server without versions can't be judged", one.Type)
	}
	return nil
}

func isVersion(text string) bool {
	n, err := strconv.ParseUint(text, 10, 64)
	return err == nil && n <= math.MaxInt64
}

// beginRun begins a run of the tool. What exists is reported again unless the run resumes, and what is not is gone.
func (r *recordReader) beginRun(one fileLine, at time.Time) error {
	var h recorded.Header
	if err := json.Unmarshal(one.Run, &h); err != nil {
		return err
	}
	s := h.Selection
	switch first := r.header == nil; {
	case h.Start == recorded.Later:
		return refuse("it was recorded without a snapshot (--watch-only, --resource-version): nothing is known of " +
			"what existed, so it can't be judged")
	case s.FieldSelector != "":
		return refuse("it was recorded with --field-selector: nothing is known of the fields, so it can't be judged")
	case selectsNames(s.Types):
		return refuse("it was recorded with names of objects (%q): it can't be judged", s.Types)
	case !first && !reflect.DeepEqual(r.header.Selection, s):
		return refuse("its runs select differently: record each selection into a file of its own")
	case first:
		if r.rules.LabelSelector = s.LabelSelector; len(s.Namespaces) > 0 {
			r.rules.Namespaces = append(s.Namespaces, "")
		}
		r.lines.client.Version, r.lines.client.Strict = h.Program, true
		r.lines.run = 0
	}
	r.lines.run++
	r.out.cluster = h.Cluster // the tool appends no run of another one
	if r.header != nil && h.Start == recorded.Snapshot {
		r.out.reports = append(r.out.reports, report{
			At: at, Run: r.lines.run, Kind: gap, Reason: "nobody recorded", HistoryLost: true, Acked: true,
		})
		r.again.begin(r.out.reports)
	}
	r.lines.client.Resumes = r.lines.client.Resumes || h.Start == recorded.Resumed
	r.header = &h
	return nil
}

// finish returns the record of all lines.
func (r *recordReader) finish() (*recordFile, error) {
	if !r.some {
		return nil, errors.New("no line is of a recording: must have lines of docs/judge.md such as " +
			`{"type": "ADDED", "object": …}, or be what gvrwatch watch writes with --record FILE ` +
			"or -o json --output-watch-events --timestamps")
	}
	says := r.lines.client
	s := &r.out.subject
	s.Name, s.Ours, s.ByObject = cmp.Or(says.Name, s.Name), says.Strict, !says.Strict
	r.out.counts.Version = says.Version
	if r.rules.ByObject != nil {
		s.ByObject = *r.rules.ByObject
	}
	s.Checkpoint, s.Chained, s.Limited = says.Resumes, r.rules.Chained, r.rules.Limited
	s.Coalesces = s.Coalesces || r.rules.Coalesces
	s.Scope = scope{Resources: says.Resources, Namespaces: r.rules.Namespaces}
	if r.rules.LabelSelector != "" {
		var err error
		if s.Scope.Selects, err = k8slabels.Parse(r.rules.LabelSelector); err != nil {
			return nil, fmt.Errorf("invalid labelSelector: %w", err)
		}
	}
	r.out.reports = spread(r.out.reports, s.Scope.Resources)
	if len(s.Scope.Resources) == 0 {
		s.Scope.Resources = resourcesOf(r.out.reports)
	}
	r.setTimes()
	return &r.out, nil
}

// setTimes gives reports from before the first time that time, or all reports one that says nothing.
func (r *recordReader) setTimes() {
	first := unknownTime
	for _, one := range r.out.reports {
		if !one.At.IsZero() {
			first = one.At
			break
		}
	}
	for i := range r.out.reports {
		if r.out.reports[i].At.IsZero() {
			r.out.reports[i].At = first
		}
	}
}

// spread replaces the reports about all resources by one for each.
func spread(reports []report, resources []string) (all []report) {
	if len(resources) == 0 {
		resources = resourcesOf(reports)
	}
	isSynced := map[string]bool{}
	for _, r := range reports {
		of := []string{r.Resource}
		if r.Resource == "" {
			of = resources
		}
		ready := r.Kind == lineReady
		for _, r.Resource = range of {
			if r.Kind = cmp.Or(map[bool]Kind{true: synced}[ready], r.Kind); r.Kind == synced {
				if ready && isSynced[r.Resource] {
					continue
				}
				isSynced[r.Resource] = true
			}
			all = append(all, r)
		}
	}
	return all
}

// resourcesOf returns the resources that reports are about, sorted.
func resourcesOf(reports []report) (resources []string) {
	for _, r := range reports {
		if r.Resource != "" {
			resources = append(resources, r.Resource)
		}
	}
	slices.Sort(resources)
	return slices.Compact(resources)
}
