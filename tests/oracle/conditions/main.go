// Command conditions decides on calls of webhooks as an API server does: each line on standard input has webhooks with
// namespace selectors and match conditions, the labels of a namespace, and an admission request in it. It is answered for
// each webhook with whether that is called, the error that rejects the request under `failurePolicy: Fail`, and the
// largest cost of one of its conditions.
package main

import (
	"context"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"tallygate.dev/oracle/lines"
)

type question struct {
	Webhooks []registered      `json:"webhooks"`
	Labels   map[string]string `json:"labels"`
	Request  struct {
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

type registered struct {
	Selector   *metav1.LabelSelector `json:"namespaceSelector"`
	Conditions []string              `json:"conditions"`
}

type answered struct {
	question
	Answer []answer `json:"answer"`
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

func selects(attributes admission.Attributes, asked question, selector *metav1.LabelSelector) (bool, error) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	indexer.Add(&core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: asked.Request.Namespace, Labels: asked.Labels}})
	matcher := namespace.Matcher{NamespaceLister: listers.NewNamespaceLister(indexer)}
	hook := &admissionregistration.ValidatingWebhook{NamespaceSelector: selector}
	matches, err := matcher.MatchNamespaceSelector(webhook.NewValidatingWebhookAccessor("webhook", "oracle", hook), attributes)
	if err != nil {
		return false, err
	}
	return matches, nil
}

func call(versioned *admission.VersionedAttributes, asked question, hook registered) answer {
	matches, err := selects(versioned.Attributes, asked, hook.Selector)
	if err != nil {
		return answer{Error: err.Error()}
	}
	result := answer{IsCalled: matches}
	request := cel.CreateAdmissionRequest(versioned.Attributes, metav1.GroupVersionResource(versioned.GetResource()), metav1.GroupVersionKind(versioned.GetKind()))
	for _, expression := range hook.Conditions {
		evaluator := compile(expression)
		matched := matchconditions.NewMatcher(evaluator, nil, "webhook", "validate", "oracle").Match(context.Background(), versioned, nil, nil)
		result.IsCalled = result.IsCalled && matched.Matches
		if matched.Error != nil {
			result.Error = matched.Error.Error()
		}
		_, left, err := evaluator.ForInput(context.Background(), versioned, request, cel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudgetMatchConditions)
		if err == nil {
			result.Cost = max(result.Cost, celconfig.RuntimeCELCostBudgetMatchConditions-left)
		}
	}
	return result
}

func evaluate(asked question) any {
	request := asked.Request
	kind := schema.GroupVersionKind(request.Kind)
	object, old := wrap(request.Object), wrap(request.OldObject)
	attributes := admission.NewAttributesRecord(object, old, kind, request.Namespace, request.Name,
		kind.GroupVersion().WithResource(request.Resource), request.Subresource, request.Operation, nil, false,
		&user.DefaultInfo{Name: "jane"})
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedObject: version(object), VersionedOldObject: version(old), VersionedKind: kind}
	answers := []answer{}
	for _, hook := range asked.Webhooks {
		answers = append(answers, call(versioned, asked, hook))
	}
	return answered{asked, answers}
}

func main() { lines.Answer(evaluate) }
