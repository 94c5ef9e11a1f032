package relay

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// TestOwnerOf: units are shared about equally, and a member that joins or leaves moves no others.
func TestOwnerOf(t *testing.T) {
	const units = 3000
	three, four := []string{"a", "b", "c"}, []string{"c", "b", "d", "a"}
	share := map[string]int{}
	for i := range units {
		u := engine.Unit{Cluster: "test", Resource: fmt.Sprintf("r%d", i)}
		before, after := ownerOf(u, three), ownerOf(u, four)
		if before != after && after != "d" {
			t.Fatalf("%s moves from %s to %s because d joins", u, before, after)
		}
		share[after]++
	}
	for id, n := range share {
		if n < units/4*8/10 || n > units/4*12/10 {
			t.Errorf("%s has %d units of %d, want about a quarter", id, n, units)
		}
	}
	if len(share) != 4 {
		t.Errorf("%d members have units, want 4", len(share))
	}
	if owner := ownerOf(engine.Unit{}, nil); owner != "" {
		t.Errorf("without members, %q owns a unit", owner)
	}
}

func TestSharing(t *testing.T) {
	members := []engine.Member{
		{ID: "me", Config: "x"}, {ID: "same", Config: "x"}, {ID: "other", Config: "y"},
		{ID: "leaving", Config: "x", Leaving: true},
	}
	if diff := cmp.Diff([]string{"me", "same"}, sharing(members, "x", "me")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"me"}, sharing(nil, "x", "me")); diff != "" {
		t.Errorf("before it is a member: -want +got:\n%s", diff)
	}
}

// silent is a Group that never answers.
type silent struct{}

func (silent) Join(ctx context.Context, _ engine.Member) error {
	<-ctx.Done()
	return ctx.Err()
}

func (silent) Leave(context.Context, string) error { return nil }

func (silent) Members(context.Context) ([]engine.Member, error) { return nil, nil }

// TestLeaseTooShort: an engine that takes longer than the lease permits is a warning that names the lease.
func TestLeaseTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := &membership{
			group: silent{}, self: engine.Member{ID: "me", Lease: 3 * time.Second}, trusted: time.Now(),
			status: func() engine.Member { return engine.Member{} },
			logger: slog.New(slog.NewTextHandler(&log, nil)),
		}
		m.join(t.Context())
		m.join(t.Context())
		const want = `err="no answer within 1s, a third of replica.lease"`
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log is\n%s\nwant one line with %s", log.String(), want)
		}
	})
}
