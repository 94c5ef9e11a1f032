package streamtest

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/stream"
)

var objectEvent = regexp.MustCompile(`^(\w+) (?:(\w+)/)?(\w+)\((\w*)\)@(\w*)( =-?\d+)?( inferred)?$`)

// eventOf reads an event as TextUID writes it: "ADDED a(u1)@5", "GAP expired 5..7".
// The content of an object is its version unless another is given, as in " =3".
func eventOf(t *testing.T, s string) stream.Event {
	t.Helper()
	s, ns, _ := strings.Cut(s, " in ")
	s, coalesced, _ := strings.Cut(s, " coalesced ")
	kind, rest, _ := strings.Cut(s, " ")
	ev := stream.Event{Type: stream.Type(kind), Namespace: ns}
	ev.Coalesced, _ = strconv.Atoi(coalesced)
	switch ev.Type {
	case stream.Synced, stream.Bookmark:
		ev.ResourceVersion = strings.TrimPrefix(rest, "@")
		return ev
	case stream.Gap:
		rest, ev.Gap = strings.TrimSuffix(rest, " history lost"), &stream.GapDetails{HistoryLost: strings.HasSuffix(rest, " history lost")}
		reason, versions, _ := strings.Cut(rest, " ")
		ev.Gap.Reason = stream.GapReason(reason)
		ev.Gap.From, ev.Gap.To, _ = strings.Cut(versions, "..")
		return ev
	}
	m := objectEvent.FindStringSubmatch(s)
	if m == nil {
		t.Fatalf("%q can't be read", s)
	}
	n, _ := strconv.ParseInt(m[5], 10, 64)
	if m[6] != "" {
		n, _ = strconv.ParseInt(m[6][2:], 10, 64)
	}
	ev.ResourceVersion, ev.Inferred = m[5], m[7] != ""
	if ev.Object = objectAt(m[2], m[3], m[4], m[5], n); ev.Inferred && ev.Type == stream.Deleted && m[6] == "" {
		ev.Object = identityAt(m[2], m[3], m[4], m[5])
	}
	return ev
}

func scriptLines(s string) []string {
	var all []string
	for _, line := range strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == ';' }) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

func eventsOf(t *testing.T, s string) []stream.Event {
	t.Helper()
	var all []stream.Event
	for _, line := range scriptLines(s) {
		all = append(all, eventOf(t, line))
	}
	return all
}

func known(name string, uid types.UID, rv string) KnownObject {
	return KnownObject{types.NamespacedName{Name: name}, uid, rv}
}

// began is when the histories of tests do. Changes follow by seconds.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// historyOf reads events without marks, and "rewind 5".
func historyOf(t *testing.T, s string) History {
	t.Helper()
	var h History
	for i, line := range scriptLines(s) {
		at := began.Add(time.Duration(i) * time.Second)
		if to, ok := strings.CutPrefix(line, "rewind "); ok {
			h.Rewinds = append(h.Rewinds, Rewind{To: to, At: at})
			continue
		}
		ev := eventOf(t, line)
		h.Changes = append(h.Changes, Change{Type: watch.EventType(ev.Type), Object: ev.Object,
			ResourceVersion: ev.ResourceVersion, Epoch: len(h.Rewinds), At: at})
	}
	return h
}

// promisesOf are those that err is about, each once.
func promisesOf(err error) []string {
	var all []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			all = append(all, promisesOf(err)...)
		}
	} else if v := (*Violation)(nil); errors.As(err, &v) {
		all = []string{v.Promise}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// onlyBroken checks that err is of that promise and of no other, or is nil.
func onlyBroken(t *testing.T, err error, want string) {
	t.Helper()
	if got := strings.Join(promisesOf(err), ", "); got != want {
		t.Errorf("got %q, want %q; err:\n%v", got, want, err)
	}
}

func contentAbove(n int64) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool {
		m, _, _ := unstructured.NestedInt64(u.Object, "spec", "n")
		return m > n
	}
}
