package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// memoryOf returns the sum of the proportional set sizes of the processes of a group, in bytes, or 0 where there is no
// /proc. A page that several processes share counts in each of them with its part.
func memoryOf(group int) (sum int64) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The fields after the command, which is in parentheses, are the state, the parent and the group.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 3 || string(fields[2]) != strconv.Itoa(group) {
			continue
		}
		rollup, err := os.ReadFile(filepath.Join(filepath.Dir(path), "smaps_rollup"))
		if err != nil {
			continue
		}
		for line := range bytes.Lines(rollup) {
			if kb, found := bytes.CutPrefix(line, []byte("Pss:")); found {
				n, _ := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(kb), []byte(" kB"))), 10, 64)
				sum += n << 10
			}
		}
	}
	return sum
}
