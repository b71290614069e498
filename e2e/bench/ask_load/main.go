// Command ask_load sends asks at a fixed rate, or answers them with a constant: the load of strangers and tenants on a server
// of asks, and the least that such a server can be.
//
//	ask_load serve FOLDER                           answer 401 with the certificate of the folder
//	ask_load send URL CA RATE BODY TENANTS          send a body until stdin ends, and print the numbers of the answers
//
// Each line of TENANTS is a namespace and a token, which are used in turn.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	inFlight = 256 // as many connections as one address may have
	within   = 15 * time.Second
)

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2])
	}
	send(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6])
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// innermost returns the error that the others wrap: their texts have the ports of the connection.
func innermost(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

func serve(folder string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Printf("{\"port\": %d}\n", listener.Addr().(*net.TCPAddr).Port)
	answer := http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		io.Copy(io.Discard, request.Body)
		writer.Header().Set("Connection", "close") // as the server of asks does after all but an answer
		writer.WriteHeader(http.StatusUnauthorized)
	})
	log.Fatal(http.ServeTLS(listener, answer, filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")))
}

func send(url, authority, perSecond, bodyFile, tenantsFile string) {
	rate, err := strconv.Atoi(perSecond)
	check(err)
	pem, err := os.ReadFile(authority)
	check(err)
	body, err := os.ReadFile(bodyFile)
	check(err)
	content, err := os.ReadFile(tenantsFile)
	check(err)
	tenants := strings.Split(strings.TrimSpace(string(content)), "\n")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: inFlight}
	client := &http.Client{Transport: transport, Timeout: within}
	counts, lock, running := map[string]int{}, sync.Mutex{}, sync.WaitGroup{}
	places := make(chan struct{}, inFlight)
	note := func(result string) {
		lock.Lock()
		counts[result]++
		lock.Unlock()
	}
	ask := func(tenant string) {
		defer running.Done()
		defer func() { <-places }()
		namespace, token, _ := strings.Cut(tenant, " ")
		request, err := http.NewRequest("POST", url+"?namespace="+namespace, bytes.NewReader(body))
		check(err)
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(request)
		if err != nil {
			note("error: " + innermost(err).Error())
			return
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		note(strconv.Itoa(answer.StatusCode))
	}
	var isOver atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		isOver.Store(true)
	}()
	begun := time.Now()
	for sent := 0; !isOver.Load(); sent++ {
		time.Sleep(time.Until(begun.Add(time.Duration(sent) * time.Second / time.Duration(rate))))
		select {
		case places <- struct{}{}:
			running.Add(1)
			go ask(tenants[sent%len(tenants)])
		default:
			note("not sent")
		}
	}
	running.Wait()
	json.NewEncoder(os.Stdout).Encode(counts)
}
