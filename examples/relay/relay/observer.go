package relay

import (
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// Observer receives callbacks, for metrics. Nil functions are not called. They must return quickly.
type Observer struct {
	// Published is called for each message that is in the log.
	Published func(engine.Message)
	// Committed is called when messages were published together.
	Committed func(messages, bytes int, took time.Duration)
	// Refused is called when another replica turns out to have taken a unit.
	Refused func(engine.Unit)
}

func (o Observer) committed(parts []engine.Part, took time.Duration) {
	messages, bytes := 0, 0
	for _, p := range parts {
		for _, m := range p.Messages {
			messages++
			bytes += len(m.Data)
			if o.Published != nil {
				o.Published(m)
			}
		}
	}
	if o.Committed != nil {
		o.Committed(messages, bytes, took)
	}
}

func (o Observer) refused(u engine.Unit) {
	if o.Refused != nil {
		o.Refused(u)
	}
}
