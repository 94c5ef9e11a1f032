package devserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"
)

const (
	certificateLife = 10 * 365 * 24 * time.Hour
	// certificateRest is the shortest remaining lifetime of a certificate that is used again.
	certificateRest = 24 * time.Hour
)

// loadCertificate reads a certificate and its key from a file. If they are absent, invalid or about to expire, it
// creates new ones and replaces the file.
func loadCertificate(path string) (tls.Certificate, error) {
	if data, err := os.ReadFile(path); err == nil {
		c, err := tls.X509KeyPair(data, data)
		if err == nil && time.Until(c.Leaf.NotAfter) > certificateRest {
			return c, nil
		}
	}
	data, err := newCertificate()
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := writeSecret(path, data); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(data, data)
}

// newCertificate returns a self-signed serving certificate for the loopback interface and its key, in PEM. Clients of
// this server trust only this certificate.
func newCertificate() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "gvrwatch-devserver"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(certificateLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...,
	), nil
}
