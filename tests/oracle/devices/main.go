// Command devices answers lines of JSON with the results of k8s.io/dynamic-resource-allocation/cel:
// {"expression": E, "devices": [D, ...]} with the compiler's problem, or with the result and the cost for each device.
package main

import (
	"context"
	"encoding/json"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"tallygate.dev/oracle/lines"
)

type device struct {
	Driver                   string                                                    `json:"driver"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity,omitempty"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations,omitempty"`
}

type question struct {
	Expression string            `json:"expression"`
	Devices    []json.RawMessage `json:"devices"`
}

type line struct {
	question
	Answer map[string]any `json:"answer"`
}

func evaluate(compiled cel.CompilationResult, raw json.RawMessage) map[string]any {
	var input device
	if err := json.Unmarshal(raw, &input); err != nil {
		panic(err)
	}
	matches, details, err := compiled.DeviceMatches(context.Background(), convert(input))
	result := map[string]any{}
	if details != nil && details.ActualCost() != nil {
		result["cost"] = *details.ActualCost()
	}
	if err != nil {
		result["error"] = err.Error()
	} else {
		result["matches"] = matches
	}
	return result
}

// evaluateAgain evaluates several times, since Go iterates over a map in any order: a cost that changes is left out, and
// a result that changes is "unstable".
func evaluateAgain(compiled cel.CompilationResult, raw json.RawMessage) map[string]any {
	result := evaluate(compiled, raw)
	for range 8 {
		again := evaluate(compiled, raw)
		if again["matches"] != result["matches"] {
			return map[string]any{"unstable": true}
		}
		if again["cost"] != result["cost"] {
			delete(result, "cost")
		}
	}
	return result
}

func answer(q question) (found map[string]any) {
	defer func() {
		if failure := recover(); failure != nil { // cel-go v0.26 has no type for [?dyn(x)]
			found = map[string]any{"problem": fmt.Sprintf("panic: %v", failure)}
		}
	}()
	features := cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}
	compiled := cel.GetCompiler(features).CompileCELExpression(q.Expression, cel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return map[string]any{"problem": compiled.Error.Detail}
	}
	results := make([]map[string]any, 0, len(q.Devices))
	for _, each := range q.Devices {
		results = append(results, evaluateAgain(compiled, each))
	}
	return map[string]any{"results": results}
}

func main() {
	lines.Answer(func(q question) any { return line{q, answer(q)} })
}
