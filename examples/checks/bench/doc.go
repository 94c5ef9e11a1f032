// Bench measures ways to watch a Kubernetes resource side by side: client-go's dynamic client and what is built on it,
// controller-runtime's unstructured cache, client-go's metadata informer, and package stream in each of its modes. All
// of them get the same objects from the same server. Each peer has a process of its own, and so its own heap, garbage
// collection and peak memory.
//
//	go run ./examples/checks/bench                     everything, medians of 5, in less than half an hour
//	go run ./examples/checks/bench -quick              in under a minute on an idle machine, rough figures
//	go run ./examples/checks/bench -caches             caches as well, in an hour more
//	go run ./examples/checks/bench -devserver          on the embedded API server as well
//	go run ./examples/checks/bench -only ours,dynamic -cpuprofile /tmp/profiles
//	go run ./examples/checks/bench -json figures.json
//	go run ./examples/checks/bench -from figures.json -svg docs/bench.svg      measures nothing
//
// # What is measured
//
//   - Events: how many a peer processes in a second if the server sends them as fast as the peer reads, and what one
//     event costs the peer: CPU time of its process (user and system, all threads), allocations, and bytes allocated.
//     Events that Select rejects count, too. A peer reads the 1,000 existing objects before the events start; the plain
//     watches read none. A peer only counts its events. At the end their number is checked and, if they come in one
//     sequence, the resourceVersion of the last one. A ratio refers to the dynamic client's Watch with objects of the
//     same size, the same GOGC and the same other live heap. GOGC is 100, except in the rows named -gogc400.
//   - The rows named -live64 have 64 MB of other live heap in the process, in pieces of 1 KiB, as most programs have
//     more in memory than a watch. The collector then runs less often.
//   - Latency: the server writes the time into an annotation just before it sends an event, and the peer compares it
//     with its own clock when it has the object. That covers the way from the server's write, through the kernel, to
//     the loop body or handler. The server sends events every half millisecond. If a peer does not keep up, the server
//     has to wait, and that wait does not count: the table shows the rate that was reached.
//   - First snapshot: how long it takes until the peer knows all of 50,000 existing objects, and the peak resident size
//     of its process until then. The size before that is mostly the size of this program, which links all peers. The
//     ratio refers to dynamic-list.
//   - Live heap: what is still reachable, after two collections, once the peer knows all objects and has a watch open,
//     minus what was reachable before the client was made.
//   - The row ours-informer is the factory of package informer, and ours-store and ours-store-compressed are a Store of
//     raw objects, whose live heap is measured.
//   - The row relay is examples/relay with the JetStream server that it embeds, in the process of the peer. An event
//     counts when it is in the log or, for the latency, when a consumer of the log has received it.
//   - With -caches, or if -only names them: plain and compact caches of 100,000 Pods or Secrets, in pairs that
//     differ in nothing but the informer. Those of controller-runtime have typed objects, unstructured ones or
//     metadata, and the door is package factory. Each is measured once, in one process: the time and the peak size
//     until the handler has all objects, the size after a minute without events, the live heap, reads, then events
//     at 500/s for 15 seconds, with one handler and with ten. Cold reads get all keys in random order, warm ones the
//     same ten. The index that is listed has 100 objects. What begins with cache_client is a read through
//     controller-runtime's reader, which copies; the indexer of a plain cache returns what it has. A list in pages
//     is read by a process of its own, with WatchListClient off (PagedLists for the door). A collection precedes the
//     events; in 15 seconds of them a plain cache often needs no further one, and a compact cache several.
//   - With -devserver: how fast a peer reads 20,000 objects of a custom resource, as initial events of a watch, from
//     the API server of examples/devserver. There the server is the slower side, so compare the CPU time.
//
// The runs of all peers are interleaved: the first run of each, then the second run of each, so that other load on the
// machine affects all alike. Ratios mean more than absolute figures. The last table compares them with the targets.
// The size of a process needs /proc, and is zero without it.
//
// # The objects
//
// They are Pods with random values, each from a seed of its own, so that every run has the same objects: see pod.yaml.
// The serializers of a kube-apiserver encode them, so field order, escapes and frames are those of a real server. A
// small object is 2.8 KB as a frame; it has one container, and managedFields of two managers. Real Pods are often
// larger, so there are big ones of 11 KB with three containers. There are 1,000 different objects; further ones are
// copies with their own name, uid and container ID. Between two events of an object its resourceVersion, the time of
// its Ready condition, and the time of kubelet's update change.
//
// A Secret is a Helm release of 1.3 KB, whose data is random: see secret.yaml. The 1,000 different ones have copies,
// too; the dictionaries of a compact cache hold a few dozen of the 1,000, so that this makes its objects at most some
// percent smaller.
//
// # Where the server differs from a kube-apiserver
//
// It is a stand-in that renders everything beforehand and speaks plain HTTP/1.1 on loopback, so the figures contain no
// encryption and no HTTP/2. It sends many frames in one large write, as a busy server does. It sends no answer
// compressed, and ignores requests to drop managedFields. It serves whole objects and
// PartialObjectMetadata, in protobuf or JSON, as the client prefers, and applies the limit of every list. In protobuf
// the times that change between events are constant. The embedded API server is a real one, with TLS, HTTP/2
// and compression where a client accepts it, but it serves custom resources only, and encodes each event for each
// watch.
//
// No client has a rate limit (QPS: -1). No object is created or deleted while events come. Reconnects, gaps and errors
// are matters of correctness; other tests cover them. Server and peer share the machine's processors: on a machine with
// two, a peer with several goroutines can't use both.
//
// # The JSON file
//
// It is an array with one object for each row. All figures are numbers, medians of the runs; what was not measured is
// absent.
//
//	name, what            strings: the row, and what it is
//	object_size           string: "2.8k" or "11k"
//	error                 string: why a run failed
//	runs, gogc, live_mb   number of runs, GOGC, megabytes of other live heap
//	base                  string: the name of the row that ratio and cpu_ratio refer to
//	ratio, cpu_ratio      speed, and inverse CPU time, divided by those of that row
//	events_per_s          with events: the events of each run
//	cpu_us_per_event, allocs_per_event, bytes_per_event, peak_rss_mb, base_rss_mb
//	first_snapshot_ms     with objects: the existing ones
//	initial_events_per_s  of the embedded API server
//	heap_bytes_per_object
//	cache_heap_bytes      of an object, and cached_objects: their number
//	cache_settled_mb, cache_peak_mb, cache_paged_peak_mb, cache_base_mb
//	cache_get_WAY_PNN, cache_client_get_WAY_PNN      us, WAY is warm or cold, PNN is p50 or p99
//	cache_list_100_PNN, cache_client_list_100_PNN    us
//	cache_list_all_PNN, cache_client_list_all_PNN    ms
//	cache_start_s, cache_paged_start_s
//	cache_start_cpu_us, cache_paged_start_cpu_us     of an object
//	cache_cpu_us_1, cache_cpu_us_10                  of an event, with so many handlers
//	latency_p50_us_RATE, latency_p99_us_RATE, latency_max_us_RATE, latency_reached_RATE    RATE is 1000 or 4000
package main
