package sequence

import (
	"context"

	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// acking is the part of delivery that concerns the checkpoint. Without one it does nothing.
type acking struct {
	progress *acks.Progress // nil without a checkpoint
	report   *report
}

// changed returns the function that notes what the index changes for the checkpoint.
func (a acking) changed() func(objects.Version, bool) {
	if a.progress == nil {
		return nil
	}
	return func(e objects.Version, gone bool) { a.progress.Note(acks.Change{Version: e, Gone: gone}) }
}

// mark returns the mark of the next Step. mayBeKnown says that the Step is the ADDED of an object that an earlier run
// may have delivered.
func (a acking) mark(mayBeKnown bool) *acks.Mark {
	if a.progress == nil {
		return nil
	}
	if mayBeKnown {
		a.progress.MayBeKnown()
	}
	return a.progress.Mark(a.report.point())
}

// pass records a change of the position or the index that comes without a Step.
func (a acking) pass() {
	if a.progress != nil {
		a.progress.Pass(a.report.point())
	}
}

// writesAhead reports whether new objects are written to the checkpoint before they are delivered.
func (a acking) writesAhead() bool { return a.progress != nil && a.progress.WritesAhead() }

// isWritten reports whether the checkpoint has an entry for an object, or will get one with the next commit.
func (a acking) isWritten(id objects.ID) bool { return a.progress.IsWrittenAhead(id) }

// writeAhead writes objects to the checkpoint. If it returns an error, they must not be delivered.
func (a acking) writeAhead(ctx context.Context, fresh []objects.ID) error {
	return a.progress.WriteAhead(ctx, fresh)
}

// writeSynced writes to the checkpoint that SYNCED is about to be delivered.
func (a acking) writeSynced(ctx context.Context, resourceVersion string) error {
	if a.progress == nil {
		return nil
	}
	_, partial := a.report.point()
	return a.progress.WriteSynced(ctx, resourceVersion, partial)
}

// writeVersion writes the version of SYNCED to the checkpoint, if it is acked.
func (a acking) writeVersion(ctx context.Context) error {
	if a.progress == nil {
		return nil
	}
	return a.progress.WriteVersion(ctx)
}

// writeRewound writes to the checkpoint that the server has gone back in time, for this namespace and the others.
func (a acking) writeRewound(ctx context.Context, others []*acks.Progress) error {
	if a.progress == nil {
		return nil
	}
	return a.progress.Rewound(ctx, others...)
}
