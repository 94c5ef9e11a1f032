package sequence

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// Kind is the type of an Event, with the values of stream.Type.
type Kind string

const (
	Added    Kind = "ADDED"
	Modified Kind = "MODIFIED"
	Deleted  Kind = "DELETED"
	Bookmark Kind = "BOOKMARK"
	Synced   Kind = "SYNCED"
	Gap      Kind = "GAP"
)

// Event is what a stream.Event is made of.
type Event struct {
	Kind            Kind
	Namespace       string // of the Worker
	Object          *unstructured.Unstructured
	JSON            []byte
	Memory          int64 // about how much the Object takes, or 0 if that has not been counted
	ResourceVersion string
	Inferred        bool
	Gap             *Break     // set only for a Gap
	Mark            *acks.Mark // nil without a checkpoint
}

// Break is what a Gap reports.
type Break struct {
	Reason      protocol.Reason
	From, To    string
	Duration    time.Duration
	HistoryLost bool
}
