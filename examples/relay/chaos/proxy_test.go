package main

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlow: what passes takes the time that the rate says, until the proxy is as fast as before.
func TestSlow(t *testing.T) {
	for _, c := range []struct {
		why  string
		rate int // bytes in a second, until 4.9 s have passed
		want time.Duration
	}{
		{"as fast as it goes", 0, 0},
		{"slow", 10 * chunk, 2500 * time.Millisecond},
		{"slow, then fast", 2 * chunk, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &proxy{}
			p.slow(c.rate)
			time.AfterFunc(4900*time.Millisecond, func() { p.slow(0) })
			from, to := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, to) }()
			began := time.Now()
			if n, err := (gate{from, p}).Write(make([]byte, 25*chunk)); n != 25*chunk || err != nil {
				t.Errorf("%s: %d bytes, %v", c.why, n, err)
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("%s: took %v, want %v", c.why, took, c.want)
			}
			from.Close()
		})
	}
}
