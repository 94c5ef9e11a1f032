package sequence

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// Kind is the type of a Step, with the values of stream.Type.
type Kind string

const (
	Added    Kind = "ADDED"
	Modified Kind = "MODIFIED"
	Deleted  Kind = "DELETED"
	Bookmark Kind = "BOOKMARK"
	Synced   Kind = "SYNCED"
	Gap      Kind = "GAP"
)

// Step is one step of the sequence: what a stream.Event is made of.
type Step struct {
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
