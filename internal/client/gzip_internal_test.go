package client

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"
	"testing/synctest"
)

// Between two members a watch has no inflater, also if the server did not flush a member before its end. What a member
// has is returned before the next one arrives.
func TestSilentWatchHasNoInflater(t *testing.T) {
	for _, flush := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r, w := io.Pipe()
			b := &inflated{ReadCloser: r}
			read := make(chan string)
			go func() {
				defer close(read)
				p := make([]byte, 10<<10)
				for {
					n, err := b.Read(p)
					if err != nil {
						return
					}
					read <- string(p[:n])
				}
			}()
			for _, text := range []string{"one", "two", "three"} {
				var member bytes.Buffer
				z := gzip.NewWriter(&member)
				_, _ = io.WriteString(z, text)
				if flush {
					_ = z.Flush()
				}
				_ = z.Close()
				go func() { _, _ = w.Write(member.Bytes()) }()
				if got := <-read; got != text {
					t.Errorf("read %q, want %q", got, text)
				}
				synctest.Wait()
				if b.inflater != nil {
					t.Errorf("an inflater is kept after %q (flushed: %v)", text, flush)
				}
			}
			_ = w.Close()
			<-read
		})
	}
}
