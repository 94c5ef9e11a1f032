// Package metrics has Prometheus metrics and health checks for programs that watch with gvrwatch.
//
//	m := metrics.New()
//	prometheus.MustRegister(m)
//	s, err := stream.New(client, resource, m.Instrument(resource, &stream.Options{}))
//	m.Watch(s)
//	http.Handle("/metrics", promhttp.Handler())
//	http.Handle("/healthz", m.Healthz(10*time.Minute))
//	http.Handle("/readyz", m.Readyz())
//	go func() { log.Fatal(http.ListenAndServe(":8080", nil)) }()
//	for ev, err := range m.Count(s.Events(ctx)) {
//		...
//	}
//
// Each of the three methods adds some metrics, and each works without the others: [Metrics.Instrument] counts requests
// and watches, [Metrics.Count] events and gaps, and [Metrics.Watch] reads the Status at each scrape. With package
// follow, Options.Source calls Instrument:
//
//	follow.Options{Source: func(r gvr.Resource) (stream.Options, stream.Run) {
//		return *m.Instrument(r, nil), stream.Run{}
//	}}
//
// # Labels
//
// The label resource is the resource with its group, such as "deployments.apps", whatever the version. For a source of
// a Mux that has a key of its own (mux.SourceOptions.Key, stream.Run.Key), it is that key, up to " in "
// or " where ", which the key of a Stream has before its namespaces and selectors. Call [Metrics.Trace] with the key to
// give its requests the same label. Streams of one resource share their series: numbers are added up, or the worst
// counts. After 2,000 values, further ones become "other". All other labels have a fixed set of values. No label has a
// namespace, a name or a message.
//
// Several clusters in one process have one Metrics each, registered with
// prometheus.WrapRegistererWith(prometheus.Labels{"cluster": name}, registry).
//
// When a Stream is removed, from a Mux or with the function that Watch returns, its gauges are gone at the next scrape.
// Its counters stay, as counters should.
//
// # Metrics from the callbacks of stream.Trace (Instrument)
//
// The names that begin with "reflector" are those of client-go's MetricsProvider (tools/cache/reflector_metrics.go),
// as kubelets and controllers exported them; client-go 0.37 still has that interface, but calls it no more. They have
// the meaning that they had there, with the label resource instead of name.
//
//   - gvrwatch_requests_total{resource,verb,outcome}, a counter: requests that were answered or have failed. The verb
//     is list (a page), watch (its opening) or probe (a list of one object). The outcome is success, unauthorized
//     (401), forbidden (403), not_found (404), expired (410), throttled (429), server_error (5xx), refused (another
//     4xx), canceled (the run was stopped), or failed: there was no answer, or one that can't be used.
//   - gvrwatch_watches_ended_total{resource,outcome}, a counter: watches that have ended. The outcome is success if
//     there was no error: the server has closed the watch, even because it was killed, or the run ended.
//   - reflector_lists_total{resource}, a counter: lists whose first page was answered or has failed. Streaming lists
//     are watches.
//   - reflector_list_duration_seconds{resource}, a histogram: how long all pages of a complete list took.
//   - reflector_items_per_list{resource}, a histogram: objects in a complete list.
//   - reflector_watches_total{resource}, a counter: watches whose request was answered or has failed.
//   - reflector_short_watches_total{resource}, a counter: watches that ended within a second, without an event and
//     without an error.
//   - reflector_watch_duration_seconds{resource}, a histogram: how long watches were open.
//   - reflector_items_per_watch{resource}, a histogram: events and bookmarks of a watch.
//
// The histograms are native ones. A Prometheus server that does not scrape these sees the sum and the count.
//
// # Metrics from the sequence (Count)
//
//   - gvrwatch_events_total{resource,type}, a counter: events that the loop has received, by stream.Type.
//   - gvrwatch_gaps_total{resource,reason,history_lost}, a counter: losses of events, by stream.GapReason. With
//     history_lost="true" deletions may be missing.
//   - gvrwatch_last_gap_timestamp_seconds{resource,reason,history_lost}, a gauge: when the loop received the last one.
//   - gvrwatch_loop_busy_seconds, a gauge: how long the body of the loop has been handling its event; of several loops,
//     the longest. It is 0 while the loop waits.
//
// # Metrics from Status (Watch)
//
//   - gvrwatch_state{resource,state}, a gauge: watches in a stream.State. Each namespace of a Stream counts as one. A
//     source that a Mux will start again is in the state that its error leads to, such as Forbidden.
//   - gvrwatch_synced{resource}, a gauge: 1 if everything that existed has been delivered, and no GAP since. It stays 1
//     while the server can't be reached or refuses: gvrwatch_state shows that.
//   - gvrwatch_objects{resource}, a gauge: objects that were delivered and exist.
//   - gvrwatch_consecutive_failures{resource}, a gauge: failures in a row, of the watch with the most; 1 for what a
//     follow.Mux starts again.
//   - reflector_last_resource_version{resource}, a gauge: the resourceVersion up to which everything has been
//     delivered; of several, the lowest. It is absent while there is none.
//   - gvrwatch_queued_events{resource}, a gauge: events in a Mux that wait for the loop.
//   - gvrwatch_queued_bytes{resource}, a gauge: their estimated size in memory.
//   - gvrwatch_coalesced_events{resource}, a gauge: events that became part of a newer one, in this run of a
//     Mux with Latest.
//   - gvrwatch_vanished_events{resource}, a gauge: events of objects that came and went before the loop
//     received them, in this run.
//   - gvrwatch_checkpoint_unacked_events{resource}, a gauge: delivered events that the checkpoint does not pass yet.
//   - gvrwatch_checkpoint_oldest_unacked_seconds{resource}, a gauge: the age of the oldest of these events, which is
//     how far the checkpoint lags behind.
//   - gvrwatch_checkpoint_last_commit_timestamp_seconds{resource}, a gauge: when the Tracker last committed, for any
//     key.
//   - gvrwatch_checkpoint_consecutive_failures{resource}, a gauge: commits that failed in a row.
//   - gvrwatch_followed{resource,state}, a gauge: resources and names that a follow.Mux follows, by follow.State.
//   - gvrwatch_discovery_failing, a gauge: 1 if a follow.Mux can't read an API, so that it does not know everything
//     that is served.
//
// # Health
//
// [Metrics.Readyz] answers whether everything has been delivered, [Metrics.Healthz] whether only a restart helps.
// Answers have a line for each source with a problem, at most 100, and no text of an error: such endpoints are often
// for anybody.
package metrics
