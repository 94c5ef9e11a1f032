// Package follow watches the resources that a [Selection] matches, as they come and go, each as a source of a Mux. A
// Selection matches by name, by group ("*.example.com") or by category.
//
// Each resource is one source, with the key "widgets.example.com", whatever its version. The sequence of a resource
// goes on, without repeating an event or losing a deletion, when
//
//   - it is deleted and served again ([Gone], then another incarnation): GAP, the differences, SYNCED,
//   - it is served in another version: nothing that was delivered is delivered again,
//   - the rights to watch it change ([Forbidden]): it is watched across the cluster if that is allowed, else in each
//     namespace where that is allowed.
//
// # Promises
//
//   - A resource is attached or detached within two seconds of the change, unless discovery lags behind.
//   - Rights are checked every five seconds while they are insufficient, so new rights and new namespaces are noticed
//     within 15 seconds. Checks that take more than half a second in all (many namespaces, a server without
//     SelfSubjectRulesReview) are repeated less often.
//   - A namespace that is added or removed affects its own watch only. When it is added, its objects are listed and
//     delivered, and SYNCED follows. When the watch moves between the cluster and single namespaces, the sequence
//     continues with GAP (stream.GapScope), the differences, and SYNCED. With stream.Options.FailOnGap that GAP is an
//     error.
//   - Objects in namespaces that are not watched are not reported as deleted, even if the namespace is deleted. When
//     the namespace is watched again, its objects are compared with what was delivered before.
//   - A resource that the server refuses does not affect the others: its [State] says so, and it is retried. Errors
//     that only the program can solve (a checkpoint of another cluster) go to mux.Options.OnError.
//   - With stream.Options.Checkpoint each resource has its own checkpoint, under its group and resource.
//
// # Not promised
//
// States between a GAP and the SYNCED after it are not delivered. A right that is taken away is noticed when the server
// refuses a watch; open watches go on. With a checkpoint, events not acked within five seconds are delivered again when
// the resource changes its version or its namespaces.
//
// # Errors
//
// [New] returns an [*OptionsError] if the selection is invalid, or a *mux.OptionsError if Options.Mux is. A run ends
// with the errors that end a run of a mux.Mux, and with one that wraps a *mux.PanicError if Options.StatusChanged
// panics.
package follow
