package explore

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// setup is what may happen in a walk.
type setup struct {
	name   string
	rules  protocol.Rules
	from   sequence.Origin // with a Position: of an earlier run
	before string          // what has happened to the objects, such as "+a ~a +b -a"
	may    budget
	// failures are the classes of what requests and watches may fail with.
	failures []protocol.Class
	// gateways are the classes of what requests may fail with if a gateway answers.
	gateways []protocol.Class
	bounds   Bounds
	long     bool // it is walked through with -soak only
	always   quirk
	gives    bool // requests fail for longer than the caller wants
	selects  bool // only objects of even versions are selected
	keeps    bool // nothing happens to the first object
	fake     bool // the server is client-go's fake: its objects have neither versions nor uids
	checked  checked
}

// quirk is what a server always does, healthy or not.
type quirk byte

const (
	noQuirk       quirk = iota
	closesExpired       // it never says that a version has expired: it closes the watch
	forbidsLists        // the caller may watch, but not list
	expiresProbes       // a list of one object is answered with 410
	failsPages          // the second page of a list fails
	forbidsPages        // all lists have two pages, and the second one is forbidden
	breaksInitial       // a watch with initial events ends before the first one

	// Those that follow break the rules about versions.
	restartsWatches // a watch begins with what exists, whatever version it is given
	greatestItems   // a list has the greatest version of its objects
	noListVersions  // a list has no version
	swapsEvents     // two events may come in the wrong order
)

// budget says how often something may happen. What it does not name may happen at any time.
type budget struct {
	writes      int8 // of objects
	others      int8 // writes of other resources: they move the version
	poisons     int8 // writes whose event no watch can send
	faults      int8 // failures, and answers that break the rules of lists
	compactions int8
	restarts    int8 // of the server, which loses its history and its connections
	rewinds     int8
	lags        int8 // answers of a replica that lags
	replays     int8 // events that are sent again
	repeats     int8 // pages that are sent again, with another token
	resumes     int8 // the program ends, and begins again at its position
}

// world is a server, a Stream that watches it, and what that has delivered. One that has been made does not change.
type world struct {
	setup   *setup
	server  server
	past    history
	wire    wire
	session session
	left    budget
	logins  int8 // requests in a row that were answered with 401 before SYNCED
	rush    int8 // requests since the last wait, event, or watch that lasted
	relists bool // a list was read because the sequence was doubted: the next one waits
	news    bool // the last step delivered something
	err     error
}

// wire is the open watch, as the server sees it.
type wire struct {
	open     bool
	broken   bool // the server sends nothing more on it
	expired  bool // it began before what the server still has
	position int8 // changes after it are still to be sent
	markless bool // the server does not know what sendInitialEvents is
	existing bool // it begins with what exists at the position
	late     int8 // the version of a change that is sent after the one at the position, or 0
	sent     [len(names)]bool
}

// newWorld returns a world in which nothing has happened yet.
func newWorld(u *setup) *world {
	w := &world{setup: u, server: server{now: 1, compacted: 1, even: u.selects, fake: u.fake}, left: u.may}
	for _, what := range strings.Fields(u.before) {
		k := kind(strings.IndexByte("+~-", what[0]))
		w.past = w.past.with(w.server.write(slices.Index(names[:], what[1:]), k, false))
	}
	w.start(u.from)
	return w
}

// start starts a run.
func (w *world) start(from sequence.Origin) {
	r := receiver{from: from.Position}
	if p := from.Position; p != nil {
		r.resume(*p, w.session.receiver.known)
	}
	noting := w.session.noting
	w.session = begin(w.setup, from)
	w.session.receiver, w.session.noting = r, noting
	w.wire, w.rush, w.logins, w.relists = wire{}, 0, 0, false
	w.pass()
}

// resume starts a run where the last one stands.
func (w *world) resume() {
	w.left.resumes--
	w.start(sequence.Origin{Position: w.session.position(), Snapshot: w.setup.rules.UntilSynced})
}

// pass lets the time of a wait pass.
func (w *world) pass() {
	if s, ok := w.session.state.(protocol.Waiting); ok && !w.setup.gives {
		m, _ := protocol.Recall(s)
		if least := max(m.Failures(), 1); s.Attempt < least && w.err == nil {
			w.err = fmt.Errorf("a wait of attempt %d after %d failures: must be at least %d",
				s.Attempt, m.Failures(), least)
		}
		w.rush = 0
		w.session.state, _ = protocol.Step(s, protocol.Elapsed{})
	}
}

// Steps yields what can happen next.
func (w *world) Steps() iter.Seq2[Step, *world] {
	return func(yield func(Step, *world) bool) {
		on := true
		m := &moves{from: w, yield: func(s move, next *world) { on = on && yield(s, next) }}
		if _, over := w.session.state.(protocol.Stopped); over {
			return
		}
		m.ofServer()
		if w.left.resumes > 0 {
			m.resume()
		}
		m.replies()
	}
}

// take gives the Stream a reply.
func (w *world) take(r reply) {
	before := w.session
	w.server.answered = max(w.server.answered, r.shows())
	w.session.now = moment(len(w.past.changes))
	if r.begins(before.state) {
		w.session.receiver.listed = append(slices.Clip(w.session.receiver.listed), w.session.now)
	}
	in := r.input(w)
	w.count(in)
	w.countLogins(r)
	w.relists = w.relists || r.kind == relists
	err := w.session.take(in, r)
	news := w.session.receiver.events[len(before.receiver.events):]
	w.news = len(news) > 0
	switch {
	case err == errLeft:
		w.err = w.Check()
		w.resume()
		return
	case err != nil:
		w.err = err
	}
	for _, ev := range news {
		switch {
		case ev.kind == sequence.Gap && number(ev.gap.To) != r.version:
			w.err = fmt.Errorf("the snapshot after %v is of version %d", ev, r.version)
		case ev.gap.Reused:
			if !w.mayBeBack() {
				w.err = errors.New("GAP says that the server has gone back in time, but it has not")
			}
			w.server.answered = r.version
		case ev.gap.Gap.Reason == protocol.GapUnordered && !w.mayDoubt():
			w.err = errors.New("GAP says that versions do not grow, but they do")
		case ev.kind == sequence.Synced:
			w.server.answered = number(ev.version)
		}
	}
	if s, ok := before.state.(protocol.Streaming); ok && r.kind == bookmark && len(news) == 0 && !s.Doubted() &&
		!s.Restarted() && r.version > number(s.Memory.Version()) {
		w.err = errors.New("BOOKMARK is missing")
	}
	switch s := w.session.state.(type) {
	case protocol.Streaming, protocol.ReadingInitial:
	case protocol.Stopped:
		w.wire = wire{}
		if !w.mayEnd(&before, s, r) {
			w.err = fmt.Errorf("the run ends: %v", s.Err)
		}
	default:
		w.wire = wire{}
		if w.logins >= maxLogins {
			w.err = fmt.Errorf("%d requests with credentials that are not accepted: must be at most %d",
				w.logins, maxLogins)
		}
		if s, ok := w.session.state.(protocol.Waiting); ok && r.isFailure() && s.Cause != r.cause() {
			w.err = fmt.Errorf("a wait because of %v, and the server answered %v", s.Cause, r.cause())
		}
		w.pass()
	}
	if c, ok := w.session.state.(protocol.Connecting); ok && !c.Initial() && !protocol.Usable(c.Memory.Version()) &&
		w.setup.always != noListVersions {
		w.err = errors.New("a watch without a version would begin at any version")
	}
}

// mayBeBack reports whether the server has gone back in time, or seems to have: two answers in a row may be older
// than one before.
func (w *world) mayBeBack() bool {
	from := w.session.receiver.from
	return w.server.epoch > 0 || w.setup.may.lags > 1 || from != nil && from.Rewound || w.setup.always == greatestItems
}

// mayDoubt reports whether versions may seem to prove nothing: events are sent again, or three watches in a row may be
// silent although there is news.
func (w *world) mayDoubt() bool {
	may := w.setup.may
	return w.setup.always.breaksVersions() || may.replays > 0 || may.faults > 2
}

// mayEnd reports whether a run may end by itself: as Run says, or because the server refuses it from the beginning.
func (w *world) mayEnd(before *session, end protocol.Stopped, r reply) bool {
	m, _ := protocol.Recall(before.state)
	rules := w.setup.rules
	if c, ok := before.state.(protocol.Connecting); ok && c.PendingSynced() && rules.UntilSynced && end.Err == nil &&
		(r.class == protocol.Forbidden || r.class == protocol.NotAllowed) && !r.cause().Gateway {
		return r.kind == failed && w.session.receiver.phase == sequence.Synced // it needs no watch
	}
	if r.isFailure() && end.Err != r.cause().Err || end.Gap.Reason != "" && m.Current() && end.Gap.From != m.Version() {
		return false
	}
	refused := r.cause().Refused() && !rules.RetryRefused
	if r.class == protocol.Unauthorized {
		refused = refused && w.logins == maxLogins
	}
	switch {
	case end.Gap.Reason != "":
		return rules.FailOnGap
	case r.kind == givesUp:
		return true
	case r.kind == ends && m.Synced():
		return rules.UntilClosed
	case r.kind == failed && !r.paced:
		return refused && !m.Synced()
	}
	return rules.UntilSynced && w.session.receiver.phase == sequence.Synced
}

// maxLogins is how many requests in a row may be answered with 401 before SYNCED.
const maxLogins = 3

// countLogins counts requests in a row that were answered with 401, unless the run goes on after any refusal.
func (w *world) countLogins(r reply) {
	m, _ := protocol.Recall(w.session.state)
	switch {
	case m.Synced() || w.setup.rules.RetryRefused || r.kind == listed || r.kind == opened:
		w.logins = 0
	case r.kind == failed && r.class == protocol.Unauthorized && !r.gateway:
		w.logins++
	}
}

// maxRush is how many requests may follow each other without a wait, an event, or a watch that lasts: a list of two
// pages, a watch whose version has expired meanwhile, a list that is forbidden, a streaming list that is refused,
// another list of two pages, and its watch.
const maxRush = 8

// count counts requests that follow each other without a wait.
func (w *world) count(in protocol.Input) {
	switch in := in.(type) {
	case protocol.Page, protocol.Failed, protocol.Opened:
		w.rush++
	case protocol.Silent, protocol.Elapsed:
		w.rush = 0
	case protocol.Closed:
		if in.After >= protocol.Healthy {
			w.rush = 0
		}
	case protocol.Frame:
		if _, live := w.session.state.(protocol.Streaming); live && in.Kind != protocol.BookmarkFrame {
			w.rush = 0
		}
	}
	if w.rush > maxRush && w.err == nil {
		w.err = fmt.Errorf("%d requests without a wait: must be at most %d", w.rush, maxRush)
	}
}

// Check checks what was delivered.
func (w *world) Check() error {
	if w.err != nil || !w.news {
		return w.err
	}
	return w.judge(false)
}

// judge compares what was delivered with what really happened. If complete, nothing may be missing.
func (w *world) judge(complete bool) error {
	if w.setup.always.breaksVersions() {
		return w.session.receiver.checkTruth(w.past, moment(len(strings.Fields(w.setup.before))), complete)
	}
	return w.session.receiver.check(w.past, w.options(complete), &w.setup.checked)
}

func (w *world) options(complete bool) streamtest.CheckOptions {
	o := streamtest.CheckOptions{From: w.session.receiver.from, Complete: complete,
		UntilSynced: w.setup.rules.UntilSynced}
	if w.setup.selects {
		o.Selected = func(u *unstructured.Unstructured) bool { return number(u.GetResourceVersion())%2 == 0 }
	}
	if o.From == nil {
		o.Now, o.After = w.setup.from.Now, w.setup.from.After
	}
	return o
}

// maxCalm is how many answers of a healthy server may be needed until everything is delivered.
const maxCalm = 40

// Settle gets answers of a healthy server until everything is delivered.
func (w *world) Settle() error {
	for range maxCalm {
		if w.idle() {
			return w.settled()
		}
		var next *world
		for step, to := range w.Steps() {
			if isCalm(step) {
				next = to
				break
			}
		}
		if next == nil {
			return w.settled()
		}
		if w = next; w.err != nil {
			return w.err
		}
	}
	return errCircle
}

// settled checks that everything was delivered, and that the index has it.
func (w *world) settled() error {
	if _, over := w.session.state.(protocol.Stopped); over {
		return w.judge(false)
	}
	switch {
	case !w.idle():
		return fmt.Errorf("a healthy server gives no answer in state %T", w.session.state)
	case w.session.receiver.phase != sequence.Synced:
		return errors.New("everything was delivered, and SYNCED is missing")
	}
	if err := w.judge(true); err != nil {
		return err
	}
	exists, known := w.server.at(w.server.now), [len(names)]object{}
	for _, e := range w.session.entries {
		known[e.name] = e.object
	}
	for i, o := range exists {
		delivered := w.session.receiver.known[i]
		if !w.session.selected(o) {
			o = object{}
		}
		// For streamtest.Check, the states of one version are the same, even those before and after a rewind.
		if o != delivered && (delivered != object{} || !w.undelivered()) {
			return fmt.Errorf("%v of epoch %d was delivered, and the server has %v of epoch %d",
				delivered, delivered.epoch, o, o.epoch)
		}
		o.epoch = 0
		if o != known[i] && (known[i] != object{} || !w.session.report.partial) {
			return fmt.Errorf("the index has %v, the server %v", known[i], o)
		}
	}
	return nil
}

// undelivered reports whether objects may exist that were not delivered, because they existed before the start.
func (w *world) undelivered() bool {
	from := w.session.receiver.from
	return from != nil && from.Partial || w.setup.from.Now || w.setup.from.After != ""
}
