// Peers measures ways to watch a Kubernetes resource beside each other: client-go's
// dynamic client and what is built on it, controller-runtime's unstructured cache,
// and package stream. All are measured in one run, on the same objects, from the
// same server process, each in a process of its own, so that heap, garbage
// collection and peak memory are its own.
//
//	go run ./examples/peers                    everything, medians of 5
//	go run ./examples/peers -quick             in under a minute, roughly
//	go run ./examples/peers -only ours,dynamic -cpuprofile /tmp/profiles
//	go run ./examples/peers -json figures.json
//
// # What is measured
//
//   - Events: how many a peer takes in a second, when as many come as it takes, and
//     what one costs it: CPU time of its process (user and system, of all
//     threads), allocations, bytes allocated. A peer that reads what exists (1,000
//     objects) has done so before the first one comes, so that its snapshot does not
//     count; the plain watches read nothing. What a peer does with an event is to count
//     it. How many have come is checked at the last one, and, of a peer that tells all
//     of them in one sequence, that it is the last of the server.
//   - Latency: the server writes the time into an annotation just before it sends an
//     event, and the peer compares it with its own clock when it has the object: from
//     the server's write, through the kernel, to the loop body or handler. Half a
//     millisecond's worth of events are sent at a time. Where a peer does not keep
//     up, the server has to wait, and that wait is not counted: see the rate reached.
//     Three peers are measured at three rates, those that make an object of each event, or
//     of one in ten, once at the lowest (ours-mux8-select10 is not: half of its Streams
//     receive none).
//   - First snapshot: how long it takes until all that exists is known, and the peak
//     resident size of the process meanwhile. The size before it is mostly that of
//     this program, which all peers are linked into.
//   - Live heap: what is still referred to, after two collections, once all objects
//     are known and a watch is open, less what was before the client was made.
//
// The runs of all peers are interleaved: the first of each, then the second of each,
// so that what else the machine does disturbs all alike. Ratios say more than
// figures. GOGC is 100 for the peers; some are measured at 400 as well.
//
// # The objects
//
// They are made from Go structs of Pods, one after another with random values (a
// seed of each its own, so that they are the same in every run), by the serializer
// and the WatchEvent that a kube-apiserver uses, so that the order of fields and the
// escapes are its. A usual one is 2.8 KB as a frame, with one container, and
// managedFields of two managers that are derived from the object's own fields; real
// Pods are often larger, so that there are some of 11 KB as well, with three
// containers. There are 1,000 different ones; where more are listed, further ones
// differ from these in what is theirs alone: name, uid, address, container ID. From
// one event to the next of an object its resourceVersion changes, and the times of
// its Ready condition and of kubelet's update.
//
// # What is not measured
//
// A kube-apiserver: the server here is a stand-in that has everything rendered
// beforehand, and speaks plain HTTP/1.1 on loopback; so nothing is encrypted, and
// HTTP/2 has no part. Frames come many at a time in big writes, as from a server
// that is busy. It speaks JSON alone, also to the metadata informer, which would
// prefer protobuf, and never compresses. Nobody's requests are limited (QPS: -1).
// Nothing is created or deleted while events come; reconnecting, gaps and errors
// are matters of correctness, and tested elsewhere. Server and peer share the
// machine's processors: on two of them, a peer of several goroutines can't have
// both.
package main
