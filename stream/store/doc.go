// Package store keeps the objects of one resource in memory, as an informer does, in a fraction of its space. It finds
// them by name, by label and by index, delivers their changes to any number of subscribers, and waits until it has what
// the caller has just written.
//
//	c, err := gvrwatch.Connect(nil) // what kubectl would use
//	s, err := c.Stream(ctx, "pods", &stream.Options{Objects: stream.Raw})
//	pods, err := store.New(s, nil)
//	go pods.Run(ctx)           // WaitSynced and WaitFor return its error, Subscribe does not
//	err = pods.WaitSynced(ctx) // until it has all that exists
//	o, ok := pods.Get("default", "web-0")
//	pod, err := store.As[corev1.Pod](o)
//
// A [Store] keeps each object as JSON, and decodes it when it is asked: [Object]. A Stream with [stream.Raw] delivers
// that JSON, which is fastest. With [stream.Full] or [stream.Metadata] the object is encoded, after Transform. The
// selectors, Select and Transform of the Stream apply as they are.
//
// # What readers see
//
//   - A reader never waits for the writer or for other readers. Each call sees one state of the Store, and a loop over
//     [Store.List] keeps the state that it began with.
//   - Each state is one that the server had at some version. If several namespaces are watched, that holds for each of
//     them. After a GAP, and at the beginning of a run, the Store keeps the state from before while the snapshot is
//     read, and shows the snapshot as a whole at SYNCED. Until the first SYNCED it is empty. (With several namespaces,
//     the snapshot of one may be shown at its first bookmark, before SYNCED.)
//   - What is decoded belongs to the caller, who may change it.
//   - Between runs, the objects stay as they were. The next run shows what exists then at its SYNCED.
//
// # What subscribers receive
//
//	for change, err := range pods.Subscribe(ctx) { // ADDED of all that exists, SYNCED, then what changes
//
// [Store.Subscribe] delivers the differences between the states that one subscriber has seen, each with the object
// before and after. A slow subscriber holds up nobody, and needs no queue.
//
//   - Old of a change is what this subscriber received last, also for DELETED, and also if the object was deleted
//     during a gap or between runs.
//   - No deletion is missed. An object that was deleted and created again under its name is DELETED, then ADDED. That
//     needs uids, which a Transform must not change, and client-go's fake does not have: without them it is MODIFIED.
//   - GAP and SYNCED take turns.
//
// # Memory and time
//
// With 50,000 pods of 2.8 KB, one takes 3.2 KB of live heap, and 0.7 KB with [Options].Compress; an informer takes 16.8
// KB (go run ./examples/checks/bench -only ours-store,ours-store-compressed,dynamicinformer/heap). That includes the
// index of the Stream. Each value of an index takes 64 bytes more, and its length. Decoding takes 10 us, and 11 us
// compressed; an informer's DeepCopy of the same pod takes 9 us. [As] takes 29 us for a corev1.Pod (BenchmarkStore in
// examples/checks/bench). Finding one of 100,000 objects takes 1 us if it was read not long ago, and 25 us for a random
// one of 1,000,000, which is not in the processor's caches (BenchmarkRead and BenchmarkTree of this package). All on
// one busy machine, Go 1.26, amd64, 2026-11.
//
// While the snapshot of a later run is read, the tree is in memory twice, 64 bytes for each object and value of an
// index; after a GAP, only what changes. A subscriber keeps the state that it is delivering, with all that has changed
// since. If a Stream watches many namespaces, one event costs about 50 ns for each of them.
//
// # Not promised
//
//   - Every state of an object to a subscriber that does not keep up, or across a GAP. Who needs each event, to audit
//     for example, reads the Stream.
//   - How well objects are compressed. A dictionary is made of up to 32 KiB of objects after 256 KiB of new ones, then
//     after 4 MiB, 64 MiB and 1 GiB. Objects that look different later are compressed less, until the next one is due.
//     The four take at most 0.2 MB.
package store
