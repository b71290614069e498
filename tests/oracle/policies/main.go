// Command policies evaluates ValidatingAdmissionPolicies as an API server of Kubernetes 1.37 does: each line on standard
// input has policies and bindings, the namespace and an admission request. It is written again with the object as the API
// server decodes and completes it, and under `answer` with the messages of each violated policy, the errors, and the cost
// of the evaluation. A question whose object no API server decodes has no answer.
package main

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"

	"tallygate.dev/oracle/lines"
)

type compiledObject struct {
	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     json.RawMessage   `json:"spec"`
}

type request struct {
	Kind        metav1.GroupVersionKind   `json:"kind"`
	Resource    string                    `json:"resource"`
	Subresource string                    `json:"subResource,omitempty"`
	Namespace   string                    `json:"namespace"`
	Name        string                    `json:"name,omitempty"`
	Operation   admission.Operation       `json:"operation"`
	UserInfo    authenticationv1.UserInfo `json:"userInfo"`
	Object      json.RawMessage           `json:"object"`
	OldObject   json.RawMessage           `json:"oldObject,omitempty"`
}

type question struct {
	Policies        json.RawMessage   `json:"policies"`
	Objects         []compiledObject  `json:"objects"`
	NamespaceLabels map[string]string `json:"namespaceLabels"`
	Request         request           `json:"request"`
}

type answered struct {
	Policies        json.RawMessage   `json:"policies"`
	NamespaceLabels map[string]string `json:"namespaceLabels"`
	Request         request           `json:"request"`
	Answer          answer            `json:"answer"`
}

type answer struct {
	Messages map[string]string `json:"messages"`
	Errors   []string          `json:"errors,omitempty"`
	Cost     int64             `json:"cost"`
}

type policy struct {
	spec      *admissionv1.ValidatingAdmissionPolicySpec
	validator validating.Validator
	variables cel.ConditionEvaluator
}

var compiled = map[string]policy{}

func compile(object compiledObject) policy {
	key := object.Metadata.Name + string(object.Spec)
	if found, ok := compiled[key]; ok {
		return found
	}
	spec := &admissionv1.ValidatingAdmissionPolicySpec{}
	if err := json.Unmarshal(object.Spec, spec); err != nil {
		panic(err)
	}
	// As compilePolicy in k8s.io/apiserver pkg/admission/plugin/policy/validating/plugin.go, v1.37, but in the environment
	// for new expressions, since an API server accepts no others.
	mode := environment.NewExpressions
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		panic(err)
	}
	declarations := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	variables := []cel.NamedExpressionAccessor{}
	for _, each := range spec.Variables {
		variables = append(variables, &validating.Variable{Name: each.Name, Expression: each.Expression})
	}
	compiler.CompileAndStoreVariables(variables, declarations, mode)
	conditions, validations, messages := []cel.ExpressionAccessor{}, []cel.ExpressionAccessor{}, []cel.ExpressionAccessor{}
	for index := range spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&spec.MatchConditions[index]))
	}
	for _, each := range spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: each.Expression, Message: each.Message, Reason: each.Reason})
		messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: each.MessageExpression})
	}
	var matcher matchconditions.Matcher
	if len(conditions) > 0 {
		evaluator := compiler.CompileCondition(conditions, declarations, mode)
		matcher = matchconditions.NewMatcher(evaluator, spec.FailurePolicy, "policy", "validate", object.Metadata.Name)
	}
	evaluator := compiler.CompileCondition(validations, declarations, mode)
	message := compiler.CompileCondition(messages, cel.OptionalVariableDeclarations{}, mode)
	result := policy{spec, validating.NewValidator(evaluator, matcher, cel.NewCondition(nil), message, nil, nil), evaluator}
	compiled[key] = result
	return result
}

// complete decodes an object as an API server does, in the version of its kind.
func complete(content json.RawMessage) (runtime.Object, json.RawMessage) {
	if len(content) == 0 || string(content) == "null" {
		return nil, nil
	}
	decoded, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(content, nil, nil)
	if err != nil {
		return nil, nil
	}
	legacyscheme.Scheme.Default(decoded)
	encoded, err := json.Marshal(decoded)
	if err != nil {
		panic(err)
	}
	return decoded, encoded
}

func matches(constraints *admissionv1.MatchResources, attributes admission.Attributes) bool {
	for _, rule := range constraints.ResourceRules {
		matcher := rules.Matcher{Rule: rule.RuleWithOperations, Attr: attributes}
		if matcher.Matches() {
			return true
		}
	}
	return false
}

func evaluate(asked question) any {
	object, content := complete(asked.Request.Object)
	old, oldContent := complete(asked.Request.OldObject)
	if object == nil || (asked.Request.Operation == admission.Update && old == nil) {
		return nil
	}
	asked.Request.Object, asked.Request.OldObject = content, oldContent
	kind := schema.GroupVersionKind(asked.Request.Kind)
	info := &user.DefaultInfo{Name: asked.Request.UserInfo.Username, Groups: asked.Request.UserInfo.Groups}
	attributes := admission.NewAttributesRecord(object, old, kind, asked.Request.Namespace, asked.Request.Name,
		kind.GroupVersion().WithResource(asked.Request.Resource), asked.Request.Subresource, asked.Request.Operation, nil, false, info)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(old), VersionedKind: kind}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: asked.Request.Namespace, Labels: map[string]string{}}}
	for key, value := range asked.NamespaceLabels {
		namespace.Labels[key] = value
	}
	namespace.Labels["kubernetes.io/metadata.name"] = asked.Request.Namespace
	result := answer{Messages: map[string]string{}}
	policies := map[string]policy{}
	for _, each := range asked.Objects {
		if each.Kind == "ValidatingAdmissionPolicy" {
			policies[each.Metadata.Name] = compile(each)
			continue
		}
		binding := admissionv1.ValidatingAdmissionPolicyBindingSpec{}
		if err := json.Unmarshal(each.Spec, &binding); err != nil {
			panic(err)
		}
		bound := policies[binding.PolicyName]
		selector, err := metav1.LabelSelectorAsSelector(binding.MatchResources.NamespaceSelector)
		if err != nil {
			panic(err)
		}
		if !selector.Matches(labels.Set(namespace.Labels)) || !matches(bound.spec.MatchConstraints, attributes) {
			continue
		}
		validate(&result, binding.PolicyName, bound, versioned, namespace)
	}
	return answered{asked.Policies, asked.NamespaceLabels, asked.Request, result}
}

func validate(result *answer, name string, bound policy, versioned *admission.VersionedAttributes, namespace *corev1.Namespace) {
	validated := bound.validator.Validate(context.Background(), versioned.GetResource(), versioned, nil, namespace, celconfig.RuntimeCELCostBudget, nil)
	for _, decision := range validated.Decisions {
		switch decision.Evaluation {
		case validating.EvalDeny:
			result.Messages[name] = decision.Message
		case validating.EvalError:
			result.Errors = append(result.Errors, decision.Message)
		}
	}
	admissionRequest := cel.CreateAdmissionRequest(versioned.Attributes, metav1.GroupVersionResource(versioned.GetResource()), metav1.GroupVersionKind(versioned.VersionedKind))
	_, left, err := bound.variables.ForInput(context.Background(), versioned, admissionRequest, cel.OptionalVariableBindings{}, cel.CreateNamespaceObject(namespace), celconfig.RuntimeCELCostBudget)
	if err != nil {
		result.Errors = append(result.Errors, err.Error())
	} else if cost := celconfig.RuntimeCELCostBudget - left; cost > result.Cost {
		result.Cost = cost
	}
}

func main() { lines.Answer(evaluate) }
