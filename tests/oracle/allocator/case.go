package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured/internal"
)

// question is a case as it is written: the objects are in the form of the API.
type question struct {
	Name      string            `json:"name"`
	Features  []string          `json:"features"`
	Allocated allocated         `json:"allocated"`
	Classes   []json.RawMessage `json:"classes"`
	Slices    []json.RawMessage `json:"slices"`
	Node      json.RawMessage   `json:"node"`
	Claims    []json.RawMessage `json:"claims"`
}

// allocated has devices as driver/pool/device, and shares of devices as driver/pool/device/share. A pool's name may have
// slashes, the other names have none.
type allocated struct {
	Devices  []string                     `json:"devices,omitempty"`
	Shared   []string                     `json:"shared,omitempty"`
	Capacity map[string]map[string]string `json:"capacity,omitempty"`
}

type answered struct {
	question
	Answer map[string]any `json:"answer"`
}

// inputs are the arguments of an allocator.
type inputs struct {
	features internal.Features
	state    internal.AllocatedState
	classes  []*resourceapi.DeviceClass
	slices   []*resourceapi.ResourceSlice
	node     *corev1.Node
	claims   []*resourceapi.ResourceClaim
}

// read returns the inputs that a case stands for.
func (q question) read() inputs {
	in := inputs{state: q.Allocated.read(), node: &corev1.Node{}}
	for _, name := range q.Features {
		field := reflect.ValueOf(&in.features).Elem().FieldByName(name)
		if !field.IsValid() {
			panic(fmt.Sprintf("case %q: the allocator has no feature %q", q.Name, name))
		}
		field.SetBool(true)
	}
	decode(q.Node, in.node)
	in.classes = decodeAll[resourceapi.DeviceClass](q.Classes)
	in.slices = decodeAll[resourceapi.ResourceSlice](q.Slices)
	in.claims = decodeAll[resourceapi.ResourceClaim](q.Claims)
	return in
}

func readDevice(text string) internal.DeviceID {
	start, end := strings.Index(text, "/"), strings.LastIndex(text, "/")
	if start == end {
		panic(fmt.Sprintf("device %q is not driver/pool/device", text))
	}
	return internal.MakeDeviceID(text[:start], text[start+1:end], text[end+1:])
}

// newAnswer returns what Allocate returned: results, or null where the claims cannot be allocated on the node, or an error.
// Share IDs are random, and become "". An error with onNode leaves other nodes to the scheduler.
func newAnswer(results []resourceapi.AllocationResult, err error) map[string]any {
	if err != nil {
		answer := map[string]any{"error": err.Error()}
		if errors.Is(err, internal.ErrFailedAllocationOnNode) {
			answer["onNode"] = true
		}
		return answer
	}
	if results == nil {
		return map[string]any{"results": nil}
	}
	encoded := make([]json.RawMessage, 0, len(results))
	for _, result := range results {
		copied := result.DeepCopy()
		for i := range copied.Devices.Results {
			if copied.Devices.Results[i].ShareID != nil {
				copied.Devices.Results[i].ShareID = new(types.UID)
			}
		}
		encoded = append(encoded, encode(copied))
	}
	return map[string]any{"results": encoded}
}

func encodeAll[T any](objects []*T) []json.RawMessage {
	encoded := make([]json.RawMessage, 0, len(objects))
	for _, object := range objects {
		encoded = append(encoded, encode(object))
	}
	return encoded
}

// encode returns an object in the form of the API, without nulls, and without a spec or a status in which all is empty.
func encode(object any) json.RawMessage {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		panic(err)
	}
	removeNulls(fields)
	for _, name := range []string{"spec", "status"} {
		if isEmpty(fields[name]) {
			delete(fields, name)
		}
	}
	return marshal(fields)
}

// marshal returns a value as JSON in which '<', '>' and '&' stay as they are.
func marshal(value any) json.RawMessage {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return bytes.TrimRight(buffer.Bytes(), "\n")
}

func removeNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, each := range value {
			if each == nil {
				delete(value, name)
			}
			removeNulls(each)
		}
	case []any:
		for _, each := range value {
			removeNulls(each)
		}
	}
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, each := range value {
			if !isEmpty(each) {
				return false
			}
		}
		return true
	case []any:
		return len(value) == 0
	case json.Number:
		return value == "0"
	}
	return value == nil || value == "" || value == false
}

func decodeAll[T any](raws []json.RawMessage) []*T {
	objects := make([]*T, 0, len(raws))
	for _, raw := range raws {
		object := new(T)
		decode(raw, object)
		objects = append(objects, object)
	}
	return objects
}

func decode(raw json.RawMessage, object any) {
	if err := json.Unmarshal(raw, object); err != nil {
		panic(err)
	}
}
