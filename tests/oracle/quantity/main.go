// Command quantity answers lines of JSON with the results of k8s.io/apimachinery's resource package:
// {"text": T} as a case of the kind quantity, with T's String() and the text after RoundUp(Milli);
// {"token": T} the same for UnmarshalJSON; {"left": A, "right": B} with their sum, difference and order.
package main

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"tallygate.dev/oracle/lines"
)

type question struct {
	Text  *string `json:"text,omitempty"`
	Token *string `json:"token,omitempty"`
	Left  *string `json:"left,omitempty"`
	Right *string `json:"right,omitempty"`
}

type line struct {
	question
	Answer map[string]any `json:"answer"`
}

func canonical(q resource.Quantity) string {
	number, suffix := q.CanonicalizeBytes(make([]byte, 0, 18))
	return string(number) + string(suffix)
}

func describe(q resource.Quantity, err error) map[string]any {
	if err != nil {
		return map[string]any{"ok": false, "error": err.Error()}
	}
	rounded := q.DeepCopy()
	rounded.RoundUp(resource.Milli)
	shown := q.DeepCopy()
	exact := q.DeepCopy()
	return map[string]any{
		"ok":        true,
		"string":    shown.String(),
		"rounded":   rounded.String(),
		"canonical": canonical(q),
		"format":    string(q.Format),
		"sign":      q.Sign(),
		"value":     strconv.FormatInt(q.Value(), 10),
		"milli":     strconv.FormatInt(q.MilliValue(), 10),
		"integer":   q.MilliValue()%1000 == 0,
		"dec":       exact.AsDec().String(),
	}
}

func combine(left, right string) map[string]any {
	a, b := resource.MustParse(left), resource.MustParse(right)
	sum, difference := a.DeepCopy(), a.DeepCopy()
	sum.Add(b)
	difference.Sub(b)
	return map[string]any{
		"sum":        describe(sum, nil),
		"difference": describe(difference, nil),
		"order":      a.Cmp(b),
	}
}

func answer(q question) map[string]any {
	switch {
	case q.Text != nil:
		return describe(resource.ParseQuantity(*q.Text))
	case q.Token != nil:
		var quantity resource.Quantity
		err := quantity.UnmarshalJSON([]byte(*q.Token))
		return describe(quantity, err)
	default:
		return combine(*q.Left, *q.Right)
	}
}

func main() {
	lines.Answer(func(q question) any { return line{q, answer(q)} })
}
