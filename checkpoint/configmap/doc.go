// Package configmap keeps checkpoints in one ConfigMap, for programs that run in a
// cluster and have no volume. Any number of keys share it.
//
// Every commit rewrites the whole ConfigMap, so that a Tracker over it should have
// an Interval of 10 s or more, and NoWriteAhead (checkpoint.Options). It needs the
// rights to get and update that ConfigMap, and to create one unless it is there: an
// empty one will do. It must not be immutable. Labels, annotations and data of
// others are kept.
//
// A stream that watches ConfigMaps and sees this one is told of every commit, acks
// that, and so brings about the next: leave it out with stream.Options.Select, or by
// a selector.
//
// # What fits
//
// The position of every key is always kept, and with it the index of its objects
// (name, uid, resourceVersion) while it fits: a ConfigMap holds 1 MiB, which are
// some 40,000 objects of all keys together. If the indexes don't fit together, the
// biggest ones are left out (Store.LeftOut, Options.MaxBytes), until they fit
// again. What that loses shows in the next run only: it goes on from the position,
// but if the server no longer knows what happened since then, it can't tell what was
// deleted. The sequence says so: GAP with HistoryLost.
//
// # Who owns it
//
// One process should own a ConfigMap at a time; use leader election. If another one
// opens it all the same, that one has it: the claim is written into the ConfigMap,
// every write bears the resourceVersion that was seen last, and so nothing that an
// earlier owner still has under way can overwrite a later owner's, not even its
// claim. The earlier owner's next commit returns a *checkpoint.FencedError. So it does
// if the ConfigMap was deleted, which is never created again by who has it open.
//
// This rests on the server's optimistic locking, which client-go's fake dynamic client
// lacks.
//
// # The layout
//
// Data holds "format", "owner", and for each key "checkpoint.KEY", which is JSON;
// binaryData holds "index.KEY". Both of a key are under one checksum. To forget a
// key by hand, remove both while no process has the ConfigMap open.
package configmap
