package discovery_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Documents and errors without an end are refused with an error that names the limit.
func TestEndlessDocumentsAreRefused(t *testing.T) {
	for script, want := range map[string]string{
		"discovery *: endless":     "more than 16 MiB",
		"discovery *: 500 endless": "the server answered 500", // client-go does not read the text
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer().AllFaults(friend.Access{})
			if err := srv.Apply(script); err != nil {
				t.Fatal(err)
			}
			client, err := discovery.NewClient(srv.Config())
			if err != nil {
				t.Fatal(err)
			}
			_, err = discovery.NewResolver(client, 0).Watchables(t.Context())
			if !errors.As(err, new(*discovery.UnavailableError)) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", script, err, want)
			}
		})
	}
}
