// Package streamtest is for testing what watches Kubernetes: an API server in the
// test's own process, with a history and with faults that a script asks for;
// Check, which holds what a program received against what truly happened; and
// CheckCheckpoint, which holds what it kept against what it received and acked.
//
// A [Server] serves resources without schemas, as CRDs that preserve unknown
// fields. It does what matters to watches as a kube-apiserver does: one revision
// counter, lists in pages that are bound to a version, watches from any version
// that has not expired, bookmarks, streaming lists (sendInitialEvents), label
// selectors, PartialObjectMetadata, discovery in both forms, and its errors.
// Clients may get, create, update and delete single objects. The differences: field
// selectors may name any dotted path; there are no patches, no subresources, no
// validation, no dry runs, no protobuf; and deleting returns the object.
//
// [Server.Config] and [Server.Client] reach it through an in-memory transport, so
// that a test can run in a testing/synctest bubble, where hours take no time. It is
// an http.Handler too: httptest.NewServer(srv) puts it on a real network.
//
// client-go's informers run on it, too. In a bubble, let
// k8s.io/apimachinery/pkg/util/runtime.ErrorHandlers be without its second one
// first: that slows errors down by a clock outside of the bubble, and would sleep
// for decades.
//
// # Scripts
//
// [Server.Apply] reads a script: one fault a line, empty lines and comments from #
// to the end of the line. A line is
//
//	[RESOURCE] TRIGGER: FAULT
//
// where RESOURCE is the plural of a resource, PLURAL.GROUP or
// PLURAL.VERSION.GROUP. Without it, the line is about all of them. The triggers:
//
//	list N                  the Nth list: a first page, whose limit is not 1
//	page N                  the Nth list with a continue token
//	probe N                 the Nth list with limit=1
//	watch N                 the Nth watch, of those without sendInitialEvents
//	initial N               the Nth watch with sendInitialEvents=true
//	get N, write N          the Nth get; the Nth create, update or delete
//	discovery N             the Nth request below /api and /apis, and /version
//	any N                   the Nth request to which the fault can happen
//	... in NAMESPACE        the Nth of those in that namespace
//	... after K frames      the same, once K frames have been sent (of watches)
//	... after 3s            the same, so long after the watch began
//	change REVISION         the frame of that revision, in every watch
//	at 5s                   so long after Apply
//
// Instead of N there may be N-M, N-* or *. Requests are counted from Apply on, by
// each line for itself; those are left out to which its fault can't happen. If it is
// several lines' turn, the first line counts.
//
// Faults of any request:
//
//	400 ... 599             a Status with that code, and the usual reason
//	410                     reason Expired; 410 Gone: reason Gone
//	503 plain               a text instead of a Status, as from a proxy
//	429 retry-after 3s      with the header Retry-After, which client-go heeds
//	429 in status 3s        with retryAfterSeconds in the Status only
//	refuse, hang            no connection, no answer
//	slow 2s                 the answer, or each frame of a watch, comes so late
//	close                   200, then the end
//	half-open               200, then silence; the connection stays open
//	reset                   200, then the connection breaks
//	garbage                 200, then what is no JSON
//
// Faults of lists:
//
//	stale N                 the state and the version of N changes ago; of gets and
//	                        the snapshots of watches too
//	no version              a list without resourceVersion
//	inconsistent pages      the page is of the newest state (pages only)
//	token circle            the continue token that was sent comes back
//
// Faults of watches, at their beginning or after K frames. The first ones need no
// frame and happen at once, the others happen to the next frame:
//
//	close, half-open, reset
//	410 in stream           an ERROR, then the end
//	error frame             an ERROR with status 500, then the end
//	error not status        an ERROR whose object is no Status, then the end
//	frames after error      an ERROR with status 500, and on it goes
//	replay K                the last K changes once more
//	reset inside frame      half of a frame, then the connection breaks
//	garbage                 a frame that is no JSON
//	unknown type            a frame of type REPLACED
//	invalid utf-8           a frame with invalid bytes in its type
//	no kind, no name, no version   an object without
//	1e400                   an object with a number that no float64 holds
//	huge frame              a frame over client-go's limit of 16 MiB
//
// The same may follow "change REVISION:". Faults of streaming lists, as well:
//
//	no marker               the bookmark at the end of the snapshot never comes
//	plain marker            it comes without its annotation
//	ignore initial          the parameter is not known: a plain watch
//
// What can happen at a time, or through [Server.Do] now, where RESOURCE may be in
// front (of those in the second part only):
//
//	compact                 all versions but the newest expire
//	restart                 the same, and all connections end
//	rewind N                the state of N changes ago is the newest again, as after
//	                        a restore of etcd; open watches are silent until the
//	                        revisions have passed where they were
//	rewind N restart        the same, and all connections end
//	unauthorized            401 to all requests, until: authorized
//	discovery down GROUP    its discovery fails, until: discovery up GROUP (or core)
//	bookmarks every 10s     instead of every minute; bookmarks never
//	410 as status           watches from expired versions are refused with status 410;
//	                        410 as close: with 200 and the end; 410 in stream: again
//	heal                    no faults any more, but what is done is done
//
//	forbid VERB             403, for VERB or all; in NAMESPACE: to requests in there
//	allow VERB              takes it back, or makes an exception; allow: everything
//	delete crd              its objects are deleted, watches end after a second,
//	                        requests get 404
//	create crd              it is back, empty, and versions from before have expired
//	expire                  its versions expire and its watches end, as after a
//	                        change of a CRD's schema
//	close watches           they end
//	silence                 they become half-open
package streamtest
