// Serves a registry in memory with the referrers API, which the crane program leaves switched off.
package main

import (
	"flag"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	address := flag.String("address", "127.0.0.1:0", "host and port to listen on")
	flag.Parse()
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	server := &http.Server{
		Addr:              *address,
		Handler:           registry.New(registry.WithReferrersSupport(true), quiet),
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}
