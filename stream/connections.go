package stream

// Connections are watches that Streams share: of those that watch the same
// resource, through the same client, in the same namespace and with the same
// selectors, the server sees one.
type Connections struct{}

// NewConnections returns one that shares nothing yet.
func NewConnections() *Connections { return &Connections{} }
