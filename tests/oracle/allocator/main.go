// Command allocator answers lines of JSON, each with the inputs of an allocator of devices, with the results of the
// allocator of k8s.io/dynamic-resource-allocation that the scheduler's default feature gates choose: the incubating one, with
// the tag kubernetes_1_38 the stable one. With -record it writes the cases of Kubernetes' own tests of allocators instead.
//
// The module's path lies within k8s.io/dynamic-resource-allocation/structured, which lets it import the internal packages.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/klog/v2"
)

const (
	timeout = 10 * time.Second       // the scheduler's own, for one node
	again   = 100 * time.Millisecond // a case that takes longer is answered once
)

// classLister has the classes in their order.
type classLister []*resourceapi.DeviceClass

func (l classLister) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range l {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, "not found") // the text of the tests' own lister
}

// answer returns what the allocator returns, a timeout after 10 seconds, or the allocator's panic.
func answer(in inputs) (found map[string]any) {
	defer func() {
		if failure := recover(); failure != nil {
			found = map[string]any{"panic": fmt.Sprint(failure)}
		}
	}()
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), logr.Discard()), timeout)
	defer cancel()
	cache := cel.NewCache(10, cel.Features{
		EnableConsumableCapacity: in.features.ConsumableCapacity,
		EnableListTypeAttributes: in.features.ListTypeAttributes,
	})
	allocator, err := newAllocator(ctx, in, cache)
	if err != nil {
		return newAnswer(nil, err)
	}
	results, err := allocator.Allocate(ctx, in.node, in.claims)
	if errors.Is(err, context.DeadlineExceeded) {
		return map[string]any{"timeout": true}
	}
	return newAnswer(results, err)
}

// answerAgain answers a fast case several times, since Go goes through a map in any order: answers that differ are "unstable".
func answerAgain(q question) map[string]any {
	start := time.Now()
	found := answer(q.read())
	if time.Since(start) > again {
		return found
	}
	for range 4 {
		if !bytes.Equal(marshal(answer(q.read())), marshal(found)) {
			return map[string]any{"unstable": true}
		}
	}
	return found
}

func write(out *bufio.Writer, found answered) {
	out.Write(marshal(found))
	out.WriteByte('\n')
}

func main() {
	testing.Init()
	recording := flag.Bool("record", false, "write the cases of Kubernetes' own tests")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	if *recording {
		os.Stdout = os.Stderr // the tests' own output
		recordTests(func(found answered) {
			write(out, found)
			out.Flush()
		})
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<28)
	for in.Scan() {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			panic(err)
		}
		write(out, answered{q, answerAgain(q)})
		out.Flush() // a program may ask one case after the other
	}
	if err := in.Err(); err != nil {
		panic(err)
	}
}
