// Package apiserver is the server of package streamtest, with more faults: those of servers that are broken or hostile
// in ways that few people meet. streamtest.Server.AllFaults permits all of them, for
// the tests of this module. What the server does, and the rest of the language of its scripts, stands in the
// documentation of streamtest.
//
// # Rare faults
//
// Faults of any request:
//
//	410 Gone                with the reason Gone, not Expired
//	429 in status 3s        with retryAfterSeconds in the Status, without the header Retry-After
//	500 endless             a Status whose message never ends
//	switch protocols        101 Switching Protocols, then silence
//	redirect                302 to another host
//	no content type         the answer lacks the header Content-Type
//	endless                 status 200, then a text that never ends
//
// Faults of lists:
//
//	no version              a list without resourceVersion
//	inconsistent pages      a page of the newest state instead of the first page's; only for "page N"
//	token circle            the answer has the continue token of the request
//	endless list            more and more objects
//	no kind, no name, 1e400 as in a watch, in the first object
//	huge object             the first object has more than 16 MiB, client-go's limit for a watch
//	dense object            the first object has 8 MiB of JSON that take 400 MiB of memory
//
// Faults of watches, at their start or after K frames. Those of the first group need no frame and happen at once; the
// others happen to the next frame. Each may also follow "change REVISION:".
//
//	error not status        an ERROR whose object is not a Status, then the end
//	frames after error      an ERROR with status 500, then more frames
//
//	reset inside frame      half of the frame, then the connection breaks
//	unknown type            a frame of type REPLACED
//	invalid utf-8           a frame with invalid bytes in its type
//	no kind                 an object without kind
//	no name                 an object without name
//	no version              an object without resourceVersion
//	1e400                   an object with a number that exceeds float64, or in protobuf an invalid field
//	huge object             a frame larger than client-go's limit of 16 MiB
//	dense object            an object of 8 MiB of JSON that take 400 MiB of memory
//	endless                 a frame that never ends
//
// Faults of streaming lists:
//
//	plain marker            the bookmark that ends the snapshot lacks its annotation
//
// Actions on the whole server:
//
//	410 as status           a watch from an expired version gets HTTP status 410
//	410 as close            a watch from an expired version gets status 200 and the end
//	410 in stream           a watch from an expired version gets an ERROR, which is the default
//	no protobuf             metadata is sent as JSON, also to clients that ask for protobuf
package apiserver
