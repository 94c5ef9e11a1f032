// Package follow watches the resources that a [Selection] matches, as they come and go, each as a source of a Mux. A
// Selection matches by name, by group ("*.example.com") or by category, and with Custom only what
// CustomResourceDefinitions define. [New] makes the Mux, and gvrwatch.Connection calls it:
//
//	c, err := gvrwatch.Connect(nil) // what kubectl would use
//	m, err := c.Follow(follow.Selection{Resources: []string{"*.example.com"}}, nil)
//	for ev, err := range m.Events(ctx) { // ev.Resource says of which resource it is
//
// What may not be watched causes no event and no error: Options.StatusChanged and [Mux.Status] say so. Nor does a
// server that does not answer: [Status].Discovery says so, and discovery.Resolver.Changes reports when that begins and
// ends.
//
// Each resource is one source, with the key "widgets.example.com", whatever its version. The sequence of a resource
// goes on, without repeating an event or losing a deletion, when
//
//   - it is deleted and served again ([Gone], then another incarnation), after any time: GAP, the differences, SYNCED,
//   - it is served in another version: nothing that was delivered is delivered again,
//   - the rights to watch it change ([Forbidden]): it is watched across the cluster if that is allowed, else in each
//     namespace where that is allowed.
//
// # Several clusters
//
// With [Options].Into and Prefix, the resources of several clusters are sources of one mux.Mux, in one loop:
//
//	all, err := mux.New(nil)
//	_, err = europe.Follow(selection, &follow.Options{Into: all, Prefix: "eu"}) // a gvrwatch.Connection
//	_, err = america.Follow(selection, &follow.Options{Into: all, Prefix: "us"})
//	for ev, err := range all.Events(ctx) { // mux.PrefixOf(ev) says of which cluster, ev.Resource of which resource
//
// Sources of all clusters take turns, and share one bound on what waits and one on snapshots that are read at once. A
// cluster can be added during a run, and all.Remove("us") removes one. Each Mux that [New] returns has the Status of
// its own cluster.
//
// For package condition, a target is the object of that name in each cluster that serves it: the condition has to be
// met wherever the object exists, and a cluster that has not answered yet is not waited for. The keys of package
// controller have no cluster: run one loop for each cluster, or a controller.Source whose requests have the prefix.
//
// # Promises
//
//   - A resource that has not been served for five minutes has no source and no goroutine any more, once all its events
//     have been delivered.
//   - A resource is attached or detached within two seconds of the change, unless discovery lags behind.
//   - While rights are insufficient, all of them are checked at once after a refusal, and at most once a minute after
//     a right has turned out to have changed. A new namespace is checked at once, and five times in the minute after.
//     Otherwise at most five requests per second check, in turn, each resource across the cluster and each namespace
//     (without SelfSubjectRulesReview, each resource in each namespace). So a new right is noticed within a minute if
//     a turn takes up to 250 requests, and within 10 + n/5 seconds if it takes n, unless the server answers slowly.
//   - A watch that is refused although a review allows it is tried again after four seconds, and then less often,
//     down to once a minute, or once in a turn if that is longer. Of these refusals only the first one causes other
//     checks.
//   - A namespace that is added or removed affects its own watch only. When it is added, its objects are listed and
//     delivered, and SYNCED follows. When the watch moves between the cluster and single namespaces, the sequence
//     continues with GAP (stream.GapScope), the differences, and SYNCED. With stream.Run.FailOnGap that GAP is an
//     error.
//   - Objects in namespaces that are not watched are not reported as deleted, even if the namespace is deleted. When
//     the namespace is watched again, its objects are compared with what was delivered before.
//   - A resource that the server refuses, or that cannot be watched, does not affect the others: its [State] says so,
//     and it is retried. Errors that only the program can solve (a checkpoint of another cluster) go to
//     mux.Options.OnError.
//   - With stream.Run.Checkpoint each resource has its own checkpoint, under its group and resource.
//   - With Selection.Custom nothing is followed that no CustomResourceDefinition defines, unless Resources names it.
//     While the definitions can't be watched, their ResourceStatus says so, with the cause.
//   - With Options.Into, a cluster that does not answer, restarts, or denies everything does not affect the others.
//     Remove of a prefix ends all that belongs to it before it returns.
//
// # Not promised
//
// States between a GAP and the SYNCED after it are not delivered. A right that is taken away is noticed when the server
// refuses a watch; open watches go on. With a checkpoint, events not acked within five seconds are delivered again when
// the resource changes its version or its namespaces.
//
// # Errors
//
// [New] returns a [*stream.OptionsError] if the selection, Options.Mux or Options.Prefix is invalid. A run ends with
// the errors that end a run of a mux.Mux, and with one that wraps a *stream.PanicError if Options.StatusChanged panics.
package follow
