package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/gvr"
)

// hostile makes the answers of an API server those of one that gives an object a uid of its own.
func hostile(c *rest.Config, uid, other string) {
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := rt.RoundTrip(r)
			if err == nil {
				resp.Body = &replacing{ReadCloser: resp.Body, from: []byte(uid), to: []byte(other)}
				resp.ContentLength = -1
				resp.Header.Del("Content-Length")
			}
			return resp, err
		})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// replacing replaces a text, which each Read of the body has as a whole.
type replacing struct {
	io.ReadCloser
	from, to, left []byte
}

func (r *replacing) Read(b []byte) (int, error) {
	if len(r.left) == 0 {
		chunk := make([]byte, 1<<20)
		n, err := r.ReadCloser.Read(chunk)
		if r.left = bytes.ReplaceAll(chunk[:n], r.from, r.to); err != nil && n == 0 {
			return 0, err
		}
	}
	n := copy(b, r.left)
	r.left = r.left[n:]
	return n, nil
}

// TestSkips: an event that the engine can't take is replaced by a message that says so, once for each event, and
// everything else is published.
func TestSkips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		w.srv.Put(widgets, "ns", "before")
		uid := string(w.srv.Put(widgets, "ns", "uid").GetUID())
		w.change = func(c *rest.Config) { hostile(c, uid, strings.Repeat("u", 5000)) }
		one := w.start("one")
		time.Sleep(time.Minute)
		first := w.positions()[0].Position.Epoch
		w.srv.Put(widgets, "ns", strings.Repeat("n", 100_000))
		w.srv.Put(widgets, "ns", "after")
		time.Sleep(time.Minute)
		var got []string
		for _, m := range w.messages() {
			ev, err := message.Decode(m.Data)
			if err != nil {
				t.Fatal(err)
			}
			if s := ev.Skipped; s != nil {
				got = append(got, fmt.Sprintf("skipped %s %s: %s", s.Type, s.Subject[:6], s.Reason))
				if len(m.Data) > 2000 {
					t.Errorf("the message has %d bytes", len(m.Data))
				}
			} else if m.UID != "" {
				got = append(got, string(m.Type)+" "+m.Name)
			}
		}
		want := []string{
			"added before",
			"skipped added ns/uid: too large: what identifies a message has 5004 bytes, 4096 at most",
			"skipped added ns/nnn: too large: what identifies a message has 100037 bytes, 4096 at most",
			"added after",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if s := one.relay.Status(); s.Units[0].Skipped != 2 || s.Units[0].Epoch != first {
			t.Errorf("status %+v, want 2 skipped events in epoch %d", s.Units[0], first)
		}
		w.ready("one")
		w.stopAll()
	})
}

// TestEngineFails: when the engine can't be used any more, Run ends with the reason.
func TestEngineFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		w.log.Break = make(chan error, 1)
		one := w.start("one")
		w.converged()
		one.link.cut(true)
		w.log.Break <- fmt.Errorf("%w: maximum control line exceeded", engine.ErrFailed)
		began := time.Now()
		<-one.done
		if took := time.Since(began); !errors.Is(one.err, engine.ErrFailed) || took > time.Second {
			t.Errorf("Run has ended after %v with %v, want ErrFailed at once", took, one.err)
		}
		one.end()
	})
}

// TestTakesLarge: a unit whose objects take many leases to read is taken once, while the replica goes on to announce
// itself, to take other units, and to release them.
func TestTakesLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, gadgets)
		defer w.srv.Close()
		w.srv.Put(widgets, "ns", "a")
		w.start("before")
		w.converged()
		w.stop("before")
		w.delay = 20 * lease
		one := w.start("one")
		for range 19 {
			time.Sleep(lease)
			synctest.Wait()
			if err := one.relay.Healthy(); err != nil {
				t.Fatalf("not healthy: %v", err)
			}
			if members, _ := w.log.Members(t.Context()); len(members) != 1 || members[0].Age > lease/2 {
				t.Fatalf("members: %+v, want one that has reported", members)
			}
			if err := one.relay.Ready(); err == nil {
				t.Fatal("the replica is ready while it takes its units")
			}
		}
		w.srv.Put(widgets, "ns", "b")
		w.converged()
		for _, e := range w.positions() {
			if e.Position.Epoch != 2 || e.Position.Owner != "one" {
				t.Errorf("%s: %+v, want epoch 2 of one", e.Unit, e.Position)
			}
		}
		w.ready("one")
		w.stopAll()
		w.judge()
	})
}

// TestPublishesSlowly: a slow engine gets smaller batches. One of a thousand messages would never be accepted, whatever
// is in it, and be repeated for ever.
func TestPublishesSlowly(t *testing.T) {
	for _, c := range []struct {
		why  string
		late bool
	}{
		{"what has no answer in time is not published", false},
		{"what has no answer in time is published", true},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, widgets, gadgets)
				defer w.srv.Close()
				for i := range 1500 {
					w.srv.Put(widgets, "ns", fmt.Sprint("w", i))
					w.srv.Put(gadgets, "ns", fmt.Sprint("g", i))
				}
				one := w.start("one")
				one.link.mu.Lock()
				one.link.each, one.link.late = 20*time.Millisecond, c.late
				one.link.mu.Unlock()
				w.converged()
				w.ready("one")
				for _, e := range w.positions() {
					if e.Position.Epoch != 1 {
						t.Errorf("%s: %+v, want epoch 1", e.Unit, e.Position)
					}
				}
				w.stopAll()
				w.judge()
			})
		})
	}
}

// TestTakesAfterAnother: while the objects of a unit are read, the status does not say that another replica has it.
func TestTakesAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, gadgets, planets) // of some of which two is the owner while one may be alive
		defer w.srv.Close()
		w.srv.Put(widgets, "ns", "a")
		w.start("one")
		w.converged()
		w.kill("one")
		w.delay = 20 * lease
		two := w.start("two")
		time.Sleep(5 * lease)
		synctest.Wait()
		s := two.relay.Status()
		if len(s.Waiting) != 3 {
			t.Errorf("waiting: %+v, want three units", s.Waiting)
		}
		for _, u := range s.Waiting {
			if u.State != "Waiting" || !strings.HasPrefix(u.Problem, "being taken") {
				t.Errorf("%+v, want a unit that is being taken", u)
			}
		}
		if err := two.relay.Ready(); err == nil {
			t.Error("the replica is ready while it takes its units")
		}
		w.srv.Put(widgets, "ns", "b")
		w.converged()
		w.stopAll()
	})
}

// TestQueuedTakesAreCanceled: what waits for its turn behind large units is canceled, too. A round that waited for
// these would do nothing else for as long as they take.
func TestQueuedTakesAreCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []gvr.Resource
		for i := range 40 {
			all = append(all, resource("example.com", fmt.Sprint("Kind", i), fmt.Sprintf("kind%ds", i), true))
		}
		w := newWorld(t, all...)
		defer w.srv.Close()
		w.delay = time.Hour
		one := w.start("one")
		w.delay = 0
		time.Sleep(2 * lease)
		two := w.start("two")
		time.Sleep(12 * lease)
		synctest.Wait()
		if err := one.relay.Healthy(); err != nil {
			t.Errorf("not healthy: %v", err)
		}
		if n := len(two.relay.Status().Units); n < 10 {
			t.Errorf("two has %d units of 40, want about half", n)
		}
		w.stopAll()
	})
}

// TestSaysThatServerHangs: an API server that takes requests, and does not answer, is a problem at once: otherwise the
// status would say that all is well, as there is no unit.
func TestSaysThatServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		var hangs atomic.Bool
		hangs.Store(true)
		w.change = func(c *rest.Config) {
			c.Wrap(func(rt http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if hangs.Load() {
						return nil, waitOr(r.Context(), time.Hour)
					}
					return rt.RoundTrip(r)
				})
			})
		}
		one := w.start("one")
		time.Sleep(lease / 2)
		synctest.Wait()
		const want = "cluster test: the API server has not said yet what there is to publish"
		if diff := cmp.Diff([]string{want}, one.relay.Status().Problems); diff != "" {
			t.Errorf("problems: -want +got:\n%s", diff)
		}
		if err := one.relay.Ready(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v", err)
		}
		hangs.Store(false)
		w.srv.Put(widgets, "ns", "a")
		w.converged()
		w.ready("one")
		w.stopAll()
	})
}

// TestTakeIsCanceled: a unit that another replica should own is not taken any more, and one that ends takes nothing.
func TestTakeIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, gadgets, planets)
		defer w.srv.Close()
		w.delay = time.Hour
		w.start("one")
		w.delay = 0
		time.Sleep(2 * lease)
		for _, e := range w.positions() {
			if e.Position.Owner != "one" {
				t.Fatalf("%s: %+v, want one to take it", e.Unit, e.Position)
			}
		}
		w.start("two")
		w.start("three")
		time.Sleep(2 * lease)
		owners := map[string]int{}
		for _, e := range w.positions() {
			owners[e.Position.Owner]++
		}
		if len(owners) < 2 {
			t.Errorf("owners: %v, want others than one, too", owners)
		}
		began := time.Now()
		w.stop("one")
		if took := time.Since(began); took > time.Second {
			t.Errorf("one has ended after %v", took)
		}
		w.srv.Put(widgets, "ns", "a")
		w.converged()
		w.stopAll()
		w.judge()
	})
}

// TestSaysWhyNotTaken: a unit that can't be taken is a problem, and a warning with the cause, once.
func TestSaysWhyNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		var out bytes.Buffer
		w.logger = slog.New(slog.NewTextHandler(&out, nil))
		refuse := refusing(w)
		refuse.Store(true)
		one := w.start("one")
		time.Sleep(10 * lease)
		synctest.Wait()
		s := one.relay.Status()
		if len(s.Waiting) != 1 || !strings.Contains(s.Waiting[0].Problem, "insufficient storage") {
			t.Errorf("status: %+v", s)
		}
		refuse.Store(false)
		w.converged()
		w.stopAll()
		if n := strings.Count(out.String(), "level=WARN msg=\"a unit is not taken; trying again\""); n != 1 ||
			!strings.Contains(out.String(), "insufficient storage") {
			t.Errorf("%d warnings, want one with the cause:\n%s", n, &out)
		}
	})
}

// TestNotReady: a replica is not ready while it could not publish if it had to.
func TestNotReady(t *testing.T) {
	for _, c := range []struct {
		why         string
		spoil, heal func(w *world)
		want        string
	}{
		{
			"it can't report, and has nothing to publish",
			func(w *world) { w.replicas["idle"].link.cut(true) }, func(w *world) { w.replicas["idle"].link.cut(false) },
			"does not take the reports of this replica",
		},
		{
			"the engine refuses the messages of another one",
			func(w *world) { w.refuses.Store(true); w.srv.Put(widgets, "ns", "b") },
			func(w *world) { w.refuses.Store(false) },
			"does not accept the messages of owner: insufficient storage",
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, widgets, gadgets)
				defer w.srv.Close()
				w.config.Selection.Resources = []string{"widgets"}
				refusing(w)
				notReady := func() string {
					if err := w.replicas["idle"].relay.Ready(); err != nil {
						return err.Error()
					}
					return ""
				}
				w.start("owner")
				w.srv.Put(widgets, "ns", "a")
				w.converged()
				w.config.Selection.Resources = []string{"gadgets"} // of which there are none
				w.start("idle")
				w.eventually("idle", notReady)
				time.Sleep(2 * lease)
				c.spoil(w)
				time.Sleep(lease)
				synctest.Wait()
				if err := w.replicas["idle"].relay.Ready(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the idle replica: %v, want %q", err, c.want)
				}
				c.heal(w)
				w.eventually("idle", notReady)
				w.ready("owner")
				w.stopAll()
			})
		})
	}
}

// TestNotReadyUnheard: a replica that can't report, but read who else does, is not ready all the time, and warns once.
func TestNotReadyUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		var out bytes.Buffer
		w.logger = slog.New(slog.NewTextHandler(&out, nil))
		one := w.start("one")
		w.srv.Put(widgets, "ns", "a")
		w.converged()
		deaf := func(yes bool) {
			one.link.mu.Lock()
			defer one.link.mu.Unlock()
			one.link.isDeaf = yes
		}
		deaf(true)
		time.Sleep(lease)
		for range 100 {
			time.Sleep(lease / 100)
			synctest.Wait()
			if err := one.relay.Ready(); err == nil || !strings.Contains(err.Error(), "does not take the reports") {
				t.Fatalf("the error is %v", err)
			}
		}
		deaf(false)
		w.ready("one")
		w.stopAll()
		if n := strings.Count(out.String(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings, want one:\n%s", n, &out)
		}
	})
}

// TestNotReadyBehind: an engine that hangs makes the owner not ready after a lease.
func TestNotReadyBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		one := w.start("one")
		w.srv.Put(widgets, "ns", "a")
		w.converged()
		one.link.pause()
		w.srv.Put(widgets, "ns", "b")
		time.Sleep(lease + time.Second)
		synctest.Wait()
		if err := one.relay.Ready(); err == nil || !strings.Contains(err.Error(), "is behind by") {
			t.Errorf("the error is %v", err)
		}
		one.link.resume()
		w.ready("one")
		w.stopAll()
		w.judge()
	})
}

// TestSyncedIsPublished: a unit is synced when everything that exists is in the log, not when it was received.
func TestSyncedIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		w.srv.Put(widgets, "ns", "a")
		var refuse atomic.Bool
		refuse.Store(true)
		w.log.Fail = func(parts []engine.Part) error {
			if refuse.Load() && len(parts[0].Messages) > 0 {
				return errors.New("insufficient storage")
			}
			return nil
		}
		one := w.start("one")
		time.Sleep(2 * lease)
		synctest.Wait()
		if u := one.relay.Status().Units; len(u) != 1 || u[0].Synced || u[0].Pending == 0 {
			t.Errorf("units: %+v, want one that is not synced", u)
		}
		refuse.Store(false)
		w.converged()
		if u := one.relay.Status().Units; len(u) != 1 || !u[0].Synced {
			t.Errorf("units: %+v, want one that is synced", u)
		}
		w.stopAll()
		w.judge()
	})
}

// TestFencedWhileIdle: a replica that was cut off for longer than its lease notices that others have had its units,
// also if nothing happens in them: otherwise nobody would own them, although all replicas were ready.
func TestFencedWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, gadgets, planets)
		defer w.srv.Close()
		w.start("one")
		w.start("two")
		w.converged()
		time.Sleep(4 * lease)
		if len(w.replicas["one"].relay.Status().Units) == 0 {
			t.Fatal("one has no units")
		}
		w.replicas["one"].link.cut(true)
		time.Sleep(3 * lease)
		w.replicas["one"].link.cut(false)
		time.Sleep(lease)
		synctest.Wait()
		for _, e := range w.positions() {
			owner := w.replicas[e.Position.Owner]
			if owner == nil || !slices.ContainsFunc(owner.relay.Status().Units, func(u engine.UnitStatus) bool {
				return u.Unit == e.Unit && u.Epoch == e.Position.Epoch
			}) {
				t.Errorf("%s: %+v, want an owner that publishes it in this epoch", e.Unit, e.Position)
			}
		}
		if len(w.replicas["one"].relay.Status().Units) == 0 {
			t.Error("one has taken no units again")
		}
		w.stopAll()
		w.judge()
	})
}

// TestAcceptsAgain: that the engine refused messages is forgotten when it turns out that they had another owner by
// then: the replica may have nothing more to publish.
func TestAcceptsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		one := w.start("one")
		w.srv.Put(widgets, "ns", "a")
		w.converged()
		e := w.positions()[0]
		refusing(w).Store(true)
		w.srv.Put(widgets, "ns", "b")
		time.Sleep(lease / 3)
		if one.relay.Status().Refused == "" {
			t.Fatal("nothing is refused")
		}
		w.refuses.Store(false)
		e.Position.Owner, e.Position.Epoch = "two", e.Position.Epoch+1
		part := engine.Part{Unit: e.Unit, Position: e.Position, Revision: e.Revision}
		if _, err := w.log.Publish(t.Context(), []engine.Part{part}); err != nil {
			t.Fatal(err)
		}
		if err := w.log.Join(t.Context(), engine.Member{ID: "two", Lease: time.Hour}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease)
		synctest.Wait()
		if s := one.relay.Status(); s.Refused != "" {
			t.Errorf("refused: %s", s.Refused)
		}
		if err := w.log.Leave(t.Context(), "two"); err != nil {
			t.Fatal(err)
		}
		w.converged()
		w.stopAll()
	})
}

// refusing makes the engine refuse everything while the result is true.
func refusing(w *world) *atomic.Bool {
	w.log.Fail = func([]engine.Part) error {
		if w.refuses.Load() {
			return errors.New("insufficient storage")
		}
		return nil
	}
	return &w.refuses
}

func waitOr(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestJustTaken: a unit that was just taken is not synced until a lease later, or a bookmark says that nothing is
// missing: nobody knows for how long what happened meanwhile has waited.
func TestJustTaken(t *testing.T) {
	for _, c := range []struct {
		why    string
		script string
		not    time.Duration // when it is not synced
		after  time.Duration // when it is
	}{
		{"a bookmark comes", "at 0s: bookmarks every 5s", time.Second, 9 * time.Second},
		{"no bookmark comes", "at 0s: bookmarks never", lease - time.Second, lease + 3*time.Second},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, widgets, gadgets)
				defer w.srv.Close()
				w.config.Selection.Resources, w.served = []string{"widgets"}, w.served[:1]
				w.start("before")
				w.srv.Put(widgets, "ns", "a")
				w.converged()
				w.stop("before")
				w.srv.Put(widgets, "ns", "b")
				if err := w.srv.Apply(c.script); err != nil {
					t.Fatal(err)
				}
				w.log.Fail = func(parts []engine.Part) error {
					if len(parts[0].Messages) > 0 {
						time.Sleep(2 * time.Second)
					}
					return nil
				}
				one := w.start("one")
				w.eventually("one", func() string {
					if len(one.relay.Status().Units) == 0 {
						return "has not taken the unit"
					}
					return ""
				})
				taken := time.Now()
				w.srv.Put(gadgets, "ns", "c") // a bookmark has another version
				time.Sleep(c.not)
				synctest.Wait()
				if u := one.relay.Status().Units[0]; u.Synced || one.relay.Ready() == nil {
					t.Errorf("synced after %v: %+v, %v, %+v", time.Since(taken), u, one.relay.Ready(), w.positions())
				}
				time.Sleep(c.after - c.not)
				synctest.Wait()
				if u := one.relay.Status().Units[0]; !u.Synced || one.relay.Ready() != nil {
					t.Errorf("not synced after %v: %+v, %v", time.Since(taken), u, one.relay.Ready())
				}
				w.stopAll()
				w.judge()
			})
		})
	}
}
