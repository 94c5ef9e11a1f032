// Package door is the scripted server for who comes by HTTP: requests, their answers frame by frame, the connections
// that are open, what the caller may do, and the log of requests. It reads and writes the objects of package
// store, and asks package script which fault a request or a frame has. Neither of them knows it.
package door

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/script"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
)

// Door answers requests. ServeHTTP takes the lock by itself; the other methods are called with the lock held.
type Door struct {
	lock    func() (unlock func()) // of the server; guards all below, the store and the script
	store   *store.Store
	script  *script.Script
	down    map[string]bool // groups whose discovery fails
	rights  rights
	habits  habits
	log     []*Request
	conns   map[*conn]struct{}
	changed chan struct{} // closed and replaced when watches may have something to send
	closed  bool
}

// habits are what actions change about watches, for longer than one request.
type habits struct {
	noProtobuf    bool          // metadata is sent as JSON only
	bookmarkEvery time.Duration // 0: none
	expiredForm   string        // how watches from expired versions are refused: "as status", "as close", else a frame
}

// New makes a Door without resources. It never holds the lock while it writes to a connection.
func New(lock func() (unlock func()), st *store.Store, sc *script.Script) *Door {
	d := &Door{lock: lock, store: st, script: sc, conns: map[*conn]struct{}{}, changed: make(chan struct{})}
	d.Heal()
	return d
}

// Do does an action that changes how requests are answered, or that ends watches.
func (d *Door) Do(a script.Action) {
	switch a.Usage {
	case "unauthorized", "authorized":
		d.rights.unauthorized = a.Usage == "unauthorized"
	case "discovery down GROUP", "discovery up GROUP":
		d.down[a.Group] = a.Usage == "discovery down GROUP"
	case "410 in stream", "410 as status", "410 as close":
		d.habits.expiredForm = strings.TrimPrefix(a.Usage, "410 ")
	case "bookmarks never", "bookmarks every SECONDS":
		d.habits.bookmarkEvery = a.Duration
	case "no protobuf":
		d.habits.noProtobuf = true
	case "forbid VERB", "forbid VERB in NAMESPACE", "allow VERB", "allow VERB in NAMESPACE", "allow":
		d.rights.add(a)
	case "close watches":
		d.watches(a.Resources, errEnd)()
	case "silence":
		d.watches(a.Resources, errSilent)()
	default:
		panic("streamtest: nobody does the action " + a.Usage)
	}
}

// Heal takes back missing rights, failing discovery, and what actions have changed about watches.
func (d *Door) Heal() {
	d.rights, d.habits, d.down = rights{}, habits{bookmarkEvery: time.Minute}, map[string]bool{}
}

// Watches returns what ends the watches of these resources that are open now, as after timeoutSeconds.
func (d *Door) Watches(of script.Resources) (end func()) { return d.watches(of, errEnd) }

func (d *Door) watches(of script.Resources, how error) (end func()) {
	open := maps.Clone(d.conns)
	maps.DeleteFunc(open, func(c *conn, _ struct{}) bool { return c.row.Verb != "watch" || !of.Has(c.name) })
	return func() {
		for c := range open {
			c.cut(how)
		}
	}
}

// Restart ends all connections, as an API server does when it stops.
func (d *Door) Restart() {
	d.Watches(nil)()
	for c := range d.conns {
		c.cut(errReset)
	}
}

// Close breaks all connections and refuses new ones.
func (d *Door) Close() {
	d.closed = true
	for c := range d.conns {
		c.drop()
	}
}

// Wake lets the watches send what has changed.
func (d *Door) Wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Requests returns all requests so far, in the order of their arrival.
func (d *Door) Requests() (log []Request) {
	for _, r := range d.log {
		log = append(log, *r)
	}
	return log
}

// ServeHTTP answers as a kube-apiserver does, or as the script says.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, f := d.admit(w, r)
	defer d.release(a.conn)
	if a.conn.alive.Err() != nil {
		a.conn.refuse()
		return
	}
	if f != nil && a.injectBefore(f) {
		return
	}
	unlock := d.lock()
	err := d.rights.check(a.query)
	unlock()
	if err != nil {
		a.conn.writeError(err)
		return
	}
	switch a.query.request.Verb {
	case "discovery":
		a.serveDiscovery()
	case "list":
		a.serveList(f)
	case "watch":
		a.serveWatch(f)
	default:
		a.serveObject()
	}
}

// answer serves one request.
type answer struct {
	door  *Door
	conn  *conn
	query *query
}

// admit records a request, and returns the fault that the script has for it.
func (d *Door) admit(w http.ResponseWriter, r *http.Request) (*answer, *script.Fault) {
	q := readQuery(r)
	defer d.lock()()
	request := &q.request
	request.At = time.Now()
	if request.Verb != "discovery" && q.bad == nil {
		q.bad = q.negotiate(strings.Join(r.Header.Values("Accept"), ","), !d.habits.noProtobuf)
	}
	if q.resource, _ = d.store.Catalog().Find(q.name); q.name.Resource != "" {
		request.Resource = gvr.Resource{GroupVersionResource: q.name}.String()
	}
	row := *request
	alive, drop := context.WithCancel(r.Context())
	open, cut := context.WithCancelCause(alive)
	c := &conn{lock: d.lock, w: w, r: r.WithContext(open), row: &row, name: q.name, alive: alive, drop: drop, cut: cut}
	if d.closed {
		drop()
	}
	d.log = append(d.log, c.row)
	d.conns[c] = struct{}{}
	return &answer{d, c, q}, d.script.FaultFor(script.Request{
		Verb: row.Verb, Resource: q.name, Namespace: row.Namespace,
		Page: row.Continue != "", Probe: row.Limit == script.ProbeLimit, Initial: row.Initial(),
	})
}

func (d *Door) release(c *conn) {
	defer d.lock()()
	delete(d.conns, c)
	c.drop()
}
