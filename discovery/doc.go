// Package discovery resolves the names people type to the resources a server serves, and reports over time which
// resources it serves. It checks no permissions and watches no objects.
//
// To begin, create a client with [NewClient] and a Resolver with [NewResolver], and pass what gvr.ParseRef returns to
// [Resolver.Resolve]. gvrwatch.Watch, in the root of the module, resolves a name and watches it in one call.
//
// A [Resolver] reads the server's own discovery documents (aggregated discovery, KEP-3352, or the older per-version
// documents) through client-go's discovery client, so it needs no generated types. [NewClient] makes its polls cheap.
//
// Promised: an API that cannot be read is never reported as absent. [Resolver.Resolve] returns [*NotFoundError] for a
// type that is not served, [*AmbiguousError] for a name that several types share, and [*UnavailableError] if an
// unreadable API could have the type. It never caches an error.
//
// Not promised: that discovery documents are up to date. They lag behind what
// the server serves, by up to two seconds on an idle server; see [Resolver.Refresh].
package discovery
