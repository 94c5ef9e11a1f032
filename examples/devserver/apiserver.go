package devserver

import (
	"crypto/rand"
	"fmt"

	noopoteltrace "go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	extoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	generatedopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
)

// newAPIServer assembles an apiextensions-apiserver without its own options, because these require a core API to which
// they delegate authentication, authorization and admission.
func newAPIServer(
	client *rest.Config, auth access, port int, etcd *etcdDialer, watchCache bool,
) (*apiextensions.CustomResourceDefinitions, error) {
	c := genericapiserver.NewRecommendedConfig(apiextensions.Codecs)
	c.EffectiveVersion = release{compatibility.DefaultBuildEffectiveVersion()}
	c.ExternalAddress = fmt.Sprintf("127.0.0.1:%d", port)
	c.SecureServing = &genericapiserver.SecureServingInfo{Listener: newIdleListener()}
	c.ShutdownWatchTerminationGracePeriod = watchGrace
	c.EnableProfiling = false
	c.Authentication.Authenticator = newAuthenticator(auth.users)
	c.Authorization.Authorizer = newAuthorizer(auth.allow)
	// The server's own controllers use a token that never leaves the process.
	c.LoopbackClientConfig = rest.CopyConfig(client)
	c.LoopbackClientConfig.BearerToken = rand.Text()

	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generatedopenapi.GetOpenAPIDefinitions)
	namer := openapinamer.NewDefinitionNamer(apiextensions.Scheme, scheme.Scheme)
	c.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	c.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	c.OpenAPIConfig.Info.Title, c.OpenAPIV3Config.Info.Title = "Kubernetes", "Kubernetes"

	storage := etcdOptions(port, etcd, watchCache)
	if err := storage.ApplyTo(&c.Config); err != nil {
		return nil, fmt.Errorf("set up storage: %w", err)
	}
	err := genericoptions.NewAPIEnablementOptions().ApplyTo(
		&c.Config, apiextensions.DefaultAPIResourceConfigSource(), apiextensions.Scheme)
	if err != nil {
		return nil, fmt.Errorf("enable APIs: %w", err)
	}
	config := &apiextensions.Config{
		GenericConfig: c,
		ExtraConfig: apiextensions.ExtraConfig{
			CRDRESTOptionsGetter: extoptions.NewCRDRESTOptionsGetter(*storage, nil, c.StorageObjectCountTracker),
			ServiceResolver:      webhook.NewDefaultServiceResolver(),
			AuthResolverWrapper: webhook.NewDefaultAuthenticationInfoResolverWrapper(
				nil, nil, c.LoopbackClientConfig, noopoteltrace.NewTracerProvider()),
		},
	}
	completed := config.Complete()
	server, err := completed.New(genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("build the API server: %w", err)
	}
	installDiscovery(server.GenericAPIServer)
	return server, nil
}

// release is an EffectiveVersion whose GitVersion kubectl can parse. A build without Kubernetes' linker flags reports a
// placeholder at /version, which kubectl rejects.
type release struct {
	basecompatibility.EffectiveVersion
}

func (r release) Info() *apimachineryversion.Info {
	info := *r.EffectiveVersion.Info()
	v := r.BinaryVersion() // has no patch number
	info.GitVersion = fmt.Sprintf("v%d.%d.%d", v.Major(), v.Minor(), v.Patch())
	return &info
}

// etcdOptions configures storage in etcd as in kube-apiserver.
func etcdOptions(port int, etcd *etcdDialer, watchCache bool) *genericoptions.EtcdOptions {
	codec := apiextensions.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion, v1.SchemeGroupVersion)
	o := genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", codec))
	// etcd.dial ignores this address, but it must be unique in the process: API servers with the same address share a
	// compactor.
	o.StorageConfig.Transport.ServerList = []string{fmt.Sprintf("http://etcd-%d.invalid:2379", port)}
	o.StorageConfig.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) {
		return etcd.dial, nil
	}
	o.EnableWatchCache = watchCache
	// The health endpoints open their own etcd clients, which leak if the API server is built but never run. They are
	// not needed: a client sees that etcd is down when its requests fail.
	o.SkipHealthEndpoints = true
	return o
}
