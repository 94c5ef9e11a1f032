// Package streamtest tests programs that watch Kubernetes. A [Server] is an API server in the test's process, with a
// history and with scripted faults; it replays what a user has recorded. [Record] records what a sequence delivers, and
// [Check] compares the recording with what really happened. [CheckStore] checks a checkpoint.Store.
//
//	synctest.Test(t, func(t *testing.T) { // hours take no time
//		names := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
//		widgets := gvr.Resource{GroupVersionResource: names, Kind: "Widget", Namespaced: true}
//		srv := streamtest.NewServer(widgets)
//		srv.Put(widgets, "shop", "door", "spec.size=3")
//		err := srv.Apply("initial 1 after 3s: reset")
//		time.AfterFunc(time.Minute, func() { srv.Delete(widgets, "shop", "door") })
//		events := gvrwatch.Watch(t.Context(), srv.Config(), "widgets", nil)
//		rec := streamtest.Record(events, func(ev stream.Event) bool { return ev.Type == stream.Deleted })
//		err = streamtest.Check(srv.History(widgets, nil), rec.Events, &streamtest.CheckOptions{Complete: true})
//		err = srv.CheckScript() // was there a reset?
//	})
//
// # The server
//
// A Server serves resources without schemas, like CRDs that preserve unknown fields. For watches it behaves like a
// kube-apiserver: one revision counter, paged lists bound to a version, watches from any version that has not expired,
// bookmarks, streaming lists (sendInitialEvents), label selectors, PartialObjectMetadata in JSON and protobuf, both
// forms of discovery, and the kube-apiserver's errors. Clients may get, create, update and delete single objects.
//
// It differs in these points: field selectors accept any dotted path; there are no patches, subresources, validation or
// dry runs, and no protobuf but for metadata; errors are in protobuf, too, if the client prefers it; and a delete
// returns the object.
//
// [Server.Config] and [Server.Client] connect through memory, so that a test can run in a testing/synctest bubble,
// where hours take no time. Each bubble needs a client of its own, because the Streams of a client wait for each other
// while the server fails. A Server is also an http.Handler: httptest.NewServer(srv) serves it on a real network.
//
// client-go's informers run on it, too. In a bubble, first remove the second of
// k8s.io/apimachinery/pkg/util/runtime.ErrorHandlers: it delays errors by a clock outside the bubble, and would sleep
// for decades. With client-go before 0.35 they need a resync period in a bubble, even 100 years: without one, their
// reflector waits on a channel outside the bubble, and time stands still. That goes for package informer, too.
//
// # Recordings
//
// [Server.Replay] makes what a user saw the input of a test. The user records it with "gvrwatch watch TYPE --record
// FILE". The file is lines of JSON, compressed or, after zcat, as text, which can be read in a diff:
//
//	synctest.Test(t, func(t *testing.T) {
//		srv := streamtest.NewServer()
//		defer srv.Close()
//		err := srv.Replay("testdata/incident.rec")
//		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour) // longer than the recording
//		defer cancel()
//		events := gvrwatch.Watch(ctx, srv.Config(), "widgets", nil)
//	})
//
// The resources of the recording are served, those that the server serves already as it does. The events of each
// resource up to the first SYNCED of the first run are what existed when the recording began. It exists when Replay
// returns. Each later event happens as long after Replay as it was recorded after the first run began, so that a pause
// between two runs counts, too. Nothing waits for the end of a replay: a test in a bubble sleeps, or watches, for
// longer than the recording; another one reads events until the one that it knows to be the last. A bubble may end
// before a replay does.
//
// ADDED, MODIFIED and DELETED make the same changes as those that were seen. Objects keep their uid, creationTimestamp,
// generation, deletionTimestamp and finalizers, and all else but the resourceVersion, which comes from the server's one
// counter: compare events without it, by uid and content. MODIFIED creates an object that does not exist, and ADDED
// modifies one that does, unless it is in that state. An object of the same name, but of another uid, is removed first.
// DELETED removes an object also if it has finalizers; it does nothing if there is none of that uid. Whoever changes
// the objects during a replay must expect that it overwrites them. Runs are one history: what a later run repeats is no
// change. If it lacks what was known, that is removed at its SYNCED. What happened in a GAP is not known: its
// differences happen when they were delivered. GAP itself, SYNCED and BOOKMARK change nothing. A script can add a gap.
//
// Redacted Secrets are served as they were recorded, and metadata that was recorded alone as objects without anything
// else. Where versions of one resource were recorded side by side, the changes of the one whose event comes first in a
// run count, because versions share their objects here. Changes also happen to a resource that is not served at that
// time.
//
// Replay reads and checks the whole file, and keeps its objects in memory, as the server keeps each state of an object:
// 100,000 changes of 2 KB need 1.5 GB. The end of a file that a killed recorder left may be missing. Anything else that
// is wrong is an error, and the server is as it was. Another recording, or the same one, may be replayed at any time.
//
// # Scripts
//
// [Server.Apply] reads a script: one fault per line; a comment begins with #. Each line is
//
//	[RESOURCE] TRIGGER: FAULT
//
// RESOURCE is PLURAL, PLURAL.GROUP or PLURAL.VERSION.GROUP. A line without it applies to all resources. The triggers:
//
//	list N                  the Nth request for the first page of a list, unless its limit is 1
//	page N                  the Nth list with a continue token
//	probe N                 the Nth list with limit=1
//	watch N                 the Nth watch without sendInitialEvents; the first one of a Stream is "initial 1"
//	initial N               the Nth watch with sendInitialEvents=true
//	get N                   the Nth get
//	write N                 the Nth create, update or delete
//	discovery N             the Nth request for /version, or below /api and /apis
//	any N                   the Nth request that the fault can affect
//	... in NAMESPACE        counts requests in that namespace only
//	... after K frames      within the watch, once it has sent K frames
//	... after 3s            within the watch, 3s after its start
//	change REVISION         the frame of that revision, in every watch
//	at 5s                   5s after Apply; for actions, see below
//
// N may also be N-M, N-* or *. Each line counts requests from Apply on, and only those that its fault can affect. If
// several lines apply to a request or to the frame of a revision, the first one counts, also if its fault is due later
// within the watch. Apply refuses a line that can never happen for that reason. [Server.CheckScript] returns an error
// about lines that have not happened.
//
// Faults of any request:
//
//	400 ... 599             a Status with that code and its usual reason; 410 has the reason Expired
//	503 plain               a text instead of a Status, as from a proxy
//	429 retry-after 3s      with the header Retry-After, which client-go obeys
//	refuse                  the connection is refused
//	hang                    no answer
//	slow 2s                 the answer, or each frame of a watch, is delayed
//	close                   status 200, then the end
//	half-open               status 200, then silence on an open connection
//	reset                   status 200, then the connection breaks
//	garbage                 status 200, then neither JSON nor protobuf; in a watch the next frame is neither
//
// Faults of some requests:
//
//	stale N                 the state and version of N changes ago: lists, gets, and snapshots of watches
//	410 in stream           a watch gets an ERROR, then the end
//	error frame             a watch gets an ERROR with status 500, then the end
//	replay N                a watch gets the last N changes again
//	no marker               a streaming list lacks the bookmark that ends the snapshot
//	ignore initial          the server ignores sendInitialEvents: a plain watch
//
// Within a watch, close, half-open, reset, garbage, 410 in stream, error frame and replay happen at its start, or after
// K frames. Each may also follow "change REVISION:".
//
// Actions follow "at 5s:", or [Server.Do] runs them immediately. These concern the whole server:
//
//	compact                 all versions but the newest expire
//	restart                 the same, and all connections end
//	rewind N                the state of N changes ago is the newest again, as after a restore of etcd; open watches
//	                        are silent until the revisions have passed their position
//	rewind N restart        the same, and all connections end
//	unauthorized            401 for all requests, until "authorized"
//	discovery down GROUP    its discovery fails, until "discovery up GROUP"; the core group is "core"
//	bookmarks every 10s     instead of every minute; "bookmarks never" sends none
//	heal                    ends all faults and cancels later ones; the effects of actions remain
//
// A RESOURCE may precede these:
//
//	forbid VERB             403 for that verb, or for "all"; with "in NAMESPACE" for requests in that namespace
//	allow VERB              permits it: the last matching "forbid" or "allow" counts; "allow" alone permits everything
//	delete crd              its objects are deleted, watches end after 1s, requests get 404
//	create crd              it exists again, empty, and earlier versions have expired
//	expire                  its versions expire and its watches end, as after a change of a CRD's schema
//	close watches           its watches end
//	silence                 its watches become half-open
package streamtest
