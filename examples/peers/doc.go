// Peers measures ways to watch a Kubernetes resource side by side: client-go's dynamic client and what is built on it,
// controller-runtime's unstructured cache, and package stream. One invocation measures all of them, on the same objects
// from the same server process. Each peer has a process of its own, and so its own heap, garbage collection and peak
// memory.
//
//	go run ./examples/peers                    everything, medians of 5
//	go run ./examples/peers -quick             in under a minute, rough figures
//	go run ./examples/peers -only ours,dynamic -cpuprofile /tmp/profiles
//	go run ./examples/peers -json figures.json
//
// # What is measured
//
//   - Events: how many events a peer processes in a second if the server sends them as fast as the peer reads them, and
//     what one event costs the peer: CPU time of its process (user and system, all threads), allocations, and bytes
//     allocated. A peer that reads the 1,000 existing objects does so before the events start, so its snapshot does
//     not count; the plain watches read no objects. A peer only counts its events. At the last event the count is
//     checked, and, if the peer delivers all events in one sequence, the resourceVersion of that event.
//   - Latency: the server writes the time into an annotation just before it sends an event, and the peer compares it
//     with its own clock when it has the object. That covers the way from the server's write, through the kernel, to
//     the loop body or handler. The server sends a batch of events every half millisecond. If a peer does not keep
//     up, the server has to wait, and that wait does not count: the table shows the rate that was reached. Three peers
//     are measured at three rates. Most others that decode each event, or one in ten, are measured once, at the lowest
//     rate; ours-mux8-select10 is not, because half of its Streams receive no event.
//   - First snapshot: how long it takes until the peer knows all existing objects, and the peak resident size of its
//     process until then. The size before that is mostly the size of this program, which links all peers.
//   - Live heap: what is still reachable, after two collections, once the peer knows all objects and has a watch open,
//     minus what was reachable before the client was made.
//
// The runs of all peers are interleaved: the first run of each, then the second run of each, so that other load on the
// machine affects all alike. Ratios mean more than absolute figures. GOGC is 100 for the peers; some are measured at
// 400 as well.
//
// # The objects
//
// They are Pods with random values, each from a seed of its own, so that every run has the same objects. The serializer
// and the WatchEvent of a kube-apiserver encode them, so field order and escapes are those of a real server. A small
// object is 2.8 KB as a frame; it has one container, and managedFields of two managers that are derived from its own
// fields. Real Pods are often larger, so there are big ones of 11 KB with three containers. There are 1,000 different
// objects; further ones are copies with their own name, uid, address and container ID. Between two events of an object
// its resourceVersion, the time of its Ready condition, and the time of kubelet's update change.
//
// # What is not measured
//
// A kube-apiserver: the server here is a stand-in that renders everything beforehand and speaks plain HTTP/1.1 on
// loopback, so the figures contain no encryption and no HTTP/2. It sends many frames in one large write, as a busy
// server does. It sends JSON without compression, even to the metadata informer, which would prefer protobuf.
// No client has a rate limit (QPS: -1). No object is created or deleted while events come. Reconnects, gaps and errors
// are matters of correctness; other tests cover them. Server and peer share the machine's processors: on a machine with
// two, a peer with several goroutines can't use both.
package main
