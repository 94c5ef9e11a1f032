package discovery_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// refusing refuses the first requests for a path, or for every path if that is empty.
type refusing struct {
	path        string
	times, code int
	body        string
}

func (f *refusing) respond(w http.ResponseWriter, r *http.Request) bool {
	if f.times == 0 || f.path != "" && f.path != r.URL.Path {
		return false
	}
	f.times--
	w.Header().Set("Content-Type", "text/html")
	if strings.HasPrefix(f.body, "{") {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(f.code)
	_, _ = io.WriteString(w, f.body)
	return true
}

// TestFirstAnswerIsNotFinal: a 401 comes before a credential plugin is asked again, and a gateway's refusal says
// nothing.
func TestFirstAnswerIsNotFinal(t *testing.T) {
	const page, status = "<html>no</html>", `{"kind":"Status","apiVersion":"v1","status":"Failure",` +
		`"reason":"Unauthorized","code":401}`
	for _, tt := range []struct {
		refusing
		is  func(error) bool // the error, or nil
		why string
	}{
		{refusing{"/api", 1, 401, status}, nil, "401, then accepted"},
		{refusing{"/api", 2, 401, status}, nil, "twice"},
		{refusing{"/api", 3, 401, status}, apierrors.IsUnauthorized, "credentials that are wrong"},
		{refusing{"/api", 2, 401, strings.Replace(status, `,"code":401`, "", 1)}, nil, "401 without a code"},
		{refusing{"/api", 1, 404, page}, nil, "a gateway's 404 for the core group"},
		{refusing{"/api", 2, 404, ""}, nil, "a 404 without a body"},
		{refusing{"/api", 2, 404, strings.Repeat(page, 100_000)}, nil, "a page of 1.5 MB"},
		{refusing{"/api", 2, 403, page}, nil, "a gateway's 403"},
		{refusing{"/apis", 2, 400, `{"error":"no"}`}, nil, "a gateway's 400"},
		{refusing{"/api", -1, 404, page}, nobody, "a gateway that knows no way to the server"},
		{refusing{"/apis", -1, 404, page}, apierrors.IsNotFound, "the same for the other groups"},
		{refusing{"/apis", -1, 403, page}, apierrors.IsForbidden, "a gateway that refuses"},
	} {
		for _, legacy := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := tt.refusing
				s := &apiServer{groups: cluster(), legacy: legacy, respond: f.respond}
				cfg := &rest.Config{Host: "http://server.test", QPS: -1}
				cfg.Wrap(func(http.RoundTripper) http.RoundTripper { return roundTrip(s.answer) })
				r := discovery.NewResolver(newClient(t, cfg), -1)
				pod, err := r.Resolve(t.Context(), ref(t, "pods"))
				var unavailable *discovery.UnavailableError
				switch {
				case tt.is == nil && (err != nil || pod.Kind != "Pod"):
					t.Errorf("%s, legacy: %v: got %v, %v", tt.why, legacy, pod, err)
				case tt.is != nil && (!errors.As(err, &unavailable) || !tt.is(err)):
					t.Errorf("%s, legacy: %v: got %v, want an UnavailableError", tt.why, legacy, err)
				}
			})
		}
	}
}

// TestForbiddenDiscoverySaysWhy: the server's own sentence, at once.
func TestForbiddenDiscoverySaysWhy(t *testing.T) {
	const jane = `User "jane" cannot get path`
	for _, path := range []string{"/api", "/apis", "/apis/apps/v1"} {
		for _, contentType := range []string{"application/json", "text/plain", ""} {
			s := newAPIServer(t, cluster()...)
			asked := 0
			s.legacy = true
			s.respond = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != path {
					return false
				}
				asked++
				w.Header().Set("Content-Type", contentType)
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
					`"message":"forbidden: User \"jane\" cannot get path","reason":"Forbidden","code":403}`)
				return true
			}
			for name, c := range map[string]clientdiscovery.DiscoveryInterface{
				"client-go": s.client, "NewClient": newClient(t, s.config),
			} {
				asked = 0
				_, err := discovery.NewResolver(c, -1).Resolve(t.Context(), ref(t, "deployments.apps"))
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), jane) || asked != 1 {
					t.Errorf("%s, %s as %q: %d requests, %v; want one, and %s", name, path, contentType, asked,
						err, jane)
				}
			}
		}
	}
}

// answer answers a request without a network.
func (s *apiServer) answer(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func nobody(err error) bool { return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) }

// TestGatewayRemovesNothing: whatever a gateway answers, nothing that was served is Removed.
func TestGatewayRemovesNothing(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		for _, path := range []string{"/api", "/apis", ""} {
			for _, code := range []int{400, 403, 404, 410} {
				for _, body := range []string{"<html>no</html>", `{"error":"no"}`, "404 page not found\n", "",
					strings.Repeat("<p>no</p>", 120_000), strings.Replace(status404, "v1", "gateway.io/v1", 1),
					status404, // the server has had the document, so it is another one's
				} {
					synctest.Test(t, func(t *testing.T) {
						srv := streamtest.NewServer(pods, widgets)
						defer srv.Close()
						cfg := srv.Config()
						down := &refusing{path: path, code: code, body: body}
						cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return through{next, down} })
						run := startRun(t, resolverFor(t, legacy, cfg), time.Second)
						run.expect("at first", "Added pods.v1", "Added widgets.v1.example.com", "Synced")
						down.times = -1
						time.Sleep(20 * time.Second)
						run.expect(path+" refused", "Unknown server")
						down.times = 0
						time.Sleep(time.Minute)
						run.expect("afterwards", "Known server")
						run.stop()
					})
				}
			}
		}
	}
}

// TestPollsWaitAsLongAsTheServerAsks: not shorter, and not as long as the backoff.
func TestPollsWaitAsLongAsTheServerAsks(t *testing.T) {
	for _, seconds := range []int{60, 300} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(pods)
			defer srv.Close()
			cfg := srv.Config()
			var at []time.Time
			asks := time.Now().Add(time.Hour)
			cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if time.Now().After(asks) || r.URL.Path != "/api" {
						return next.RoundTrip(r)
					}
					at = append(at, time.Now())
					return busyFor(r, seconds), nil
				})
			})
			run := startRun(t, resolverFor(t, false, cfg), time.Second)
			time.Sleep(50 * time.Minute)
			synctest.Wait()
			for i := 1; i < len(at); i++ {
				least := time.Duration(seconds) * time.Second
				if d := at[i].Sub(at[i-1]); d < least || d > least*6/5 {
					t.Errorf("asked for %d s, poll %d came after %v", seconds, i+1, d)
				}
			}
			if len(at) < 8 {
				t.Errorf("%d polls in 50 minutes", len(at))
			}
			run.stop()
		})
	}
}

// TestRefreshWaitsAsLongAsTheServerAsks: a change of a CRD is no reason to poll earlier.
func TestRefreshWaitsAsLongAsTheServerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(pods)
		defer srv.Close()
		cfg := srv.Config()
		polls := 0
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/api" {
					polls++
				}
				return busyFor(r, 60), nil
			})
		})
		resolver := resolverFor(t, false, cfg)
		run := startRun(t, resolver, time.Second)
		for range 50 {
			time.Sleep(time.Second)
			resolver.Refresh()
		}
		if polls != 1 {
			t.Errorf("%d polls within 50 s, want one: the server has asked for a wait of 60 s", polls)
		}
		run.stop()
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// through passes on what it does not refuse.
type through struct {
	next http.RoundTripper
	down *refusing
}

func (t through) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if t.down.respond(w, r) {
		return w.Result(), nil
	}
	return t.next.RoundTrip(r)
}

func busyFor(r *http.Request, seconds int) *http.Response {
	w := httptest.NewRecorder()
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	w.WriteHeader(http.StatusServiceUnavailable)
	resp := w.Result()
	resp.Request = r
	return resp
}

func resolverFor(t *testing.T, legacy bool, cfg *rest.Config) *discovery.Resolver {
	c := newClient(t, cfg)
	if legacy {
		c = c.WithLegacy()
	}
	return discovery.NewResolver(c, 0)
}
