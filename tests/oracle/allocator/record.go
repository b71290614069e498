//go:build !kubernetes_1_38

package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"
	"k8s.io/dynamic-resource-allocation/structured/internal/incubating"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// recorder is the incubating allocator, with a record of each call.
type recorder struct {
	*incubating.Allocator
	inputs   inputs
	test     testing.TB
	record   func(answered)
	leaveOut func(reason string)
}

// Allocate records its arguments before the call, and its results before the test changes them. It leaves out a call that
// the test interrupts, since the answer depends on the clock, and a call with inputs that JSON does not carry.
func (r recorder) Allocate(ctx context.Context, node *corev1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	r.inputs.node, r.inputs.claims = node, claims
	asked := newQuestion(caseName(r.test), r.inputs)
	carried := asked.carries(r.inputs)
	results, err := r.Allocator.Allocate(ctx, node, claims)
	switch {
	case ctx.Err() != nil:
		r.leaveOut("interrupted")
	case !carried:
		r.leaveOut("JSON does not carry its inputs")
	default:
		r.record(answered{asked, newAnswer(results, err)})
	}
	return results, err
}

// testOf returns the test to which a context logs.
func testOf(ctx context.Context) testing.TB {
	return klog.FromContext(ctx).GetSink().(ktesting.Underlier).GetUnderlying().(testing.TB)
}

// caseName is the name of a subtest, without the test of which it is a part.
func caseName(test testing.TB) string {
	_, name, _ := strings.Cut(test.Name(), "/")
	return name
}

type newAllocatorFunc = func(context.Context, internal.Features, internal.AllocatedState, internal.DeviceClassLister,
	[]*resourceapi.ResourceSlice, *cel.Cache) (internal.Allocator, error)

// recordTests runs Kubernetes' own tests of allocators with the incubating one, writes the cases, sorted by name, if all tests
// pass, and ends the program. Tests with features that the incubating allocator lacks are skipped, with a line on standard error.
func recordTests(write func(answered)) {
	var cases []answered
	leftOut := 0
	record := func(found answered) { cases = append(cases, found) }
	newAllocator := func(ctx context.Context, features internal.Features, state internal.AllocatedState,
		classLister internal.DeviceClassLister, resourceSlices []*resourceapi.ResourceSlice, celCache *cel.Cache,
	) (internal.Allocator, error) {
		test := testOf(ctx)
		leaveOut := func(reason string) {
			leftOut++
			fmt.Fprintf(os.Stderr, "left out: %s: %s\n", caseName(test), reason)
		}
		if missing := features.Set().Difference(incubating.SupportedFeatures.Set()); missing.Len() > 0 {
			leaveOut("needs " + strings.Join(sets.List(missing), ", "))
			test.SkipNow()
		}
		classes, err := classLister.List()
		if err != nil {
			return nil, err
		}
		allocator, err := incubating.NewAllocator(ctx, features, state, classLister, resourceSlices, celCache)
		if err != nil {
			return nil, err
		}
		given := inputs{features: features, state: state, classes: classes, slices: resourceSlices}
		return recorder{allocator, given, test, record, leaveOut}, nil
	}
	run := func(name string, tests func(*testing.T, internal.Features, newAllocatorFunc)) testing.InternalTest {
		return testing.InternalTest{Name: name, F: func(t *testing.T) {
			tests(t, internal.FeaturesAll, newAllocator)
			if t.Failed() {
				fmt.Fprintln(os.Stderr, "the allocator does not pass Kubernetes' own tests: nothing is recorded")
				os.Exit(1)
			}
		}}
	}
	writeAll := func(*testing.T) {
		fmt.Fprintf(os.Stderr, "%d cases; %d left out\n", len(cases), leftOut)
		slices.SortFunc(cases, func(a, b answered) int { return strings.Compare(a.Name, b.Name) })
		for _, each := range cases {
			write(each)
		}
	}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{
		run("TestAllocator", allocatortesting.TestAllocator),
		run("TestLexicographicalAllocator", allocatortesting.TestLexicographicalAllocator),
		{Name: "Write", F: writeAll},
	}, nil, nil)
}

// newQuestion returns the inputs as a case.
func newQuestion(name string, in inputs) question {
	return question{
		Name:      name,
		Features:  featureNames(in.features),
		Allocated: newAllocated(in.state),
		Classes:   encodeAll(in.classes),
		Slices:    encodeAll(in.slices),
		Node:      encode(in.node),
		Claims:    encodeAll(in.claims),
	}
}

// carries tells whether a case stands for the inputs. Kubernetes writes the amount 1e21 as 1.
func (q question) carries(in inputs) bool {
	again := q.read()
	equal := equality.Semantic.DeepEqual
	return again.features == in.features && equal(again.state, in.state) && equal(again.classes, in.classes) &&
		equal(again.slices, in.slices) && equal(again.node, in.node) && equal(again.claims, in.claims)
}

func featureNames(features internal.Features) []string {
	names := []string{}
	value := reflect.ValueOf(features)
	for i := range value.NumField() {
		if value.Field(i).Bool() {
			names = append(names, value.Type().Field(i).Name)
		}
	}
	return names
}

func newAllocated(state internal.AllocatedState) allocated {
	var found allocated
	for id := range state.AllocatedDevices {
		found.Devices = append(found.Devices, id.String())
	}
	for id := range state.AllocatedSharedDeviceIDs {
		found.Shared = append(found.Shared, id.GetDeviceID().String()+"/"+id.ShareID.String())
	}
	slices.Sort(found.Devices)
	slices.Sort(found.Shared)
	for id, consumed := range state.AggregatedCapacity {
		amounts := map[string]string{}
		for name, amount := range consumed {
			amounts[string(name)] = amount.String()
		}
		if found.Capacity == nil {
			found.Capacity = map[string]map[string]string{}
		}
		found.Capacity[id.String()] = amounts
	}
	return found
}
