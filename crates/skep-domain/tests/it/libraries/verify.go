// Says whether Go trusts a certificate: verify AUTHORITIES.pem CERTIFICATE.der NAME
package main

import (
	"crypto/x509"
	"fmt"
	"os"
)

func main() {
	authorities, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		panic("no authority in the file")
	}
	der, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	_, err = certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: os.Args[3]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		fmt.Println("refused")
		return
	}
	fmt.Println("trusted")
}
