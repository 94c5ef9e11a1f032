package sequence

import (
	"context"
	"log/slog"
	"slices"

	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// contradicted makes an Input of an event that can't be true.
func (w *Worker) contradicted(ctx context.Context, wrong *index.Contradiction, doubted bool) protocol.Input {
	level := slog.LevelWarn
	if doubted {
		level = slog.LevelDebug
	}
	w.requests.scope.log.log(ctx, level, "a list is due, because the server breaks the rules about versions",
		"error", wrong)
	version, _ := w.report.point()
	return protocol.Contradicted{From: version, Cause: wrong}
}

// isBelow reports whether the page has an object in an older version than was delivered.
func (d *delivery) isBelow() bool {
	return slices.ContainsFunc(d.inbox.page, func(o object) bool {
		_, older := d.index.Knows(o.Version)
		return older
	})
}

// compare compares a page of a whole list with what was delivered. After the last page it reports whether they differ.
func (d *delivery) compare(first, last bool) (differs bool) {
	if first {
		d.compared, d.differs = 0, false
	}
	for _, o := range d.inbox.takePage() {
		if d.target.selects(o) {
			known, _ := d.index.Knows(o.Version)
			d.differs = d.differs || !known
			d.compared++
		}
	}
	return last && (d.differs || d.compared != d.index.Len())
}

// unresumable takes the version back: a run that resumes begins with a list.
func (d *delivery) unresumable() {
	d.report.resourceVersion("")
	d.pass()
}
