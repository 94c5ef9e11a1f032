// Package configmap keeps positions in one ConfigMap, for programs that run in a cluster and have no volume. Any number
// of keys share it.
//
// Every commit is one update of the ConfigMap with the positions of all keys, even if none of them has changed: the
// answer says whether this process still owns it. A Tracker over it should have an Interval of 10 s or more. The
// program needs the rights to get and update that ConfigMap, and to create it unless it exists; an empty one will do.
// It must not be immutable. The server refuses more than 1 MiB in it.
//
// A stream that watches ConfigMaps and sees this one receives every commit as an event, acks it, and so causes the next
// commit: leave it out with stream.Options.Select, or by a selector.
//
// # Positions only
//
// The ConfigMap holds no objects (Store.PositionsOnly). The next run continues from the position and receives every
// change since then, deletions among them, while the server still has that history. It knows no object but those that
// it has received itself:
//
//   - When the server no longer has the history, at the start or later in that run, the GAP has HistoryLost: what
//     exists and has changed is reported as ADDED, and what was removed in between is not reported.
//   - If the last run ended within a snapshot, the next one begins with that GAP and the whole snapshot, objects whose
//     events were acked among them.
//   - An object that leaves stream.Options.Select with its first change is not reported as DELETED.
//
// A program that must not miss a removal needs package file.
//
// # Who owns it
//
// One process should own a ConfigMap at a time; use leader election. If another process opens it all the same, that one
// owns it from then on: Open writes its claim into the ConfigMap, and every write bears the resourceVersion seen last.
// So no write that an earlier owner still has under way can overwrite what a later owner has written. The earlier
// owner's next commit returns a *checkpoint.FencedError. So does a commit after the ConfigMap was deleted: only Open
// creates it.
//
// This rests on the server's optimistic locking, which client-go's fake dynamic client lacks.
//
// # The layout
//
// Data holds "format", "owner", and for each key "checkpoint.KEY", which is JSON. Labels, annotations and all other
// data are somebody else's and are kept. There is no checksum: etcd has its own, and a person may edit a position. What
// can't be read is refused, not guessed at. To forget a key by hand, remove "checkpoint.KEY" while no process has the
// ConfigMap open.
package configmap
