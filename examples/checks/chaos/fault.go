package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// faultKind is a kind of fault. Its cause returns when the fault has ended and everything is healed.
type faultKind struct {
	name   string
	what   string
	byName bool // happens only if it is asked for
	cause  func(ctx context.Context, w *world, r *rand.Rand) error
}

// faultKinds are all kinds of faults.
var faultKinds = allFaults()

func allFaults() []faultKind {
	kinds := []faultKind{
		{name: "reset", what: "all connections are reset", cause: resetAll},
		{name: "reset-some", what: "half of the connections are reset", cause: resetSome},
		{name: "cut-frame", what: "watches end inside a frame", cause: cutFrame},
		{name: "end-watches", what: "watches end cleanly between frames", cause: endWatches},
		{name: "half-open", what: "open connections are dead for a while, new ones work", cause: halfOpen},
		{name: "partition", what: "all connections are dead for a while, also new ones", cause: partition},
		{name: "slow", what: "bytes trickle", cause: slow},
		{name: "restart", what: "the API server is restarted", cause: restart},
		{name: "kill", what: "the API server is killed with -9 and started again", cause: kill},
		{name: "watch-cache", what: "the API server is restarted with the watch cache on or off", cause: watchCache},
		{name: "two-paused", what: "one of two API servers is paused", cause: twoPaused},
		{name: "two-lagging", what: "one of two API servers lags behind etcd", cause: twoLagging},
		{name: "etcd-restart", what: "etcd is stopped and started under the API server", cause: etcdRestart},
		{name: "etcd-restore", what: "etcd is restored from a copy", cause: etcdRestore},
		{name: "etcd-restore-ahead", what: "etcd is restored from a copy, and its versions catch up before " +
			"clients can see it", byName: true, cause: etcdRestoreAhead}, // docs/promises.md: not covered
		{name: "compaction", what: "etcd is compacted while connections are reset", cause: compaction},
		{name: "compaction-away", what: "etcd is compacted while no client can connect", cause: compactionAway},
		{name: "schema", what: "the schema of a CRD changes", cause: schemaChange},
		{name: "recreate", what: "a CRD is deleted and recreated", cause: recreate},
		{name: "unserved", what: "a version of a CRD is not served for a while", cause: unserved},
		{name: "storage", what: "the storage version of a CRD changes", cause: storageChange},
		{name: "rights", what: "the limited user may list and watch nothing for a while", cause: noRights},
		{name: "rights-namespaces", what: "the limited user may list and watch only in namespaces",
			cause: namespaceRights},
		{name: "rights-watch", what: "the limited user may list, but not watch", cause: listRights},
		{name: "token", what: "tokens are refused before there are new ones", cause: newTokens},
		{name: "pause", what: "client processes are paused", cause: pauseClients},
		{name: "pause-compaction", what: "client processes are paused while etcd is compacted",
			cause: pauseWhileCompacting},
	}
	for _, a := range falseAnswers {
		kinds = append(kinds, faultKind{
			name: a.name, what: "the proxy answers: " + a.what,
			cause: func(ctx context.Context, w *world, r *rand.Rand) error { return answerFalsely(ctx, w, r, &a) },
		})
	}
	for _, b := range ruleBreakers {
		kinds = append(kinds, faultKind{
			name: b.name, what: "the proxy plays a server: " + b.what,
			byName: b.name == restartsWatches, // a list may still be due at the end, for minutes
			cause:  func(ctx context.Context, w *world, r *rand.Rand) error { return breakRule(ctx, w, r, b) },
		})
	}
	return kinds
}

// between returns a random duration.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}
