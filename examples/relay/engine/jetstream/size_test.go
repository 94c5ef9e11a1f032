package jetstream_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
)

// BenchmarkSize measures what the README's table of sizes says: of a message of 3,000 bytes beside its data in the
// stream, of the disk for each byte of the stream when three times the history was published, and of the server's
// memory for each object.
//
//	go test ./examples/relay/engine/jetstream -run xxx -bench Size -benchtime 1x
func BenchmarkSize(b *testing.B) {
	const objects, history, dataBytes = 20_000, 4, 3000
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse)
	}
	for b.Loop() {
		dir := b.TempDir()
		server, err := jetstream.StartServer(b.Context(), dir, discard)
		if err != nil {
			b.Fatal(err)
		}
		log, err := jetstream.Connect(b.Context(), jetstream.Options{
			Connection: jetstream.Connection{Dir: dir}, Create: jetstream.Create{History: history},
		})
		if err != nil {
			b.Fatal(err)
		}
		data := []byte(strings.Repeat("x", dataBytes))
		before := heap()
		revision, commit := uint64(0), uint64(0)
		for version := range 3 * history {
			for first := 0; first < objects; first += 500 {
				part := engine.Part{Unit: engine.Unit{Cluster: "main", Resource: "pods"}, Revision: revision}
				for i := range 500 {
					uid := fmt.Sprintf("0aa00000-0892-472e-8813-%012d", first+i)
					m := engine.Message{
						Unit: in(part.Unit, fmt.Sprint("namespace-", i%50)), UID: uid,
						Name: fmt.Sprintf("web-6d4cf56db6-%05d", i),
						Type: engine.Modified, ResourceVersion: fmt.Sprint(1_000_000 + version), Data: data,
					}
					m.ID = "65360512-0892-472e-8813-339875d2e9bb/pods/" + uid + "@" + m.ResourceVersion + "/modified"
					part.Messages = append(part.Messages, m)
				}
				commit++
				part.Position = engine.Position{ResourceVersion: "1", Owner: "relay-0", Epoch: 1, Commit: commit}
				revisions, err := log.Publish(b.Context(), []engine.Part{part})
				if err != nil {
					b.Fatal(err)
				}
				revision = revisions[0]
			}
		}
		url, err := jetstream.FindServer(dir)
		if err != nil {
			b.Fatal(err)
		}
		conn, err := nats.Connect(url)
		if err != nil {
			b.Fatal(err)
		}
		js, err := natsjs.New(conn)
		if err != nil {
			b.Fatal(err)
		}
		s, err := js.Stream(b.Context(), "K8S")
		if err != nil {
			b.Fatal(err)
		}
		state := s.CachedInfo().State
		b.ReportMetric((heap()-before)/1e6, "heap-MB-busy") // with what was written last
		conn.Close()
		log.Close()
		server.Stop() // writes everything
		disk := 0.0
		err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				disk += float64(info.Size())
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		before = heap()
		if server, err = jetstream.StartServer(b.Context(), dir, discard); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((heap()-before)/objects, "heap-B/object")
		server.Stop()
		b.ReportMetric(float64(state.Bytes)/float64(state.Msgs)-dataBytes, "B/message")
		b.ReportMetric(disk/float64(state.Bytes), "disk/stream")
		b.ReportMetric(float64(state.Msgs)/objects, "messages/object")
	}
}
