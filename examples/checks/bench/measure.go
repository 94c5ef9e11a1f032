package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// measurement is what is measured of a peer, each time in a process of its own.
type measurement struct {
	Peer peer
	Load scenario
	Kind string // "events" or one of peer.kinds
	GOGC int
	Live int // megabytes of other live heap in the process, in pieces of 1 KiB
	// Window is how long a cache gets events with as many handlers. Before, it settles for four times as long.
	Window time.Duration
}

var kinds = strings.Fields("events 11k gogc400 live64 snapshot latency1000 latency4000 heap " + cacheKinds +
	" devserver")

// measurements returns all measurements in the order of the tables, with a part of the objects and events.
func measurements(part int) (all []measurement) {
	share := func(n int) int { return max(n/part/40*40, 40) } // each namespace has as many, and as many canaries
	for _, kind := range kinds {
		for _, p := range peers {
			m := measurement{Peer: p, Kind: kind, GOGC: 100, Load: scenario{
				Size: small, Objects: min(40*templates/part, templates), Events: share(p.thousands * 1000),
			}}
			switch kind {
			case "11k":
				m.Load.Size, m.Load.Events = big, share(p.thousands*250)
			case "gogc400":
				m.GOGC = 400
			case "live64":
				m.Live = 64
			case "snapshot", "heap":
				m.Load.Objects, m.Load.Events = share(50_000), 0
			case "devserver":
				m.Load.Objects, m.Load.Events = share(20_000), 0
			case "latency1000", "latency4000":
				m.Load.Events, m.Load.Length = 0, 3*time.Second/time.Duration(min(part, 10))
				fmt.Sscanf(kind, "latency%d", &m.Load.Rate)
			}
			if m.isCache() {
				m.Load = scenario{Size: small, Objects: share(100_000), Rate: 500, Length: time.Hour} // until it ends
				m.Window = 15 * time.Second / time.Duration(part)
				if strings.HasPrefix(kind, "secrets") {
					m.Load.Size = ofSecret
				}
			}
			if kind == "events" && p.thousands > 0 || slices.Contains(strings.Fields(p.kinds), kind) {
				all = append(all, m)
			}
		}
	}
	return all
}

// snapshot reports whether only the time until all existing objects are known is measured.
func (m measurement) snapshot() bool { return m.Kind == "snapshot" || m.Kind == "devserver" }

// row returns the name of the row that has the figures, and that of the row which its ratio refers to.
func (m measurement) row() (name, base string) {
	switch m.Kind {
	case "snapshot":
		return m.Peer.Name, "dynamic-list"
	case "devserver":
		return "devserver-" + m.Peer.Name, "devserver-dynamic"
	case "pods", "pods-paged", "secrets", "secrets-paged":
		name = m.Load.resource().Resource + "-" + m.Peer.Name
		return name, strings.TrimSuffix(name, compacts)
	case "11k", "gogc400", "live64":
		return m.Peer.Name + "-" + m.Kind, "dynamic-" + m.Kind
	}
	return m.Peer.Name, "dynamic"
}

// lap is a measurement in a peer's process. The peer calls synced once it knows all existing objects, and event for
// each event. The measurement and the process end when the last event was counted.
type lap struct {
	of       measurement
	server   string // of the job, as profile is
	profile  string
	resource gvr.Resource
	every    int    // the peer delivers one in so many events, or none if zero: see selecting
	mixed    bool   // any event may be the last, since they come in several sequences
	bookmark bool   // the measurement ends with the bookmark after the last event
	atEnd    func() // nil for nothing
	selected atomic.Int64

	began  time.Time
	before map[string]float64
	baseMB float64 // resident size before the measurement
	live   uint64  // reachable bytes before the peer began
	n      int     // events so far
	last   string  // resourceVersion of the last expected one
	delays []int64
}

// liveHeap is what a program has in memory besides its watch.
var liveHeap []*[1 << 10]byte

// measure makes the measurement in this process, prints its figures as JSON, and ends the process.
func (j job) measure(run func(*lap)) {
	l := &lap{of: j.Measurement, server: j.Server, profile: j.Profile, every: 1}
	l.resource = j.Measurement.Load.resource()
	if l.of.Kind == "devserver" {
		l.resource = podLikes
	}
	for range l.of.Live << 10 {
		liveHeap = append(liveHeap, new([1 << 10]byte))
	}
	if !l.of.isCache() {
		l.delays = make([]int64, 0, int(float64(l.of.Load.Rate)*l.of.Load.Length.Seconds())+1000)
	}
	l.live = reachable()
	if l.of.snapshot() {
		l.begin()
	}
	run(l)
	log.Fatalf("the peer ended after %d of %d events", l.n, l.expected(l.of.Load.Events))
}

// config returns the client configuration, without a rate limit, which would distort the figures.
func (l *lap) config() *rest.Config {
	c := &rest.Config{Host: l.server}
	if l.of.Kind == "devserver" {
		var err error
		c, err = clientcmd.BuildConfigFromFlags("", l.server)
		check(err)
	}
	c.QPS = -1
	return c
}

// expected returns how many of n objects or events the peer delivers.
func (l *lap) expected(n int) int {
	if l.every == 0 {
		return 0
	}
	return n / l.every
}

func (l *lap) begin() {
	if l.profile != "" {
		f, err := os.Create(l.profile)
		check(errors.Join(err, pprof.StartCPUProfile(f)))
	}
	l.before, _, l.baseMB = usage()
	l.began = time.Now()
}

// phase begins a part of a measurement, which has a profile of its own. At its end it returns what it took and used.
func (l *lap) phase(name string) (end func() (seconds float64, used map[string]float64)) {
	profile := l.profile
	l.profile = strings.Replace(profile, ".pprof", "-"+name+".pprof", 1)
	l.begin()
	l.profile = profile
	return func() (float64, map[string]float64) {
		seconds := time.Since(l.began).Seconds()
		used, _, _ := usage()
		pprof.StopCPUProfile()
		for name := range used {
			used[name] -= l.before[name]
		}
		return seconds, used
	}
}

// synced is called once the peer knows so many existing objects. It makes the server send the events, or ends the
// measurement if it needs none.
func (l *lap) synced(objects int) {
	if want := l.expected(l.of.Load.Objects); objects != want {
		log.Fatalf("the peer knows %d objects, want %d", objects, want)
	}
	if l.of.Load.Events+l.of.Load.Rate == 0 {
		l.finish()
	}
	runtime.GC() // so that the events don't pay for the snapshot's garbage
	l.selected.Store(0)
	l.begin()
	resp, err := http.Post(l.server+"/start", "", nil)
	check(err)
	resp.Body.Close()
}

// event counts an event. It ends the measurement after the last one that is expected or, at a rate, at the first one
// without a send time. It reads no other metadata.
func (l *lap) event(metadata func() stream.Meta) {
	l.n++
	if l.of.Load.Rate > 0 {
		now := time.Now().UnixNano()
		sent, err := strconv.ParseInt(metadata().GetAnnotations()[sentKey], 10, 64)
		check(err)
		if sent == 0 {
			l.finish()
		}
		l.delays = append(l.delays, now-sent)
	} else if l.n == l.expected(l.of.Load.Events) {
		l.last = metadata().GetResourceVersion()
		if !l.bookmark {
			l.finish()
		}
	}
}

// finish checks what was delivered, prints the figures, and ends the process.
func (l *lap) finish() {
	seconds := time.Since(l.began).Seconds()
	used, peak, _ := usage()
	pprof.StopCPUProfile()
	f, n := map[string]float64{}, float64(l.of.Load.Objects)
	switch l.of.Kind {
	case "latency1000", "latency4000":
		slices.Sort(l.delays)
		for name, share := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
			i := int(share * float64(len(l.delays)-1))
			f[fmt.Sprintf("latency_%s_us_%d", name, l.of.Load.Rate)] = float64(l.delays[i]) / 1e3
		}
		f[fmt.Sprintf("latency_reached_%d", l.of.Load.Rate)] = float64(len(l.delays)) / seconds
	case "heap":
		f["heap_bytes_per_object"] = (float64(reachable()) - float64(l.live)) / n
	case "snapshot":
		f["first_snapshot_ms"], f["objects"] = seconds*1e3, n
	case "devserver":
		f["initial_events_per_s"], f["objects"] = n/seconds, n
	default:
		l.verify()
		n = float64(l.of.Load.Events)
		f[speed], f["events"] = n/seconds, n
	}
	if l.of.Load.Rate == 0 && l.of.Kind != "heap" {
		f["peak_rss_mb"], f["base_rss_mb"] = peak, l.baseMB
		for name, v := range used { // events that Select rejects count, too
			f[name] = (v - l.before[name]) / n
		}
	}
	l.print(f)
}

// print prints the figures and ends the process.
func (l *lap) print(f map[string]float64) {
	if l.atEnd != nil {
		l.atEnd()
	}
	check(json.NewEncoder(os.Stdout).Encode(f))
	os.Exit(0)
}

// verify checks that exactly the expected events were delivered.
func (l *lap) verify() {
	want := l.expected(l.of.Load.Events)
	if l.n != want {
		log.Fatalf("the peer delivered %d events, want %d", l.n, want)
	}
	if version := strconv.Itoa(firstVersion + 1 + (want-1)*l.every); want > 0 && !l.mixed && l.last != version {
		log.Fatalf("the last event has resourceVersion %s, want %s", l.last, version)
	}
	if calls := int(l.selected.Load()); l.every != 1 && calls != l.of.Load.Events {
		log.Fatalf("Select was called %d times, want %d", calls, l.of.Load.Events)
	}
}

// usage returns the resources that this process has used, by the names of their figures, and its resident size.
// Without /proc there is no size.
func usage() (used map[string]float64, peakMB, nowMB float64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	used = map[string]float64{"allocs_per_event": float64(m.Mallocs), "bytes_per_event": float64(m.TotalAlloc)}
	var r syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	used[cpu] = float64(r.Utime.Nano()+r.Stime.Nano()) / 1e3
	if p, err := procfs.Self(); err == nil {
		status, err := p.NewStatus()
		check(err)
		peakMB, nowMB = float64(status.VmHWM)/1e6, float64(status.VmRSS)/1e6
	}
	return used, peakMB, nowMB
}

// reachable returns the size of all reachable memory.
func reachable() uint64 {
	runtime.GC()
	runtime.GC() // frees objects that had finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
