package explore

import (
	"hash/maphash"
	"sync"

	"github.com/gvrwatch/gvrwatch/internal/sequence"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// checked are the sequences of a setup in which streamtest.Check has found nothing wrong.
type checked struct {
	mu  sync.Mutex
	all map[hash]struct{}
}

// checkedSeeds are the same for all setups.
var checkedSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// key returns the key of all that streamtest.Check is given, but for what the setup says.
func (c *checked) key(r *receiver, past history, o *streamtest.CheckOptions) hash {
	k := keys{to: make([]byte, 0, 256)}
	k.bytes(bit(o.Complete), bit(o.Now), bit(o.After != ""), bit(o.From != nil), byte(len(past.changes)))
	for _, c := range past.changes {
		k.bytes(byte(c.kind))
		k.object(c.object)
	}
	k.bytes(byte(len(past.rewinds)))
	for _, to := range past.rewinds {
		k.bytes(byte(to))
	}
	if p := o.From; p != nil {
		version, begun := p.ResourceVersions[""]
		k.string(version)
		k.bytes(bit(begun), byte(len(p.ResourceVersions)), bit(p.Partial), bit(p.Unclean), byte(len(p.Objects)))
		for _, o := range p.Objects {
			k.string(o.Name)
			k.string(string(o.UID))
			k.string(o.ResourceVersion)
		}
	}
	for i := range r.events {
		k.event(&r.events[i])
	}
	return hashOf(checkedSeeds, k.to)
}

func (k *keys) event(ev *event) {
	k.string(string(ev.kind))
	switch ev.kind {
	case sequence.Gap:
		g := &ev.gap
		k.string(string(g.Gap.Reason))
		k.string(g.Gap.From)
		k.string(g.To)
		k.bytes(bit(g.HistoryLost))
	case sequence.Synced, sequence.Bookmark:
		k.string(ev.version)
	default:
		k.bytes(bit(ev.inferred))
		k.object(ev.object)
	}
}

func (k *keys) string(s string) { k.to = append(append(k.to, byte(len(s))), s...) }

func (c *checked) has(key hash) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.all[key]
	return ok
}

func (c *checked) add(key hash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[hash]struct{}{}
	}
	c.all[key] = struct{}{}
}
