package relay

import (
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Selected is a resource to publish, or a namespace of it, and how.
type Selected struct {
	Unit     engine.Unit
	Resource gvr.Resource
	// Options are those of its Stream.
	Options stream.Options

	connection *Connection
	redaction  *message.Redaction
	scope      string // identifies what is published: see engine.Position
	split      bool   // into namespaces
}

// same reports whether a Stream of s would publish what one of t does.
func (s *Selected) same(t *Selected) bool {
	return s.Unit == t.Unit && s.scope == t.scope && s.Resource.GroupVersionResource == t.Resource.GroupVersionResource
}

// owned is a unit that this replica publishes. The publisher's mutex guards published and received.
type owned struct {
	*Selected
	key     string // of its source: that of an earlier epoch has another one
	epoch   uint64
	encoder *message.Encoder
	ended   chan struct{} // closed when nothing more of the unit will be published
	published
	received
}

// published is what the log has of a unit.
type published struct {
	position engine.Position
	revision uint64
}

// received is what has been received of a unit, and accepted.
type received struct {
	progress progress  // after the last event
	adding   int       // events that wait to be added to the queue
	pending  int       // items in the queue
	oldest   time.Time // when the first of these was received
	state    unitState
}

// unitState says what is still accepted of a unit.
type unitState int

const (
	publishing unitState = iota
	releasing            // what is in the queue
	lost                 // nothing: another replica has taken it, or its release is committed
)
