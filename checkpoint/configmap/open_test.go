package configmap

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestOpenRequiresClientNamespaceAndName(t *testing.T) {
	if _, err := Open(t.Context(), nil, "ns", "cp", nil); err == nil {
		t.Error("no error without a client")
	}
	srv := newServer(t)
	for _, tt := range []struct{ namespace, name, option, why string }{
		{"", "cp", "namespace", "there is no ConfigMap outside of one"},
		{"ns", "", "name", "it must have one"},
	} {
		_, err := Open(t.Context(), srv.Client(), tt.namespace, tt.name, nil)
		if err == nil || !strings.Contains(err.Error(), "invalid "+tt.option) {
			t.Errorf("%v, want an error about %s: %s", err, tt.option, tt.why)
		}
	}
	if n := len(srv.Requests()); n != 0 {
		t.Errorf("%d requests with invalid options", n)
	}
	if s, err := Open(t.Context(), srv.Client(), "ns", "cp", nil); err != nil || s.(*store).owner.Holder == "" {
		t.Errorf("without options: %+v, %v", s, err)
	}
}

// checkpointOfFormat1 is a checkpoint as it was written in format 1.
const checkpointOfFormat1 = `{"identity":{"cluster":{"uid":"c1"},"resource":"pods","objects":true},` +
	`"resourceVersions":{"":"5"},"unclean":true,"committed":"2026-01-02T03:04:05Z"}`

// Open accepts empty ConfigMaps and its own, and does not change those that it refuses.
func TestOpenRefusesForeignConfigMaps(t *testing.T) {
	var (
		none    error
		corrupt = &checkpoint.CorruptError{Store: "ConfigMap ns/cp"}
		newer   = &checkpoint.CorruptError{Store: "ConfigMap ns/cp", Newer: true, Err: errors.New(
			"invalid format 3: must be 2: use the version that wrote the ConfigMap")}
		older = &checkpoint.CorruptError{Store: "ConfigMap ns/cp", Older: true, Err: errors.New(
			"invalid format 1: must be 2: delete its data to start from the beginning, or use another")}
	)
	tests := []struct {
		fields string // of the ConfigMap, as JSON
		err    error
		why    string
	}{
		{`{}`, none, "made by an admin, so that the right to create is not needed"},
		{`{"data":{}, "binaryData":{}, "immutable":false}`, none, "likewise"},
		{`{"data":{"format":"2"}}`, none, "the owner was removed by hand"},
		{`{"data":{"format":"2","owner":"{\"id\":\"x\"}"}}`, none, "another process' claim is taken over"},
		{`{"data":{"format":"2","mine":"x"},"binaryData":{"yours":"AAAA"}}`, none, "data of others"},
		{`{"data":{"app.properties":"a=b"}}`, corrupt, "another program's ConfigMap"},
		{`{"binaryData":{"logo":"AAAA"}}`, corrupt, "likewise"},
		{`{"data":{"format":"3"}}`, newer, "from the future"},
		{`{"data":{"checkpoint.k":` + strconv.Quote(checkpointOfFormat1) + `,"format":"1","owner":"{}"}}`, older,
			"from the time before the first release"},
		{`{"data":{"format":"0"}}`, corrupt, "there never was a format 0"},
		{`{"data":{"format":"one"}}`, corrupt, "no number"},
		{`{"data":{"format":""}}`, corrupt, "nothing is no number"},
		{`{"data":{"format":"2","owner":"{"}}`, corrupt, "an owner that can't be read"},
		{`{"data":{"format":2}}`, corrupt, "no server does that"},
	}
	for _, tt := range tests {
		srv := newServer(t)
		o := &unstructured.Unstructured{}
		noError(t, json.Unmarshal([]byte(tt.fields), &o.Object))
		o.SetAPIVersion("v1")
		o.SetKind("ConfigMap")
		o.SetNamespace("ns")
		o.SetName("cp")
		before, err := srv.Create(configMapResource, o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), srv.Client(), "ns", "cp", nil)
		if c := (*checkpoint.CorruptError)(nil); errors.As(err, &c) {
			cause := errors.New(c.Err.Error())
			if tt.err == corrupt {
				cause = nil // any
			}
			err = &checkpoint.CorruptError{Store: c.Store, Older: c.Older, Newer: c.Newer, Err: cause}
		}
		if !errors.Is(err, tt.err) && !reflect.DeepEqual(err, tt.err) {
			t.Errorf("%s: %v, want %v", tt.why, err, tt.err)
		}
		if err == nil {
			commit(t, s.(*store), delta("k", "5"))
		} else if d := cmp.Diff(before, stored(t, srv)); d != "" {
			t.Errorf("%s: it was changed: %s", tt.why, d)
		}
	}
}

func TestStoreNeedsGetCreateAndUpdateOnly(t *testing.T) {
	srv := newServer(t)
	for _, verb := range []string{"list", "watch", "delete"} {
		noError(t, srv.Do("configmaps forbid "+verb))
	}
	commit(t, open(t, srv.Client(), "a"), delta("k", "5"))
	noError(t, srv.Do("configmaps forbid create"))
	commit(t, open(t, srv.Client(), "b"), delta("k", "6"))
	remove(t, srv)
	if _, err := Open(t.Context(), srv.Client(), "ns", "cp", nil); err == nil {
		t.Error("created without the right to")
	}
}

// TestOpenRaces: other writes between the requests of Open.
func TestOpenRaces(t *testing.T) {
	type instead func(srv *streamtest.Server, r *http.Request, next http.RoundTripper) (*http.Response, error)
	other := func(srv *streamtest.Server, r *http.Request, next http.RoundTripper) (*http.Response, error) {
		open(t, srv.Client(), "other")
		return next.RoundTrip(r)
	}
	twice := func(_ *streamtest.Server, r *http.Request, next http.RoundTripper) (*http.Response, error) {
		return replayed(t, r, next)
	}
	deleted := func(srv *streamtest.Server, r *http.Request, next http.RoundTripper) (*http.Response, error) {
		remove(t, srv)
		return next.RoundTrip(r)
	}
	tests := []struct {
		exists  bool
		method  string // of the first such request
		instead instead
		found   bool // by the Store that is opened
		why     string
	}{
		{false, http.MethodPost, other, false, "another process creates it first"},
		{true, http.MethodPut, other, true, "another process claims it first"},
		{true, http.MethodPut, deleted, false, "it is deleted"},
		{false, http.MethodPost, twice, false, "a proxy sends the creation twice"},
		{true, http.MethodPut, twice, true, "net/http sends an update twice when a connection breaks"},
	}
	for _, tt := range tests {
		srv := newServer(t)
		if tt.exists {
			commit(t, open(t, srv.Client(), "before"), delta("k", "5"))
		}
		done := false
		s := open(t, clientOf(t, srv, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if done || r.Method != tt.method {
				return next.RoundTrip(r)
			}
			done = true
			return tt.instead(srv, r, next)
		}), "me")
		if !done {
			t.Errorf("%s: did not happen", tt.why)
		}
		if got, err := readOwner(values(t, stored(t, srv))[ownerKey]); err != nil || got.Holder != "me" {
			t.Errorf("%s: the owner is %+v, %v", tt.why, got, err)
		}
		if found := load(t, s, "k") != nil; found != tt.found {
			t.Errorf("%s: something under k: %t, want %t", tt.why, found, tt.found)
		}
		commit(t, s, delta("k", "6"))
	}
}
