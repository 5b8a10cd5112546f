//go:build server

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// certificateLife is that of a certificate that silk makes. Clients know it by its fingerprint, so nobody else's mistake can end
// it early; 398 days would be for certificates that browsers trust on their own.
const certificateLife = 10 * 365 * 24 * time.Hour

// tlsConfig reads the owner's certificate, or makes one in the state directory, and returns its fingerprint: SHA-256 of the
// certificate, which clients pin.
func (s *service) tlsConfig() (*tls.Config, string, error) {
	cert, key := s.cfg.certFile, s.cfg.keyFile
	if cert == "" {
		dir := filepath.Join(s.host.home, "tls")
		cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		if _, err := os.Stat(cert); errors.Is(err, fs.ErrNotExist) {
			if err := makeCertificate(dir, cert, key, s.cfg.hosts); err != nil {
				return nil, "", fmt.Errorf("make a certificate: %w", err)
			}
		}
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, "", fmt.Errorf("read certificate: %w", err)
	}
	sum := sha256.Sum256(pair.Certificate[0])
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, hex.EncodeToString(sum[:]), nil
}

// makeCertificate writes a self-signed certificate for this host's names and addresses, and its key, which only the owner reads.
func makeCertificate(dir, certFile, keyFile string, hosts []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // RFC 5280 section 4.1.2.2: positive, 20 octets at most
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "silk"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
		DNSNames: append([]string{"localhost"}, hosts...),
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			template.IPAddresses = append(template.IPAddresses, n.IP)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	// The key first: a certificate that is there has one.
	if err := atomicfile.Write(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600); err != nil {
		return err
	}
	return atomicfile.Write(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}
