// Package envtest has the names of controller-runtime's envtest that its tests use, with examples/devserver.
//
// That serves custom resources only. The tests' types of the core group are custom resources of another group here, and
// a proxy shows them in the place of the core types: their URLs, their apiVersion, and requests in protobuf. What they
// lack is what a kube-apiserver does with these types in particular: protobuf, defaults, validation, field selectors.
package envtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

const group = "core.peers.example.com"

var kinds = []devserver.CRD{
	{Group: group, Kind: "Namespace"}, {Group: group, Kind: "Node"}, {Group: group, Kind: "Pod", Namespaced: true},
	{Group: group, Kind: "Service", Namespaced: true}, {Group: group, Kind: "ServiceAccount", Namespaced: true},
}

// Environment is an API server in this process.
type Environment struct {
	server *devserver.Server
	proxy  *httptest.Server
}

// Start starts the server, and creates the service that every cluster has.
func (e *Environment) Start() (*rest.Config, error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var err error
	if e.server, err = devserver.Start(ctx, nil); err != nil {
		return nil, err
	}
	c := e.server.Config()
	transport, err := rest.TransportFor(c)
	if err != nil {
		return nil, err
	}
	host, err := url.Parse(c.Host)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	if err := devserver.CreateCRDs(ctx, client, kinds...); err != nil {
		return nil, err
	}
	service := &unstructured.Unstructured{}
	service.SetAPIVersion(group + "/v1")
	service.SetKind("Service")
	service.SetName("kubernetes")
	_, err = client.Resource(kinds[3].Resource()).Namespace("default").Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	e.proxy = httptest.NewServer(proxy(host, transport))
	return &rest.Config{Host: e.proxy.URL, QPS: -1}, nil
}

// Stop stops the server.
func (e *Environment) Stop() error {
	e.proxy.CloseClientConnections()
	e.proxy.Close()
	return e.server.Stop()
}

// proxy shows the custom resources as core types.
func proxy(to *url.URL, transport http.RoundTripper) http.Handler {
	p := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // of watches
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Set("Accept-Encoding", "identity")
			accept := strings.Split(r.In.Header.Get("Accept"), ",")
			accept = slices.DeleteFunc(accept, func(s string) bool { return strings.Contains(s, "protobuf") })
			r.Out.Header.Set("Accept", strings.Join(accept, ","))
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Content-Length")
			r.ContentLength = -1
			r.Body = &renamed{from: r.Body, lines: bufio.NewReader(r.Body)}
			return nil
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, isCore := strings.CutPrefix(r.URL.Path, "/api")
		switch {
		case path == "" && isCore: // the core group is not in the aggregated discovery of this server
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(metav1.APIVersions{Versions: []string{"v1"}})
			return
		case isCore && strings.HasPrefix(path, "/v1"):
			r.URL.Path, r.URL.RawPath = "/apis/"+group+path, ""
			if err := rename(r); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		p.ServeHTTP(w, r)
	})
}

// rename makes a request's object one of the custom resource, in JSON.
func rename(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) == 0 {
		return err
	}
	if strings.Contains(r.Header.Get("Content-Type"), "protobuf") {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return err
		}
		if body, err = json.Marshal(o); err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
	}
	var o map[string]any
	if err := json.Unmarshal(body, &o); err != nil {
		return fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	o["apiVersion"] = group + "/v1"
	if body, err = json.Marshal(o); err != nil {
		return err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// renamed is a response, line by line, with the apiVersion of the core group.
type renamed struct {
	from  io.ReadCloser
	lines *bufio.Reader
	rest  []byte
	err   error
}

func (r *renamed) Read(to []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		r.rest, r.err = r.lines.ReadBytes('\n')
		r.rest = bytes.ReplaceAll(r.rest, []byte(`"`+group+`/v1"`), []byte(`"v1"`))
	}
	n := copy(to, r.rest)
	r.rest = r.rest[n:]
	if n == 0 {
		return 0, r.err
	}
	return n, nil
}

func (r *renamed) Close() error { return r.from.Close() }
