package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// violation is one broken rule, with what one needs to understand it.
type violation struct {
	Client, Text string
	Context      string // the truth about the object, the reports and the faults around it
}

// perKind is how many violations of each kind a verdict describes. It counts all.
const perKind = 5

// violate counts a violation by the report with index i.
func (j *judgement) violate(count *int, i int, uid types.UID, format string, args ...any) {
	j.miss(count, i, uid, "%s: "+format, append([]any{j.reports[i]}, args...)...)
}

// miss counts a violation by what was not reported, at the latest with the report with index i.
func (j *judgement) miss(count *int, i int, uid types.UID, format string, args ...any) {
	if *count++; *count <= perKind {
		v := &j.verdict.details.violations
		*v = append(*v, around(j, i, uid, fmt.Sprintf(format, args...)))
	}
}

// around returns a violation with what happened near the report with index i.
func around(j *judgement, i int, uid types.UID, text string) violation {
	var b strings.Builder
	around := time.Time{}
	if i >= 0 && i < len(j.reports) {
		around = j.reports[i].At
	}
	var wrong []*fact
	for _, k := range j.view.cells(j.resource) {
		for _, f := range j.view.facts[k] {
			if uid != "" && f.UID == uid {
				wrong = append(wrong, f)
			}
		}
	}
	for _, f := range last(wrong, 6) {
		fmt.Fprintf(&b, "    truth:  %s %s\n", clock(f.At), f.change)
	}
	for n, r := range j.reports {
		near := n >= i-6 && n <= i+3
		about := r.UID == uid && uid != "" || r.Kind == synced || r.Kind == gap || r.Kind == committed
		if near || about && n >= i-60 && n <= i+60 {
			mark := " "
			if n == i {
				mark = ">"
			}
			fmt.Fprintf(&b, "    report:%s%s %s\n", mark, clock(r.At), r)
		}
	}
	for _, f := range j.faults {
		if f.From.Before(around.Add(5*time.Second)) && f.To.After(around.Add(-15*time.Second)) {
			fmt.Fprintf(&b, "    fault:  %s to %s %s\n", clock(f.From), clock(f.To), f.Name)
		}
	}
	return violation{j.subject.Name, text, b.String()}
}

func last[T any](s []T, n int) []T { return s[max(0, len(s)-n):] }

func clock(t time.Time) string { return t.Format("15:04:05.000") }

func (c change) String() string {
	labels := ""
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		labels += " " + k + "=" + c.Labels[k]
	}
	epoch := ""
	if c.Epoch > 0 {
		epoch = fmt.Sprintf(" in epoch %d", c.Epoch)
	}
	return fmt.Sprintf("%d %s %s %s/%s %s%s%s",
		c.Revision, c.Kind, c.Resource, c.Namespace, c.Name, c.UID, labels, epoch)
}

func (r report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %d %s %s", r.Run, r.Kind, r.Resource)
	if r.UID != "" {
		fmt.Fprintf(&b, " %s/%s %s", r.Namespace, r.Name, r.UID)
	} else if r.Namespace != "" {
		fmt.Fprintf(&b, " in %s", r.Namespace)
	}
	if r.ResourceVersion != "" {
		fmt.Fprintf(&b, " at %s", r.ResourceVersion)
	}
	for text, set := range map[string]bool{
		" inferred": r.Inferred, " history lost": r.HistoryLost, " (" + r.Reason + ")": r.Reason != "",
	} {
		if set {
			b.WriteString(text)
		}
	}
	if r.Kind == contents {
		b.WriteString(" " + r.Worker)
	}
	if !r.Acked {
		b.WriteString(" not acked")
	}
	return b.String()
}
