// Package pace bounds how many requests the Streams of one client send while the server fails, so that each of them can
// retry soon without all of them together being a burden.
//
// A [Client] is shared by all Streams of a client. Its limits apply to the requests of all together:
//
//   - From the first failure, or the first broken watch, at most a rate of requests per second (50 by default). The
//     limit doubles with each second in which the server answers well, until there is none.
//   - After a 401, one request at a time, after waits that grow: all requests have the same credentials, and each 401
//     may make client-go run a credential plugin.
package pace
