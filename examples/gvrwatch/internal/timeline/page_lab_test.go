package timeline

import (
	"testing"
	"time"
)

func TestLook(t *testing.T) {
	b := startBrowser(t)
	for _, c := range []struct{ o, n int }{{20, 200}, {800, 10_000}, {2000, 100_000}, {50_000, 100_000}} {
		began := time.Now()
		size := b.open(many(c.o, c.n))
		t.Log(c, "bytes", size, time.Since(began), b.eval(`performance.timing.loadEventEnd-performance.timing.navigationStart`), b.eval(`performance.now()`))
		began = time.Now()
		b.eval(`element("search").value="lastseen 03:01"; list(true)`)
		b.drawn()
		t.Log("search", time.Since(began), b.eval(`element("found").textContent`))
		b.look("a" + time.Duration(c.n).String())
	}
	t.Log(b.requests, b.complaints)
}
