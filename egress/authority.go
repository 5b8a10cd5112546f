package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Authority is a certificate authority of one run, for the names of its secrets and no others: with it the gateway stands in for their
// hosts. Its certificate says so itself (name constraints, RFC 5280 section 4.2.1.10, which has no form for a name without the names below it), so that
// whoever had its key could be nobody else towards a program that trusts it.
type Authority struct {
	Certificate []byte `json:"certificate"` // DER
	Key         []byte `json:"key"`         // PKCS #8
}

// authorityLife is longer than any run.
const authorityLife = 30 * 24 * time.Hour

// NewAuthority makes one for the given names.
func NewAuthority(now time.Time, names []string) (a Authority, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return a, fmt.Errorf("make certificate authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(now), Subject: pkix.Name{CommonName: "silk, for one run"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: names,
		ExcludedIPRanges: []*net.IPNet{{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}}, // a list of names alone leaves addresses free
	}
	if a.Certificate, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key); err != nil {
		return a, fmt.Errorf("make certificate authority: %w", err)
	}
	if a.Key, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		return a, fmt.Errorf("make certificate authority: %w", err)
	}
	return a, nil
}

// PEM is the certificate as programs read it.
func (a Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate})
}

// Issue makes a certificate for a host of one of the authority's names.
func (a Authority) Issue(now time.Time, name string) (*tls.Certificate, error) {
	return a.issue(now, name, func(*x509.Certificate) {})
}

func (a Authority) issue(now time.Time, name string, change func(*x509.Certificate)) (*tls.Certificate, error) {
	root, err := x509.ParseCertificate(a.Certificate)
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	signer, err := x509.ParsePKCS8PrivateKey(a.Key)
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make certificate for %s: %w", name, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(now), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template) // tests
	der, err := x509.CreateCertificate(rand.Reader, template, root, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("make certificate for %s: %w", name, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// serial numbers the certificates of one authority, which are made one after the other.
func serial(now time.Time) *big.Int { return big.NewInt(now.UnixNano()) }
