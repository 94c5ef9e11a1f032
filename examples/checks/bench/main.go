package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	if j := os.Getenv(jobVariable); j != "" {
		child(j)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := program(ctx, os.Args[1:], os.Stdout, os.Stderr); !errors.Is(err, flag.ErrHelp) {
		check(err)
	}
}

// settings are the flags.
type settings struct {
	quick, caches, devserver  bool
	only                      []string
	profiles, json, from, svg string
	part, runs                int // of -quick: an n-th of the objects and events, and the runs of each measurement
}

// program makes the measurements that args ask for, or reads their figures. When it returns, all children have ended.
func program(ctx context.Context, args []string, out, progress io.Writer) error {
	s := settings{part: 1, runs: 5}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(progress)
	f.BoolVar(&s.quick, "quick", false, "finish in under a minute: one run, with few events, and rough figures")
	only := "measure only these rows of the tables: `names`, separated by commas, such as ours, or ours/events for " +
		"one kind of measurement"
	f.Func("only", only, func(names string) error {
		s.only = strings.Split(names, ",")
		return nil
	})
	f.BoolVar(&s.caches, "caches", false, "measure caches, too, which takes an hour (without -quick)")
	f.BoolVar(&s.devserver, "devserver", false, "measure on the embedded API server as well; needs the go command")
	f.StringVar(&s.profiles, "cpuprofile", "", "write CPU profiles of the peers to this `folder`")
	f.StringVar(&s.json, "json", "", "write the figures to this `file`")
	f.StringVar(&s.from, "from", "", "measure nothing, read the figures from this `file` of -json")
	f.StringVar(&s.svg, "svg", "", "write a chart of the figures to this `file`")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("invalid argument %q: must be a flag", f.Arg(0))
	}
	if s.quick {
		s.part, s.runs = 20, 1
	}
	var rows []row
	var err error
	if s.from != "" {
		var text []byte
		if text, err = os.ReadFile(s.from); err == nil {
			err = json.Unmarshal(text, &rows)
		}
	} else {
		fmt.Fprintf(out, "examples/checks/bench %s\n%s, %s, %s/%s, %d CPUs, medians of %d\n", strings.Join(args, " "),
			time.Now().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), s.runs)
		rows, err = s.measure(ctx, progress)
	}
	if err != nil {
		return err
	}
	failed := report(out, rows)
	if s.json != "" {
		text, err := json.MarshalIndent(rows, "", "\t")
		failed = errors.Join(failed, err, os.WriteFile(s.json, append(text, '\n'), 0o644))
	}
	if s.svg != "" {
		failed = errors.Join(failed, os.WriteFile(s.svg, chart(rows), 0o644))
	}
	return failed
}

// measure makes all measurements in children: the first run of each, then the second of each, and so on, so that other
// load on the machine affects all of them alike. Meanwhile this process is the server.
func (s settings) measure(ctx context.Context, progress io.Writer) (rows []row, err error) {
	all, err := s.selected(measurements(s.part))
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "gvrwatch-bench-") // also of killed children
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	pods := newServer()
	serving := &http.Server{Handler: pods.handler()}
	go serving.Serve(listener)
	defer serving.Close()
	kubeconfig := ""
	if n := len(all) - 1; n >= 0 && all[n].Kind == "devserver" {
		var stop func()
		if kubeconfig, stop, err = startDevserver(ctx, temp, all[n].Load.Objects); err != nil {
			return nil, fmt.Errorf("starting the embedded API server: %w", err)
		}
		defer stop()
	}
	for id := range s.runs * len(all) {
		round, m := id/len(all), all[id%len(all)]
		if (m.Kind == "heap" || m.isCache()) && round > 0 { // it differs little between runs, or takes minutes
			continue
		}
		j := job{Measurement: m, Server: fmt.Sprintf("http://%s%s", listener.Addr(), pods.add(m.Load))}
		if m.Kind == "devserver" {
			j.Server = kubeconfig
		}
		if s.profiles != "" {
			j.Profile = filepath.Join(s.profiles, fmt.Sprintf("%s-%s-%d.pprof", m.Peer.Name, m.Kind, round+1))
		}
		began := time.Now()
		env := []string{fmt.Sprintf("GOGC=%d", m.GOGC), "TMPDIR=" + temp}
		if m.paged() {
			env = append(env, "KUBE_FEATURE_WatchListClient=false")
		}
		figures, err := j.do(ctx, env...)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		took := time.Since(began).Seconds()
		fmt.Fprintf(progress, "run %d of %d: %s, %s: %.1f s\n", round+1, s.runs, m.Peer.Name, m.Kind, took)
		rows = add(rows, m, figures, err)
	}
	summarize(rows)
	return rows, nil
}

// selected returns the measurements that -only and -devserver ask for.
func (s settings) selected(all []measurement) (some []measurement, err error) {
	unknown := slices.Clone(s.only)
	for _, m := range all {
		name, _ := m.row()
		is := func(wanted string) bool { return wanted == name || wanted == name+"/"+m.Kind }
		unknown = slices.DeleteFunc(unknown, is)
		asked := s.only == nil && (s.caches || !m.isCache()) || slices.ContainsFunc(s.only, is)
		if asked && (s.devserver || m.Kind != "devserver") {
			some = append(some, m)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("-only: there is no row %q in the tables", unknown)
	}
	if s.profiles != "" {
		err = os.MkdirAll(s.profiles, 0o755)
	}
	return some, err
}

const (
	jobVariable = "GVRWATCH_BENCH_JOB" // environment variable that makes this program do a job
	jobTimeout  = 10 * time.Minute     // after it a peer counts as stuck
)

// job is one measurement in a process of its own.
type job struct {
	Measurement measurement
	Server      string // URL of the run on the server, or path of a kubeconfig
	Profile     string // file for a CPU profile, or empty
}

// do does the job in a child, which gets the job in its environment, and prints the figures.
func (j job) do(ctx context.Context, env ...string) (figures map[string]float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, jobTimeout, errors.New("the peer is stuck"))
	defer cancel()
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self)
	c.Env = append(append(os.Environ(), env...), jobVariable+"="+string(text))
	if _, err := c.StdinPipe(); err != nil { // see child
		return nil, err
	}
	out, err := c.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return nil, fmt.Errorf("%w: %s", errors.Join(context.Cause(ctx), err), failed.Stderr)
	}
	return figures, errors.Join(err, json.Unmarshal(out, &figures))
}

// child does a job. It ends when its standard input does, which happens when the parent ends for any reason.
func child(text string) {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	var j job
	check(json.Unmarshal([]byte(text), &j))
	i := slices.IndexFunc(peers, func(p peer) bool { return p.Name == j.Measurement.Peer.Name })
	j.measure(peers[i].run)
}
