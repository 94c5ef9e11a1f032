// Package configmap keeps positions in one ConfigMap, for programs that run in a cluster and have no volume. Any number
// of keys share it. To begin, pass what [Open] returns to gvrwatch.Connection.Tracker.
//
// Each commit is one update of the ConfigMap with the positions of all keys, even if none has changed: the answer shows
// whether this process still owns the ConfigMap. So a Tracker should have an Interval of 10 s or more. The program
// needs the rights to get and update the ConfigMap, and to create it unless it exists. An existing ConfigMap may be
// empty, but must not be immutable. The server limits it to 1 MiB.
//
// A Stream that watches ConfigMaps and selects this one receives each commit as an event, acks it, and so causes the
// next commit: exclude the ConfigMap with a selector or stream.Options.Select.
//
// # Positions only
//
// The ConfigMap holds no objects. The next run resumes from the position and receives every later change, deletions
// among them, while the server still has that history. It knows only the objects that it has received itself:
//
//   - If the server no longer has the history, at the start or later in that run, the GAP has HistoryLost: existing
//     objects that have changed are reported as ADDED, and earlier deletions are not reported.
//   - If the last run ended within a snapshot, the next one begins with that GAP and the whole snapshot, including
//     objects whose events were acked.
//   - If an object's first change makes it stop matching stream.Options.Select, that is not reported as DELETED.
//
// While updates fail, nothing can be written at all, so that the ConfigMap can't be marked as Unclean either. Its
// positions are Partial anyway, and each GAP of the next run has HistoryLost. But if the first update of all under a
// key has not succeeded before a kill, the next run begins like the first one, without a GAP.
//
// A program that must not miss a deletion needs package file.
//
// # Ownership
//
// One process should own the ConfigMap at a time; use leader election. If another process opens it nevertheless, it
// becomes the owner: Open writes its claim into the ConfigMap, and each write carries the resourceVersion seen last, so
// that a late write of an earlier owner can't overwrite a later owner's. The earlier owner's next commit returns a
// [*checkpoint.FencedError]. So does a commit after the ConfigMap was deleted: only Open creates it.
//
// This depends on the server's optimistic locking, which client-go's fake dynamic client lacks.
//
// # Format
//
// Data has the keys "format", "owner", and for each checkpoint "checkpoint.KEY" with a JSON value. Labels, annotations
// and all other data are not touched. There is no checksum: etcd has its own, and a person may edit a position. Open
// and Load refuse what they can't read, and a ConfigMap of more than 4 MiB, which no server keeps. To delete a
// checkpoint by hand, remove "checkpoint.KEY" while no process has the ConfigMap open.
//
// The value of "format" is 2. Open refuses another number with a [*checkpoint.CorruptError] whose Older or Newer is
// set. No release wrote format 1.
package configmap
