//go:build !kubernetes_1_38

package main

import (
	"context"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/incubating"
)

func newAllocator(ctx context.Context, in inputs, cache *cel.Cache) (internal.Allocator, error) {
	return incubating.NewAllocator(ctx, in.features, in.state, classLister(in.classes), in.slices, cache)
}

func (a allocated) read() internal.AllocatedState {
	state := internal.AllocatedState{
		AllocatedDevices:         sets.New[internal.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[internal.SharedDeviceID](),
		AggregatedCapacity:       internal.NewConsumedCapacityCollection(),
	}
	for _, device := range a.Devices {
		state.AllocatedDevices.Insert(readDevice(device))
	}
	for _, shared := range a.Shared {
		end := strings.LastIndex(shared, "/")
		share := types.UID(shared[end+1:])
		state.AllocatedSharedDeviceIDs.Insert(internal.MakeSharedDeviceID(readDevice(shared[:end]), &share))
	}
	for device, amounts := range a.Capacity {
		consumed := internal.NewConsumedCapacity()
		for name, text := range amounts {
			amount := resource.MustParse(text)
			consumed[resourceapi.QualifiedName(name)] = &amount
		}
		state.AggregatedCapacity[readDevice(device)] = consumed
	}
	return state
}
