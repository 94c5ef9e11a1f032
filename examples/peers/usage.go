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

// usage has the resources that a process has used.
type usage struct {
	CPU           time.Duration // of user and system
	Allocs, Bytes uint64        // total number and size of allocations
	PeakRSS       uint64        // bytes, since the process started; zero if unknown
	BaseRSS       uint64        // bytes, before the measurement; zero if unknown
}

func readUsage() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := usage{CPU: cpuTime(), Allocs: m.Mallocs, Bytes: m.TotalAlloc}
	u.PeakRSS, u.BaseRSS = residentSizes()
	return u
}

// since returns what the process has used since earlier.
func (u usage) since(earlier usage) usage {
	return usage{
		CPU: u.CPU - earlier.CPU, Allocs: u.Allocs - earlier.Allocs, Bytes: u.Bytes - earlier.Bytes,
		PeakRSS: u.PeakRSS, BaseRSS: earlier.BaseRSS,
	}
}

// residentSizes returns the peak and the current resident size in bytes from /proc, or zeros where there is no /proc.
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

// profiler writes a CPU profile if start has a path.
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
		fmt.Fprintln(os.Stderr, "starting the CPU profile:", err)
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
