package discovery

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/guard"
)

// checked returns a client like c that refuses what is no discovery document, and what is no refusal of an API server,
// or c itself if it does so already, or if it is not one of client-go's: what another client returns has to be right.
func checked(c clientdiscovery.DiscoveryInterface) clientdiscovery.DiscoveryInterface {
	return rewired(c, func(next http.RoundTripper) http.RoundTripper {
		if checks(next) {
			return nil
		}
		return &documentTransport{guard.RefuseGateways(next)}
	})
}

// endingWith returns a client like c whose requests end with ctx, or c itself if it is not one of client-go's.
func endingWith(ctx context.Context, c clientdiscovery.DiscoveryInterface) clientdiscovery.DiscoveryInterface {
	return rewired(c, func(next http.RoundTripper) http.RoundTripper { return endingTransport{ctx, next} })
}

// rewired returns a client like c with the transport that wrap returns, given the one of c. It returns c itself if wrap
// returns nil, or if c is neither client-go's client nor one of its caches.
func rewired(
	c clientdiscovery.DiscoveryInterface, wrap func(http.RoundTripper) http.RoundTripper,
) clientdiscovery.DiscoveryInterface {
	given, isPlain := c.(*clientdiscovery.DiscoveryClient)
	if !isPlain && !caches(c) || isPlain && given == nil {
		return c
	}
	through, ok := c.RESTClient().(*rest.RESTClient)
	if !ok || through == nil {
		return c
	}
	hc := http.Client{}
	if through.Client != nil {
		hc = *through.Client
	}
	if hc.Transport == nil {
		hc.Transport = http.DefaultTransport
	}
	if hc.Transport = wrap(hc.Transport); hc.Transport == nil {
		return c
	}
	content := rest.ClientContentConfig{ // JSON
		GroupVersion: metav1.SchemeGroupVersion,
		Negotiator:   runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), metav1.SchemeGroupVersion),
	}
	rc, err := rest.NewRESTClient(through.Get().AbsPath("/").URL(), "", content, through.GetRateLimiter(), &hc)
	if err != nil {
		return c
	}
	made := clientdiscovery.NewDiscoveryClient(rc)
	if isPlain {
		from, to := reflect.ValueOf(given).Elem(), reflect.ValueOf(made).Elem()
		for i := range from.NumField() {
			if to.Type().Field(i).IsExported() { // LegacyPrefix and others, of which newer versions have more
				to.Field(i).Set(from.Field(i))
			}
		}
	}
	return made
}

// endingTransport ends requests with ctx, which stands for the one that client-go before 0.37 does not take.
type endingTransport struct {
	ctx  context.Context
	next http.RoundTripper
}

func (t endingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	end := func() { stop(); cancel(nil) }
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	response.Body = endingBody{cmp.Or[io.ReadCloser](response.Body, http.NoBody), end}
	return response, nil
}

// endingBody calls end when it is closed.
type endingBody struct {
	io.ReadCloser
	end func()
}

func (b endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// caches reports whether c is one of client-go's memory and disk caches, whose client can be had only as a REST client.
// A Resolver has a cache of its own, and so reads past theirs.
func caches(c clientdiscovery.DiscoveryInterface) bool {
	t := reflect.TypeOf(c)
	return t.Kind() == reflect.Pointer && strings.HasPrefix(t.Elem().PkgPath(), "k8s.io/client-go/discovery/cached/")
}

// checks reports whether a transport has a documentTransport.
func checks(t http.RoundTripper) bool {
	for {
		if _, ok := t.(*documentTransport); ok {
			return true
		}
		wrapper, ok := t.(utilnet.RoundTripperWrapper)
		if !ok {
			return false
		}
		t = wrapper.WrappedRoundTripper()
	}
}
