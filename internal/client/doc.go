// Package client is the client behind stream.NewClient, and what a Stream asks of any
// client: [For] returns a [Reader], whose [Watch] gives one event at a time.
//
// A dynamic.Interface that New made is read directly: events are decoded from the
// connection in one pass, metadata can be looked at before an object is decoded, and waits
// that the server asks for are returned instead of slept. Any other dynamic.Interface is read through
// its watch.Interface. Decoding itself is in package decode.
package client
