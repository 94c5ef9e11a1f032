package devserver

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// identity has what clients need to connect to a server. It is stored in the data folder.
type identity struct {
	token       string
	certificate tls.Certificate // self-signed
}

// loadIdentity reads the identity from the folder, and creates what is missing, invalid or expired.
func loadIdentity(dir string) (*identity, error) {
	token, err := loadToken(filepath.Join(dir, "token"))
	if err != nil {
		return nil, fmt.Errorf("load the bearer token: %w", err)
	}
	certificate, err := loadCertificate(filepath.Join(dir, "serving.pem"))
	if err != nil {
		return nil, fmt.Errorf("load the serving certificate: %w", err)
	}
	return &identity{token: token, certificate: certificate}, nil
}

func loadToken(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if token := strings.TrimSpace(string(data)); token != "" {
		return token, nil
	}
	token := rand.Text()
	return token, writeSecret(path, []byte(token+"\n"))
}

// clientConfig returns the client configuration of the administrator.
func (id *identity) clientConfig(url string) *rest.Config {
	return &rest.Config{
		Host:        url,
		BearerToken: id.token,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.certificate.Certificate[0]}),
		},
		QPS: -1,
	}
}

// keptPort returns the port in the kubeconfig that an earlier server has written, or 0.
func keptPort(kubeconfig string) int {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil || config.Clusters[kubeconfigName] == nil {
		return 0
	}
	server, err := url.Parse(config.Clusters[kubeconfigName].Server)
	if err != nil {
		return 0
	}
	port, _ := strconv.ParseUint(server.Port(), 10, 16)
	return int(port)
}

// kubeconfigName is the name of the cluster, the user and the context in a kubeconfig.
const kubeconfigName = "gvrwatch-devserver"

func writeKubeconfig(path string, c *rest.Config) error {
	const name = kubeconfigName
	k := clientcmdapi.NewConfig()
	k.Clusters[name] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	data, err := clientcmd.Write(*k)
	if err != nil {
		return err
	}
	return writeSecret(path, data)
}
