package configmap

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

func TestOpenOptions(t *testing.T) {
	tests := []struct {
		namespace, name string
		opts            Options
		option          string
		why             string
	}{
		{"", "cp", Options{}, "namespace", "there is no ConfigMap outside of one"},
		{"ns", "", Options{}, "name", "it must have one"},
		{"ns", "cp", Options{MaxBytes: -1}, "MaxBytes", "no size"},
		{"ns", "cp", Options{MaxBytes: MaxBytesLimit + 1}, "MaxBytes", "the server would refuse it"},
	}
	srv := newServer(t)
	for _, tt := range tests {
		_, err := Open(t.Context(), srv.Client(), tt.namespace, tt.name, &tt.opts)
		if e := (*checkpoint.OptionsError)(nil); !errors.As(err, &e) || e.Option != tt.option {
			t.Errorf("%v, want an OptionsError about %s: %s", err, tt.option, tt.why)
		}
	}
	if n := len(srv.Requests()); n != 0 {
		t.Errorf("%d requests for options that are none", n)
	}
	if _, err := Open(t.Context(), srv.Client(), "ns", "cp", &Options{MaxBytes: MaxBytesLimit}); err != nil {
		t.Errorf("the limit itself: %v", err)
	}
}

func TestOpenNil(t *testing.T) {
	srv := newServer(t)
	s, err := Open(t.Context(), srv.Client(), "ns", "cp", nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.options.MaxBytes != DefaultMaxBytes || s.owner.Holder == "" {
		t.Errorf("without options: %+v, %+v", s.options, s.owner)
	}
}

// found are ConfigMaps that there may be.
func TestOpenFound(t *testing.T) {
	const since = `"since":"2026-01-02T03:04:05Z"}`
	tests := []struct {
		fields string // of the ConfigMap, as JSON
		err    error  // of the same type, for nil none
		why    string
	}{
		{`{}`, nil, "made by an admin, so that the right to create is not needed"},
		{`{"data":{}, "binaryData":{}, "immutable":false}`, nil, "likewise"},
		{`{"data":{"format":"1"}}`, nil, "an owner that somebody has taken away is none"},
		{`{"data":{"format":"1","owner":"{\"id\":\"x\",\"holder\":\"y\",` + strings.ReplaceAll(since, `"`, `\"`) + `"}}`, nil, "somebody else's claim is taken over"},
		{`{"data":{"format":"1","mine":"x"},"binaryData":{"yours":"AAAA"}}`, nil, "data of others"},
		{`{"data":{"app.properties":"a=b"}}`, &checkpoint.CorruptError{}, "somebody else's ConfigMap"},
		{`{"binaryData":{"logo":"AAAA"}}`, &checkpoint.CorruptError{}, "likewise"},
		{`{"data":{"format":"2"}}`, &checkpoint.FormatError{Store: "ConfigMap ns/cp", Format: 2, Known: 1}, "from the future"},
		{`{"data":{"format":"0"}}`, &checkpoint.CorruptError{}, "there never was a format 0"},
		{`{"data":{"format":"one"}}`, &checkpoint.CorruptError{}, "no number"},
		{`{"data":{"format":""}}`, &checkpoint.CorruptError{}, "nothing is no number"},
		{`{"data":{"format":"1","owner":"{"}}`, &checkpoint.CorruptError{}, "an owner that can't be read"},
		{`{"data":{"format":1}}`, &checkpoint.CorruptError{}, "no server does that"},
		{`{"data":{"format":"1"},"binaryData":{"x":"%"}}`, &checkpoint.CorruptError{}, "nor that"},
		{`{"data":{"format":"1"},"immutable":true}`, errors.New(""), "nothing could be committed"},
	}
	for _, tt := range tests {
		srv := newServer(t)
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"ConfigMap"}`)); err != nil {
			t.Fatal(err)
		}
		o.Object = fieldsOf(t, tt.fields)
		o.SetAPIVersion("v1")
		o.SetKind("ConfigMap")
		o.SetNamespace("ns")
		o.SetName("cp")
		before, err := srv.Create(configMapResource, o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), srv.Client(), "ns", "cp", nil)
		if tt.err == nil {
			if err != nil {
				t.Errorf("%s: %v", tt.why, err)
				continue
			}
			commit(t, s, delta("k", "5", "a"))
			continue
		}
		switch tt.err.(type) {
		case *checkpoint.CorruptError:
			if e := (*checkpoint.CorruptError)(nil); !errors.As(err, &e) || e.Store != "ConfigMap ns/cp" {
				t.Errorf("%s: %v, want a CorruptError", tt.why, err)
			}
		case *checkpoint.FormatError:
			var e *checkpoint.FormatError
			if !errors.As(err, &e) || *e != *tt.err.(*checkpoint.FormatError) {
				t.Errorf("%s: %v, want %v", tt.why, err, tt.err)
			}
		default:
			if err == nil {
				t.Errorf("%s: no error", tt.why)
			}
		}
		if d := cmp.Diff(before, stored(t, srv)); d != "" {
			t.Errorf("%s: it was changed: %s", tt.why, d)
		}
	}
}

func TestOpenRights(t *testing.T) {
	srv := newServer(t)
	for _, verb := range []string{"list", "watch", "delete", "patch"} {
		if err := srv.Do("configmaps forbid " + verb); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, open(t, srv.Client(), "a"), delta("k", "5", "a"))
	if err := srv.Do("configmaps forbid create"); err != nil {
		t.Fatal(err)
	}
	commit(t, open(t, srv.Client(), "b"), delta("k", "6", "a"))
	remove(t, srv)
	if _, err := Open(t.Context(), srv.Client(), "ns", "cp", nil); err == nil {
		t.Error("created without the right to")
	}
}

// TestOpenRaces: something happens between the requests of Open.
func TestOpenRaces(t *testing.T) {
	tests := []struct {
		exists  bool
		method  string // of the first such request
		instead func(t *testing.T, r *http.Request, next http.RoundTripper) (*http.Response, error)
		why     string
	}{
		{false, http.MethodPost, func(t *testing.T, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			open(t, clientOfTransport(t, next), "other")
			return next.RoundTrip(r)
		}, "another process creates it first"},
		{true, http.MethodPut, func(t *testing.T, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			open(t, clientOfTransport(t, next), "other")
			return next.RoundTrip(r)
		}, "another process claims it first"},
		{true, http.MethodPut, func(t *testing.T, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			c := clientOfTransport(t, next).Resource(configMaps).Namespace("ns")
			if err := c.Delete(t.Context(), "cp", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			return next.RoundTrip(r)
		}, "it is deleted"},
		{false, http.MethodPost, func(t *testing.T, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			return replayed(t, r, next)
		}, "a proxy sends the creation twice"},
		{true, http.MethodPut, func(t *testing.T, r *http.Request, next http.RoundTripper) (*http.Response, error) {
			return replayed(t, r, next)
		}, "net/http sends an update twice when a connection breaks off"},
	}
	for _, tt := range tests {
		srv := newServer(t)
		if tt.exists {
			commit(t, open(t, srv.Client(), "before"), delta("k", "5", "a"))
		}
		done := false
		s := open(t, clientOf(t, srv, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if done || r.Method != tt.method {
				return next.RoundTrip(r)
			}
			done = true
			return tt.instead(t, r, next)
		}), "me")
		if !done {
			t.Errorf("%s: did not happen", tt.why)
		}
		got, err := readOwner(valuesOf(t, stored(t, srv)).data[ownerKey])
		if err != nil || got.Holder != "me" {
			t.Errorf("%s: the owner is %+v, %v", tt.why, got, err)
		}
		if want, got := tt.exists && !strings.Contains(tt.why, "deleted"), load(t, s, "k") != nil; want != got {
			t.Errorf("%s: something under k: %t, want %t", tt.why, got, want)
		}
		commit(t, s, delta("k", "6", "b"))
	}
}

// TestOpenGivesUp: it does not try for ever.
func TestOpenGivesUp(t *testing.T) {
	srv := newServer(t)
	open(t, srv.Client(), "before")
	puts := 0
	client := clientOf(t, srv, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodPut {
			puts++
			label(t, srv, "n", strings.Repeat("x", puts))
		}
		return next.RoundTrip(r)
	})
	if _, err := Open(t.Context(), client, "ns", "cp", nil); err == nil || puts != maxTries {
		t.Errorf("%v after %d attempts, want an error after %d", err, puts, maxTries)
	}
}
