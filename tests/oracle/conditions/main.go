// Command conditions evaluates match conditions of webhooks as an API server does: each line on standard input has
// expressions and an admission request, and is answered with whether the webhook is called, the error that rejects the
// request under `failurePolicy: Fail`, and the cost of the evaluation.
package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"tallygate.dev/oracle/lines"
)

type question struct {
	Condition string `json:"condition"`
	Request   struct {
		Kind        metav1.GroupVersionKind `json:"kind"`
		Resource    string                  `json:"resource"`
		Subresource string                  `json:"subResource,omitempty"`
		Namespace   string                  `json:"namespace"`
		Name        string                  `json:"name,omitempty"`
		Operation   admission.Operation     `json:"operation"`
		Object      map[string]any          `json:"object"`
		OldObject   map[string]any          `json:"oldObject,omitempty"`
	} `json:"request"`
}

type answered struct {
	question
	Answer answer `json:"answer"`
}

type answer struct {
	IsCalled bool   `json:"isCalled"`
	Error    string `json:"error,omitempty"`
	Cost     int64  `json:"cost"`
}

var compiler = cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
var compiled = map[string]cel.ConditionEvaluator{}

func compile(expression string) cel.ConditionEvaluator {
	if evaluator, ok := compiled[expression]; ok {
		return evaluator
	}
	accessors := []cel.ExpressionAccessor{&matchconditions.MatchCondition{Name: "condition", Expression: expression}}
	// The gate stores its conditions, so they are compiled by the environment for new expressions as well.
	evaluator := compiler.CompileCondition(accessors, cel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions)
	compiled[expression] = evaluator
	return evaluator
}

func wrap(content map[string]any) runtime.Object {
	if content == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: content}
}

func evaluate(asked question) any {
	request := asked.Request
	kind := schema.GroupVersionKind(request.Kind)
	object, old := wrap(request.Object), wrap(request.OldObject)
	attributes := admission.NewAttributesRecord(object, old, kind, request.Namespace, request.Name,
		kind.GroupVersion().WithResource(request.Resource), request.Subresource, request.Operation, nil, false,
		&user.DefaultInfo{Name: "jane"})
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedObject: object, VersionedOldObject: old, VersionedKind: kind}
	evaluator := compile(asked.Condition)
	matched := matchconditions.NewMatcher(evaluator, nil, "webhook", "validate", "oracle").Match(context.Background(), versioned, nil, nil)
	result := answer{IsCalled: matched.Matches}
	if matched.Error != nil {
		result.Error = matched.Error.Error()
	}
	admissionRequest := cel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(attributes.GetResource()), metav1.GroupVersionKind(attributes.GetKind()))
	_, left, err := evaluator.ForInput(context.Background(), versioned, admissionRequest, cel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudgetMatchConditions)
	if err == nil {
		result.Cost = celconfig.RuntimeCELCostBudgetMatchConditions - left
	}
	return answered{asked, result}
}

func main() { lines.Answer(evaluate) }
