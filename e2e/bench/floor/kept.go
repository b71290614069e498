package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

const (
	path     = "%s/apis/tallygate.dev/v1alpha1/namespaces/%s/capledgers/%s?fieldValidation=Strict"
	answered = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	most     = 1024 // that wait at once
)

// A revision stands behind each of these: that of the object, and that of the pods it was counted from.
var opens, counted, closes = []byte(`"resourceVersion":"`), []byte(`"podsResourceVersion":"`), []byte(`"`)

// kept is an object in the cluster that is written anew and anew, each time over the state that was written before.
//
// One write is under way at a time, and who comes meanwhile shares the next: nobody can wait less who needs to know that
// something was stored after he came, unless several writes to one object could be under way at once. Each write says
// another revision of pods: one that changes nothing the API server does not store.
type kept struct {
	client     *http.Client
	url, token string
	parts      [][]byte // of the object, between which its revision stands
	revision   string
	waiting    chan chan error
}

// newKept reads who asks from a kubeconfig, and the object as it is stored now from a file.
func newKept(kubeconfig, object string) (*kept, error) {
	var access struct {
		Clusters []struct {
			Cluster struct {
				Server    string
				Authority []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct{ User struct{ Token string } }
	}
	var named struct {
		Metadata struct{ Name, Namespace string }
	}
	if err := decode(kubeconfig, &access); err != nil {
		return nil, err
	}
	if err := decode(object, &named); err != nil {
		return nil, err
	}
	written, err := os.ReadFile(object)
	if err != nil {
		return nil, err
	}
	head, revision, rest, found := around(written, opens)
	middle, _, tail, tells := around(rest, counted)
	if !found || !tells || len(access.Clusters) != 1 || len(access.Users) != 1 {
		return nil, fmt.Errorf("%s has not both revisions, or %s is not whole", object, kubeconfig)
	}
	server, trusted := access.Clusters[0].Cluster, x509.NewCertPool()
	trusted.AppendCertsFromPEM(server.Authority)
	return &kept{
		// A transport with a TLS configuration of its own speaks HTTP/1.1 (net/http), as the gate does.
		client:   &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}},
		url:      fmt.Sprintf(path, server.Server, named.Metadata.Namespace, named.Metadata.Name),
		token:    access.Users[0].User.Token,
		parts:    [][]byte{head, middle, tail},
		revision: string(revision),
		waiting:  make(chan chan error, most),
	}, nil
}

func decode(file string, into any) error {
	read, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(read, into)
}

// around cuts a text at what stands between a name that opens it and the next quotation mark.
func around(text, name []byte) (before, within, after []byte, found bool) {
	at := bytes.Index(text, name)
	if at < 0 {
		return text, nil, nil, false
	}
	before, after = text[:at+len(name)], text[at+len(name):]
	end := bytes.Index(after, closes)
	return before, after[:max(end, 0)], after[max(end, 0):], end >= 0
}

// stored returns once the object was written after this was called.
func (k *kept) stored() error {
	done := make(chan error, 1)
	k.waiting <- done
	return <-done
}

// serve writes for all who wait, for ever.
func (k *kept) serve() {
	for first := range k.waiting {
		sharing := []chan error{first}
		for len(k.waiting) > 0 {
			sharing = append(sharing, <-k.waiting)
		}
		err := k.write()
		for _, each := range sharing {
			each <- err
		}
	}
}

func (k *kept) write() error {
	body := bytes.Join(k.parts, []byte(k.revision))
	asked, err := http.NewRequest(http.MethodPut, k.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	asked.Header.Set("Authorization", "Bearer "+k.token)
	asked.Header.Set("Content-Type", "application/json")
	asked.Header.Set("Accept", answered)
	answer, err := k.client.Do(asked)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	_, revision, _, found := around(said, opens)
	if answer.StatusCode != http.StatusOK || !found {
		return fmt.Errorf("the object was not written: %s %s", answer.Status, said)
	}
	k.revision = string(revision)
	return nil
}
