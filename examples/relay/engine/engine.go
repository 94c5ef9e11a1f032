// Package engine says what the relay requires of a message engine. Package jetstream has the one that exists, and
// Memory is one for tests.
//
// A Log keeps messages in the order in which they were published. Of each object, and of each resource, it keeps at
// least the last message; of a deleted object, until it expires. So the log is at the same time the history of the
// objects and a view of their last states. It also keeps the Position of each unit.
//
// # What an engine has to promise
//
//   - Publish is atomic: readers see all messages and positions of a call, or none, also after a crash.
//   - Publish is durable when it returns, as far as the engine is.
//   - Publish compares and sets: it is refused with ErrFenced if the position of a unit has changed since its revision.
//   - Only Expire removes positions, and nothing removes the last message of an object that exists.
//
// Kafka could do this with a transactional producer for each unit (its epoch fences, as transactional.id), a compacted
// topic keyed by cluster, resource and uid, and the positions in the same transaction. PostgreSQL could do it with one
// transaction: insert the messages, and update the position where the revision is the expected one.
package engine

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"
)

// ErrFenced is wrapped by the error of Publish if the position of a unit is not the expected one: another replica has
// taken the unit, or an earlier Publish without an answer has succeeded.
var ErrFenced = errors.New("the position has changed")

// ErrTooLarge is wrapped by the error of Publish if a message is larger than Limits.MessageBytes, what identifies it is
// too long for the engine, or there are more messages than Limits.Messages. It is wrapped by that of Check, too.
var ErrTooLarge = errors.New("too large")

// ErrFailed is wrapped by the error that Log.Failed sends.
var ErrFailed = errors.New("the engine can't be used any more")

// Log keeps messages and positions. Its methods may be called from any goroutine.
type Log interface {
	// Limits returns what the engine accepts now.
	Limits() Limits
	// Check returns an error that wraps ErrTooLarge if Publish can't accept a message with the Limits of now, whatever
	// else is published with it.
	Check(m Message) error
	// Failed receives the reason if the Log can't be used any more: a new one is needed.
	Failed() <-chan error
	// Position returns the position of a unit, or the zero Entry if it has none.
	Position(ctx context.Context, u Unit) (Entry, error)
	// Positions returns the positions of all units of a resource, or of everything if r is zero. The namespace of r is
	// ignored.
	Positions(ctx context.Context, r Unit) ([]Entry, error)
	// Publish appends the messages of all parts, and sets the positions. It returns the new revision of each part.
	// All or nothing is published. The error wraps ErrFenced if the revision of a part is not the last one. After any
	// other error it is unknown whether the call was successful: the caller repeats it, or reads the position.
	Publish(ctx context.Context, parts []Part) ([]uint64, error)
	// Objects returns the last message of each object of a unit, deleted ones too, and no others. It has all that was
	// published before, and may have what is published meanwhile. Without data, Message.Data and Message.ID are empty.
	Objects(ctx context.Context, u Unit, data bool) ([]Message, error)
	// Tail yields the messages that match, in the order of the log, and waits for more.
	Tail(ctx context.Context, opts TailOptions) iter.Seq2[Message, error]
	// Expire removes all messages of the objects whose last message is a deletion from before a time, and the positions
	// from before it that have no owner and no objects, such as those of deleted namespaces.
	Expire(ctx context.Context, before time.Time) error
}

// Group knows which replicas of a relay are alive. Its methods may be called from any goroutine.
type Group interface {
	// Join says that m is alive for another Member.Lease, and what it is doing. A part of that may be left out.
	Join(ctx context.Context, m Member) error
	// Leave says that a member has ended.
	Leave(ctx context.Context, id string) error
	// Members returns those who have joined and not left, sorted by ID. It leaves out those who have not joined again
	// for some leases: a caller that needs to know earlier compares Member.Revision or Member.Age.
	Members(ctx context.Context) ([]Member, error)
}

// Limits are those of one call of Publish.
type Limits struct {
	Messages     int // positions count, too
	MessageBytes int // of one message, without its subject and headers
	Bytes        int // of all messages
}

// Unit is what one replica publishes at a time: a resource of a cluster or, if Namespace is set, one namespace of it.
type Unit struct {
	Cluster   string `json:"cluster"`
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
}

// String returns "cluster/deployments.apps", or "cluster/deployments.apps/namespace".
func (u Unit) String() string {
	s := u.Cluster + "/" + u.Resource
	if u.Group != "" {
		s += "." + u.Group
	}
	if u.Namespace != "" {
		s += "/" + u.Namespace
	}
	return s
}

// Whole returns the unit without its namespace.
func (u Unit) Whole() Unit {
	u.Namespace = ""
	return u
}

// Compare orders units by their text.
func (u Unit) Compare(v Unit) int { return strings.Compare(u.String(), v.String()) }

// Position says up to where the changes of a unit are in the log, and who publishes them.
type Position struct {
	// ResourceVersion is the version up to which everything is in the log. It is empty within a snapshot.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Rewound means that the server has gone back in time, and that not everything that reports it is in the log.
	Rewound bool `json:"rewound,omitempty"`
	// Scope identifies what decides which objects are published, and how: the cluster, selectors, redaction.
	Scope string `json:"scope,omitempty"`
	// Owner is the member that publishes. It is empty if nobody does.
	Owner string `json:"owner,omitempty"`
	// Epoch counts how often the unit has been taken by an owner.
	Epoch uint64 `json:"epoch"`
	// Commit counts the calls of Publish in the epoch.
	Commit uint64 `json:"commit"`
}

// Entry is a Position in the log.
type Entry struct {
	Unit     Unit
	Position Position
	// Revision changes each time the position is set. It is 0 if there is none. Of two entries, that with the higher
	// revision was set later.
	Revision uint64
}

// Part is what Publish publishes of one unit.
type Part struct {
	Unit     Unit
	Position Position // the new one
	Revision uint64   // the expected one, of the position before; 0 if there is none
	Messages []Message
}

// Type is that of a Message.
type Type string

// Gap, Synced and Skipped are about a resource (or the namespace of a Unit), the others about an object.
const (
	Added    Type = "added"
	Modified Type = "modified"
	Deleted  Type = "deleted"
	Gap      Type = "gap"
	Synced   Type = "synced"
	// Skipped stands for an event that the engine can't take: what it has of the object may be missing or old.
	Skipped Type = "skipped"
)

// Message is one event.
type Message struct {
	// Unit is that of the object, with the object's namespace, if it has one. That of Gap, Synced and Skipped is the
	// whole unit.
	Unit            Unit
	Name            string // empty for Gap, Synced and Skipped
	UID             string // empty for Gap, Synced and Skipped
	Type            Type
	ResourceVersion string
	ID              string    // of the CloudEvent
	Scope           string    // see Position: with another one, the same ID is no repetition. It is not stored.
	Data            []byte    // the CloudEvent in structured JSON
	Revision        uint64    // set by the Log: grows in the order of the log
	Time            time.Time // set by the Log: when it was published
}

// TailOptions select the messages that Tail yields.
type TailOptions struct {
	// Pattern is a subject as the engine has them, with its wildcards. Empty means those of Units.
	Pattern string
	// Units are those whose messages match. None means all messages. One without a namespace has those of all.
	Units []Unit
	// All begins with what the log has. Otherwise Tail begins with what is published from now on.
	All bool
	// Since begins with what was published since then by the log's clock. Zero means nothing; All is stronger.
	Since time.Time
	// UntilEnd ends the sequence with what the log has at the start, instead of waiting for more. Without Since it
	// implies All.
	UntilEnd bool
}

// Member is a replica of a relay.
type Member struct {
	ID string `json:"id"`
	// Config identifies the configuration. Members with another one do not share units.
	Config  string    `json:"config,omitempty"`
	Started time.Time `json:"started"`
	// Lease is how long after it has joined the member is alive.
	Lease time.Duration `json:"lease"`
	// Leaving means that the member takes no more units, and releases those that it has.
	Leaving bool         `json:"leaving,omitempty"`
	Units   []UnitStatus `json:"units,omitempty"` // that it owns, sorted
	// Waiting are units that it should own, and why it does not.
	Waiting []UnitStatus `json:"waiting,omitempty"`
	// Refused is why the engine does not accept the messages of the member. It is empty if it does, or none were sent.
	Refused string `json:"refused,omitempty"`
	// Problems concern no unit: a cluster whose API cannot be read, for example.
	Problems []string `json:"problems,omitempty"`
	// Revision is set by Members. It changes each time the member joins.
	Revision uint64 `json:"-"`
	// Age is set by Members: how long ago the member has joined last, by the clock of the engine.
	Age time.Duration `json:"-"`
}

// UnitStatus describes a unit for people.
type UnitStatus struct {
	Unit  Unit   `json:"unit"`
	State string `json:"state"` // stream.State; Waiting, or Held by another member, if it is not taken
	// Synced means that everything that existed is in the log, and what has changed since is in it or pending.
	Synced bool   `json:"synced"`
	Epoch  uint64 `json:"epoch"`
	// ResourceVersion is the version up to which everything is in the log.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Objects         int    `json:"objects"`
	Pending         int    `json:"pending"` // events that are received and not in the log
	// Coalesced counts the events that became part of a newer one while the engine was slow.
	Coalesced uint64 `json:"coalesced,omitempty"`
	// Lag is the age of the oldest of these.
	Lag time.Duration `json:"lag"`
	// Skipped counts the events that the engine can't take, since the unit was taken.
	Skipped uint64 `json:"skipped,omitempty"`
	// Problem is why State is not Streaming. It is empty if all is well.
	Problem string `json:"problem,omitempty"`
}
