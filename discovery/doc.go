// Package discovery turns the names people type into the resources a server
// serves, and lists what may be watched.
//
// It reads the server's own discovery documents (aggregated discovery where it
// is served, KEP-3352, the older per-version documents otherwise) through
// client-go's discovery client, so it needs no generated types and knows a CRD
// as soon as the server announces it.
//
// Three answers are kept apart that others mix up: a type that is not served
// (NotFoundError), a name that several types share (AmbiguousError), and a
// type of which nothing can be said because its API does not answer
// (UnavailableError). Unknown is not absent.
//
// Resolver.Changes tells the same over time: what is added, removed and changed,
// and of what nothing is known for a while. NewClient makes looking cheap.
package discovery
