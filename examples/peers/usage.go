package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"
)

// usage is what a process has used.
type usage struct {
	CPU           time.Duration // of user and system
	Allocs, Bytes uint64        // allocated in all
	PeakRSS       uint64        // since the process began; zero where it is not known
	BaseRSS       uint64        // before the measurement
}

func readUsage() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := usage{CPU: cpuTime(), Allocs: m.Mallocs, Bytes: m.TotalAlloc}
	u.PeakRSS, u.BaseRSS = residentSizes()
	return u
}

// since is what has been used since u was earlier.
func (u usage) since(earlier usage) usage {
	return usage{
		CPU: u.CPU - earlier.CPU, Allocs: u.Allocs - earlier.Allocs, Bytes: u.Bytes - earlier.Bytes,
		PeakRSS: u.PeakRSS, BaseRSS: earlier.BaseRSS,
	}
}

// residentSizes returns the peak and the present resident size, as Linux tells it.
func residentSizes() (peak, now uint64) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kB uint64
		name, value, _ := strings.Cut(lines.Text(), ":")
		if _, err := fmt.Sscanf(value, "%d kB", &kB); err != nil {
			continue
		}
		switch name {
		case "VmHWM":
			peak = kB << 10
		case "VmRSS":
			now = kB << 10
		}
	}
	return peak, now
}

// profiler writes a CPU profile, if it is given a file.
type profiler struct{ file *os.File }

func (p *profiler) start(path string) {
	if path == "" {
		return
	}
	f, err := os.Create(path)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "no profile:", err)
		return
	}
	p.file = f
}

func (p *profiler) stop() {
	if p.file == nil {
		return
	}
	pprof.StopCPUProfile()
	p.file.Close()
	p.file = nil
}
