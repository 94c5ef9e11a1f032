package follow

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// custom is what is known of CustomResourceDefinitions, with Selection.Custom. A definition has the name of the
// resource that it defines, "widgets.example.com", so that their names are enough.
type custom struct {
	report func(ResourceStatus) // common.report

	mu      sync.Mutex
	names   map[string]bool                     // as they were last, also while they can't be watched
	waiting map[schema.GroupResource]*candidate // without a definition
	status  ResourceStatus                      // of the definitions, after a run as it was last
	known   bool                                // names are those of this run
	failing failing
}

// failing says since when requests for the definitions fail, and why they did last. It is zero while none does.
type failing struct {
	since time.Time
	cause error
}

// maxStarting is how long the definitions may be Starting, or requests for them fail. Then they are Failing, and
// Options.UntilSynced does not wait for them.
const maxStarting = time.Minute

// candidate is a resource that is served and selected.
type candidate struct {
	resource gvr.Resource
	initial  bool // was served when the run of the Mux began
}

func newCustom(report func(ResourceStatus)) *custom {
	c := &custom{report: report}
	c.begin()
	return c
}

// begin begins a run of the Mux.
func (c *custom) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting, c.known, c.failing = map[schema.GroupResource]*candidate{}, false, failing{}
	c.status = ResourceStatus{Resource: definitions, State: Starting, Since: time.Now()}
}

// defines reports whether r has a definition. If not, r waits for one.
func (c *custom) defines(r gvr.Resource, initial bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := r.GroupResource()
	if c.names[of.String()] {
		delete(c.waiting, of)
		return true
	}
	if before := c.waiting[of]; before != nil {
		initial = before.initial
	}
	c.waiting[of] = &candidate{r, initial}
	return false
}

// remove is called when a resource is no longer served.
func (c *custom) remove(r gvr.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, r.GroupResource())
}

// set records the names of all definitions. It returns the resources that have waited for one of them, and the names
// that are gone.
func (c *custom) set(names []string) (gained []*candidate, lost []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.names
	c.names = map[string]bool{}
	for _, n := range names {
		c.names[n] = true
		delete(before, n)
	}
	for n := range before {
		lost = append(lost, n)
	}
	for of, one := range c.waiting {
		if c.names[of.String()] {
			gained = append(gained, one)
		}
	}
	return gained, lost
}

// get returns the status of the definitions.
func (c *custom) get() ResourceStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// watcher returns what watches the definitions during a run of the Mux. changed receives their names, or nil when they
// are not known any more.
func (c *custom) watcher(client dynamic.Interface, changed func(names []string)) *nameWatcher {
	return &nameWatcher{
		resource: definitions, client: client, retry: 8 * time.Second, changed: changed, state: c.handleState,
		run: stream.Run{RetryRefused: true}, // so that a refusal is a state
	}
}

// handleState handles a state of the watch. What the Stream leaves by itself makes the definitions Failing only if it
// lasts (limit).
func (c *custom) handleState(st stream.Status) {
	c.change(func(now *ResourceStatus) {
		switch {
		case st.State == stream.Stopped:
		case st.State == stream.Streaming:
			if c.failing = (failing{}); c.known && now.State == Failing {
				now.State, now.Cause = Watching, nil
			}
		case st.Cause == nil:
		case st.State == stream.Forbidden:
			now.State, now.Cause = Forbidden, st.Cause
		case st.State == stream.Gone:
			now.State, now.Cause = Gone, st.Cause
		default:
			if c.failing.since.IsZero() && st.State != stream.Unordered { // which is watched all the same
				c.failing.since = time.Now()
			}
			if c.failing.cause = st.Cause; now.State == Starting || now.State == Failing {
				now.Cause = st.Cause
			}
		}
	})
}

// limit makes the definitions Failing once they have been Starting, or failing, for maxStarting.
func (c *custom) limit(ctx context.Context) {
	for wait.Sleep(ctx, maxStarting/6, nil) {
		c.change(func(now *ResourceStatus) {
			switch {
			case now.State == Watching && !c.failing.since.IsZero() && time.Since(c.failing.since) >= maxStarting:
				now.State, now.Cause = Failing, c.failing.cause
			case now.State == Starting && time.Since(now.Since) >= maxStarting:
				now.State = Failing
				if now.Cause == nil {
					now.Cause = fmt.Errorf("the server has not sent all definitions within %v", maxStarting)
				}
			}
		})
	}
}

// change changes the status of the definitions, and reports what is wrong, or no longer is.
func (c *custom) change(set func(*ResourceStatus)) {
	c.mu.Lock()
	before := c.status.State
	set(&c.status)
	if c.status.State != before {
		c.status.Since = time.Now()
	}
	status := c.status
	c.mu.Unlock()
	if status.State != before && (status.State != Watching || before != Starting) {
		c.report(status)
	}
}

// define attaches and detaches resources after a change of the definitions; nil names are not known.
func (f *follower) define(ctx context.Context, names []string) {
	f.resolver.Refresh()
	if names == nil {
		return
	}
	f.attaching.Lock() // so that discovery removes none of them meanwhile
	gained, lost := f.custom.set(names)
	for _, one := range gained {
		f.attachNext(ctx, one.resource, one.initial)
	}
	for _, n := range lost {
		if s := f.find(schema.ParseGroupResource(n)); s != nil && s.get().served.now {
			f.attachNext(ctx, s.get().served.resource, false)
		}
	}
	f.attaching.Unlock()
	f.custom.change(func(now *ResourceStatus) {
		now.State, now.Cause = Watching, nil
		f.custom.known, f.custom.failing = true, failing{}
	})
}
