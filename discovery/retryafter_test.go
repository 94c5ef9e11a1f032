package discovery_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestRetryAfterIsBounded(t *testing.T) {
	tests := []struct {
		fault string
		code  int // of the error; 0 if the call succeeds
		text  string
		took  time.Duration
		why   string
	}{
		{"discovery 1: 429 retry-after 3s", 0, "", 3 * time.Second, "a short wait is obeyed"},
		{
			"discovery 1-*: 429 retry-after 3600s", http.StatusTooManyRequests,
			"server asks for a wait of 3600 s (429 Too Many Requests)", 0, "a wait beyond the timeout fails at once",
		},
		{
			"discovery 1-*: 503 retry-after 9223372036s", http.StatusServiceUnavailable,
			"wait of 9223372036 s (503 Service Unavailable)", 0, "a wait as long as a Duration can be",
		},
		{
			"discovery 1-*: 500 retry-after 20s", http.StatusInternalServerError, "wait of 20 s", 20 * time.Second,
			"the second wait would end after the timeout",
		},
	}
	for _, tt := range tests {
		for _, client := range []string{"NewClient", "NewClient, legacy"} {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(pods)
				defer srv.Close()
				if err := srv.Apply(tt.fault); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_, err := discovery.NewResolver(clients[client](srv), 0).Watchables(t.Context())
				code, text := 0, ""
				if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
					code, text = int(status.Status().Code), err.Error()
				}
				if code != tt.code || !strings.Contains(text, tt.text) {
					t.Errorf("%s, %s: got %d, %v, want %d, %q", client, tt.why, code, err, tt.code, tt.text)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("%s, %s: took %v, want %v", client, tt.why, took, tt.took)
				}
			})
		}
	}
}
