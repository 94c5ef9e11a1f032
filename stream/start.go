package stream

import "github.com/gvrwatch/gvrwatch/checkpoint"

// Start says where a range over Events begins. The zero Start is Snapshot.
type Start struct {
	kind     startKind
	version  string
	position checkpoint.Position
	snapshot bool // ... but with a snapshot in any case
}

type startKind int

const (
	startSnapshot startKind = iota
	startNow
	startAfter
	startFrom
)

// Snapshot begins with everything that exists, as ADDED, and SYNCED.
func Snapshot() Start { return Start{} }

// IsSnapshot says whether s is Snapshot, IsNow whether it is Now.
func (s Start) IsSnapshot() bool { return s.kind == startSnapshot }
func (s Start) IsNow() bool      { return s.kind == startNow }

// Now begins with SYNCED: what exists is read, so that its changes and its end
// can be told, but not told itself.
func Now() Start { return Start{kind: startNow} }

// After begins with SYNCED and what happened after a resourceVersion. Of objects
// that have not changed since then nothing is known: their MODIFIED and DELETED
// are told as the server tells them, and after a GAP (with HistoryLost) their end
// is not; nor is that of one that leaves Options.Select with its first change. From
// is the way to go on without that loss.
func After(resourceVersion string) Start { return Start{kind: startAfter, version: resourceVersion} }

// From goes on where p was taken (Stream.Position): with what happened after it,
// or if the server no longer knows that, with GAP and the differences. A position
// from within a snapshot goes on with the rest of the snapshot; without an index that
// is a GAP (GapRestarted), and everything once more.
func From(p checkpoint.Position) Start { return Start{kind: startFrom, position: p} }

// OnExpired says what becomes of a gap: what happened since a resourceVersion
// can't be told, because the server no longer knows it, has gone back in time, or
// sends what can't be read.
type OnExpired string

const (
	// Heal tells GAP, the differences, and SYNCED. It is the default.
	Heal OnExpired = "heal"
	// Fail ends the sequence with a *GapError.
	Fail OnExpired = "fail"
)

// End says when a sequence ends by itself, without an error.
type End string

const (
	// Never is the default: it takes ctx, Stop, a break, or a final error.
	Never End = "never"
	// AtFirstClose ends it when the server ends a watch (the first of several) that
	// had told SYNCED. If the server does so with an error, that is yielded; but a
	// 410 is a gap (OnExpired), and not the end.
	AtFirstClose End = "at first close"
	// WhenSynced ends it after the first SYNCED.
	WhenSynced End = "when synced"
)

// Index says what is kept of the objects that were told.
type Index string

const (
	// IndexObjects keeps name, uid and resourceVersion of each, some 70 bytes, so
	// that after a gap only the differences are told, deletions among them. It is
	// the default.
	IndexObjects Index = "objects"
	// IndexNone keeps nothing. After a GAP (with HistoryLost) everything that exists
	// is told again as ADDED, and what is gone is not told. Replays are recognised by
	// their resourceVersions alone, so that initial events which the server repeats
	// are told twice.
	IndexNone Index = "none"
)

// InitialList says how a snapshot is read.
type InitialList string

const (
	// ListStreamed asks for the snapshot as the initial events of the watch (a
	// streaming list, KEP-3157), which costs the server far less memory. A server
	// that turns out not to have them is asked for pages from then on. It is the
	// default. The snapshot after a gap is always read in pages, unless lists are
	// refused.
	ListStreamed InitialList = "streamed"
	// ListPaged asks for pages of Options.PageSize objects.
	ListPaged InitialList = "paged"
)
