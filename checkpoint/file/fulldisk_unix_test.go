//go:build unix

package file_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// watchOrder makes a child watch: "watch PATH URL".
const watchOrder = "watch"

func widgets() gvr.Resource {
	r := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	r.Group, r.Version, r.Resource = "example.com", "v1", "widgets"
	return r
}

// watchUntil watches the server with a checkpoint in a file, acks all events, and calls each with them until it returns
// false.
func watchUntil(ctx context.Context, path, url string, each func(ev stream.Event, t *checkpoint.Tracker) bool) error {
	store, err := file.Open(path)
	if err != nil {
		return err
	}
	defer store.Close()
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}})
	if err != nil {
		return err
	}
	defer tracker.Close()
	client, err := stream.NewClient(&rest.Config{Host: url}, nil)
	if err != nil {
		return err
	}
	s, err := stream.New(client, widgets(), nil)
	if err != nil {
		return err
	}
	for ev, err := range s.With(stream.Run{Checkpoint: tracker}).Events(ctx) {
		if err != nil {
			return err
		}
		ev.Ack()
		if !each(ev, tracker) {
			return nil
		}
	}
	return nil
}

// watchAsChild prints the events. After SYNCED the disk is full.
func watchAsChild(path, url string) error {
	signal.Ignore(syscall.SIGXFSZ)
	return watchUntil(context.Background(), path, url, func(ev stream.Event, tracker *checkpoint.Tracker) bool {
		if ev.Type == stream.Synced {
			err := tracker.Flush(context.Background())
			info, statErr := os.Stat(path)
			if err != nil || statErr != nil {
				fmt.Println(err, statErr)
				return false
			}
			if err := limit(fmt.Sprint(info.Size())); err != nil {
				fmt.Println(err)
				return false
			}
		}
		fmt.Println(describe(ev))
		return true
	})
}

func describe(ev stream.Event) string {
	switch {
	case ev.Gap != nil:
		return fmt.Sprintf("GAP %s, history lost: %v", ev.Gap.Reason, ev.Gap.HistoryLost)
	case ev.Object != nil:
		return fmt.Sprint(ev.Type, " ", ev.Object.GetName())
	}
	return string(ev.Type)
}

// TestKilledOnAFullDisk: the next run can't report the deletion of what was delivered while the disk was full. It says
// so.
func TestKilledOnAFullDisk(t *testing.T) {
	for _, tt := range []struct {
		name    string
		compact bool
		want    []string
		why     string
	}{
		{"history lost", true, []string{"GAP expired, history lost: true", "DELETED early"},
			"nothing knows of late any more"},
		{"history kept", false, []string{"ADDED late", "DELETED late", "DELETED early"},
			"it is delivered again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := streamtest.NewServer(widgets())
			web := httptest.NewServer(srv)
			defer web.Close()
			defer srv.Close()
			srv.Put(widgets(), "ns", "early")
			path := inTemp(t)
			cmd, lines := startChild(t, watchOrder+" "+path+" "+web.URL)
			expect := func(want string) {
				t.Helper()
				if !lines.Scan() || lines.Text() != want {
					t.Fatalf("the child says %q, want %q", lines.Text(), want)
				}
			}
			expect("ADDED early")
			expect("SYNCED")
			srv.Put(widgets(), "ns", "late")
			expect("ADDED late")
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			for _, name := range []string{"late", "early"} {
				if _, err := srv.Delete(widgets(), "ns", name); err != nil {
					t.Fatal(err)
				}
			}
			if tt.compact {
				srv.Compact("")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var got []string
			err := watchUntil(ctx, path, web.URL, func(ev stream.Event, _ *checkpoint.Tracker) bool {
				if ev.Type != stream.Synced {
					got = append(got, describe(ev))
				}
				return len(got) < len(tt.want)
			})
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", tt.why, err, diff)
			}
		})
	}
}
