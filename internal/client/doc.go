// Package client is the client behind stream.NewClient ([New]), and the interface between a Stream and any client:
// [For] returns a [Reader], which lists, and opens a [Watch], which returns one event at a time.
//
// A Reader of a client that New returned reads the connection directly: it decodes events in one pass, shows metadata
// to a [Filter] before it decodes an object, and returns a Retry-After instead of sleeping. A Reader of any other
// dynamic.Interface reads the watch.Interface of that. Package decode has the decoders. What differs between JSON and
// protobuf, in which metadata is requested, is in a format.
package client
