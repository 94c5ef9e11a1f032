// Package informer offers a Stream in the shapes of client-go: a watch.Interface ([Watch]), a cache.ListerWatcher
// ([NewListerWatcher]) and a SharedIndexInformer ([NewSharedIndexInformer]). Package factory, below this one, has a
// factory of dynamic informers. Handlers, indexers, listers and reflectors are client-go's own.
//
// It also has informers that keep their objects packed, in a fraction of the memory: [NewCompact] on any ListerWatcher,
// as the cache of controller-runtime makes them, and the option [Compact] for those on a Stream.
//
// # Promises of informers
//
// These are informers of [NewSharedIndexInformer] and of package factory:
//
//   - An expired version causes no relist. The Stream reads a snapshot, and only the differences from what was
//     delivered before arrive, as ADDED, MODIFIED and DELETED.
//   - Each object that handlers have received is deleted exactly once. OnDelete of an object that went away during a
//     gap receives the last state that the informer delivered.
//   - An object that was deleted and recreated under the same name arrives as OnDelete of the old uid, then OnAdd of
//     the new one. It is never an OnUpdate with another uid.
//   - If a type goes away, OnDelete is called for each object whose deletion the server reports. The Stream waits, and
//     when the type returns, OnDelete is called for the rest, and OnAdd for its objects. The informer does not end, and
//     no error handler is called.
//   - The transform is called once for each object that arrives, for one object at a time, and not for inferred
//     deletions. While a list is read, each of its objects is transformed as it arrives, so that only a few whole
//     objects are in memory. If the transform fails for one of them, nothing of the list is stored.
//
// # Promises of compact informers
//
//   - What is read from the store is equal to what the source delivered, after the transform, by
//     equality.Semantic.DeepEqual of k8s.io/apimachinery, and has its type.
//   - Whoever changes what was read, or what a handler received, changes it for nobody who reads the store, nor the old
//     object of the next update.
//   - Handlers, indexers, resync, lists and watches are client-go's, and are called as in its informer. A transform
//     never receives a packed object, and is called once for each object; client-go gives it an object that cannot be
//     packed again if a streamed list had it, as without packing. Of a list in pages it has seen what it has seen, also
//     if a later page fails, or the run ends meanwhile.
//
// # Promises of watches and informers
//
//   - The Stream waits for a slow receiver of a watch. (client-go's informers queue without bound for slow handlers.)
//   - A run ends with its context. [Watcher.Done] is closed, and Run of an informer returns, when the run has ended.
//
// # Not promised
//
//   - Every state of an object across a gap: only the last one is delivered.
//   - The promises of informers for client-go's own informer or reflector on a [ListerWatcher]: after a run that ended,
//     it lists again, and a recreated object is an update.
//   - The version of a deletion that was found by comparing: the object has the last version known.
//   - A LastSyncResourceVersion that only grows: after a gap it moves with the differences, until the bookmark that
//     follows them. With several namespaces it is the version of the last event.
//   - A call of the WatchErrorHandler for each failed request. The Stream retries most failures itself, and
//     Status, Options.Trace and Options.Logger report them. The handler receives what makes a list fail. If a run ends
//     after its list, by GiveUpAfter or by Stop of the Stream, client-go at most logs that, and lists again.
//   - cache.DeletedFinalStateUnknown where client-go would use it. It occurs only when a run has ended with an error
//     and the next one no longer finds the object.
//
// # Errors
//
// Functions return a [*stream.OptionsError] for an invalid argument or option. List and Watch return the error that
// ends the run (see stream.Stream.Events), [stream.ErrBusy] if the Stream has another run, and a BadRequest or Expired
// error of k8s.io/apimachinery/pkg/api/errors. A run that fails later ends its watch with an ERROR event, whose object
// is a Status: of the server's answer if there is one, 410 Expired after a loss of history, else 500.
package informer
