package explore

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
)

// Conversation is a way through a model as one run of a Stream: its requests, the answers, and the events that it
// delivers. If the way has several runs, it is the last one.
type Conversation struct {
	Name   string
	Rules  protocol.Rules
	Even   bool // Options.Select selects the objects of even versions
	From   sequence.Origin
	Script []Exchange
	Want   []string
	At     []*checkpoint.Position // of each event: where a run would resume
	Ended  bool                   // the run ended by itself
	timed  bool                   // when a list is read depends on the time
}

// Exchange is a request and its answer, as the conversation tests of package stream have them.
type Exchange struct {
	Request string
	Answer  Answer
}

// Answer is the answer to a request: with Frames, the beginning of a watch.
type Answer struct {
	Version string   // of a list
	Token   string   // of a list
	Objects []string // of a list
	Status  string   // such as "410 Expired"
	Gateway bool     // the body is no Status
	Busy    bool     // the server asks to wait for 7 s
	Refuses bool     // there is no connection
	Frames  []string // of a watch
	Watch   bool
}

// conversation returns a way from a state as a Conversation.
func conversation(from *world, way []Taken[*world]) *Conversation {
	c := &Conversation{Name: from.setup.name, Rules: from.setup.rules, Even: from.setup.selects, From: from.setup.from}
	if p := c.From.Position; p != nil {
		c.From.Position = inScript(p)
	}
	last := from
	for _, taken := range way {
		m := taken.Step.(move)
		last = taken.To
		if of, ok := m.from.session.state.(protocol.Streaming); ok && of.Doubted() && m.from.relists {
			c.timed = true
		}
		switch {
		case m.words == resumes, m.leaves > 0:
			c.Script, c.From = nil, sequence.Origin{Position: inScript(last.session.receiver.from)}
		case m.words != "", m.write.version > 0:
		default:
			c.add(m)
		}
	}
	for _, ev := range last.session.receiver.events {
		c.Want = append(c.Want, ev.String())
		if ev.at != nil {
			c.At = append(c.At, inScript(ev.at))
		}
	}
	_, c.Ended = last.session.state.(protocol.Stopped)
	if n := len(c.Script); n > 0 && last.wire.open {
		a := &c.Script[n-1].Answer
		a.Frames = append(a.Frames, "open")
	}
	return c
}

// inScript returns a Position with the uids and the namespace that the objects of a script have.
func inScript(p *checkpoint.Position) *checkpoint.Position {
	in := *p
	in.Objects = nil
	for _, o := range p.Objects {
		o.Namespace, o.UID = "default", types.UID(fmt.Sprint("u", objectOf(entryOf(o)).uid))
		in.Objects = append(in.Objects, o)
	}
	return &in
}

// add adds a reply: an exchange, or what arrives on the watch of the last one.
func (c *Conversation) add(m move) {
	if asked := m.from.request(); asked != "" {
		c.Script = append(c.Script, Exchange{asked, m.reply.answer()})
		return
	}
	a := &c.Script[len(c.Script)-1].Answer
	a.Frames = append(a.Frames, m.reply.frames()...)
}

// text returns an answer as a conversation test writes it.
func (a Answer) text() string {
	switch {
	case a.Watch:
		return "watch(" + quoted(a.Frames) + ")"
	case a.Busy:
		return "busy"
	case a.Refuses:
		return "refuse"
	case a.Status != "":
		code, reason, _ := strings.Cut(a.Status, " ")
		if a.Gateway {
			return fmt.Sprintf("gateway(%s)", code)
		}
		return fmt.Sprintf("status(%s, %q)", code, reason)
	}
	return "list(" + quoted(append([]string{a.Version, a.Token}, a.Objects...)) + ")"
}

func quoted(all []string) string {
	var q []string
	for _, s := range all {
		q = append(q, fmt.Sprintf("%q", s))
	}
	return strings.Join(q, ", ")
}

// String returns a row for the conversation tests of package stream (see testConversations there).
func (c *Conversation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{%q, %s,\n\t[]exchange{\n", c.Name, c.setup())
	for _, e := range c.Script {
		fmt.Fprintf(&b, "\t\t{%q, %s},\n", e.Request, e.Answer.text())
	}
	ended := ""
	if c.Ended {
		ended = ", and the run ended, with an error or without"
	}
	fmt.Fprintf(&b, "\t},\n\t[]string{%s}, // this is what was delivered%s\n\t\"why\"},\n", quoted(c.Want), ended)
	return b.String()
}

func (c *Conversation) setup() string {
	var run []string
	switch p := c.From.Position; {
	case c.From.Now:
		run = append(run, "Start: stream.Now()")
	case c.From.After != "":
		run = append(run, fmt.Sprintf("Start: stream.After(%q)", c.From.After))
	case p != nil:
		run = append(run, fmt.Sprintf("Start: stream.From(%#v)", *p))
	}
	run = append(run, "Bookmarks: true")
	if c.Rules.RetryRefused {
		run = append(run, "RetryRefused: true")
	}
	if c.Rules.FailOnGap {
		run = append(run, "FailOnGap: true")
	}
	if c.Rules.UntilSynced {
		run = append(run, "Until: stream.UntilSynced")
	}
	if c.Rules.UntilClosed {
		run = append(run, "Until: stream.UntilClosed")
	}
	selects := ""
	if c.Even {
		selects = "Options: stream.Options{Select: even}, "
	}
	return "setup{" + selects + "Run: stream.Run{" + strings.Join(run, ", ") + "}}"
}

// Conversations yields random ways of up to so many steps through the models, without those that need client-go's fake,
// a caller that gives up, a list that is due half a minute after another one or later, or package follow, which moves a
// sequence to another scope.
func Conversations(r *rand.Rand, steps int) iter.Seq[*Conversation] {
	var usable []*setup
	for _, u := range setups() {
		moved := false
		if p := u.from.Position; p != nil {
			_, moved = p.At("")
		}
		if !u.fake && !u.gives && !moved {
			usable = append(usable, u)
		}
	}
	return func(yield func(*Conversation) bool) {
		for {
			start := newWorld(usable[r.IntN(len(usable))])
			start.session.noting = true
			c := conversation(start, wander(r, start, steps))
			if c.isScript() && !c.timed && !yield(c) {
				return
			}
		}
	}
}

// isScript reports whether the answers can be written down: the failure of a watch that is Unusable can't, because that
// is found out by the reader of a client.
func (c *Conversation) isScript() bool {
	return !slices.ContainsFunc(c.Script, func(e Exchange) bool {
		return strings.HasPrefix(e.Request, "watch") && e.Answer.Status == codes[protocol.Unusable]
	})
}

// wander takes random steps.
func wander[M Model[M]](r *rand.Rand, at M, steps int) (way []Taken[M]) {
	for range steps {
		var all []Taken[M]
		for step, to := range at.Steps() {
			all = append(all, Taken[M]{step, to})
		}
		if len(all) == 0 {
			break
		}
		taken := all[r.IntN(len(all))]
		way, at = append(way, taken), taken.To
	}
	return way
}
