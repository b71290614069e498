// Command floor is the least that a webhook can be: it reads a review and answers with a constant and the review's uid.
//
// It decides nothing, so what it costs whoever creates a pod is the API server's own work and the way there and back:
// no webhook, in whatever language and whatever it does, costs less. HTTP/1.1 or HTTP/2, as the client wishes.
//
// Where it is asked by /keep it answers once an object in the cluster was written meanwhile: no webhook that keeps there
// what it counts costs less.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
)

const (
	head    = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"`
	allowed = `","allowed":true}}`
	refused = `","allowed":false,"status":{"status":"Failure","code":403,"reason":"Forbidden","message":"no room"}}}`
)

// The API server writes a review's own uid before everything else that has one (k8s.io/api/admission/v1, v1.36).
var before = []byte(`"uid":"`)

func main() {
	folder := os.Args[1]
	ledger, err := newKept(os.Args[2], os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	go ledger.serve()
	http.HandleFunc("POST /allow", answering(allowed, nothing))
	http.HandleFunc("POST /refuse", answering(refused, nothing))
	http.HandleFunc("POST /keep", answering(allowed, ledger.stored))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("{\"port\": %d}\n", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.ServeTLS(listener, nil, filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")))
}

func nothing() error { return nil }

func answering(end string, first func() error) http.HandlerFunc {
	return func(answer http.ResponseWriter, asked *http.Request) {
		review, err := io.ReadAll(asked.Body)
		_, rest, found := bytes.Cut(review, before)
		uid, _, closed := bytes.Cut(rest, []byte(`"`))
		if err != nil || !found || !closed {
			http.Error(answer, "not a review", http.StatusBadRequest)
			return
		}
		if err := first(); err != nil {
			http.Error(answer, err.Error(), http.StatusInternalServerError)
			return
		}
		answer.Header().Set("Content-Type", "application/json")
		answer.Write(append(append([]byte(head), uid...), end...))
	}
}
