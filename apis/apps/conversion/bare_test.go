package conversion

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unaffordable converts where there is no memory.
func unaffordable(t *testing.T, text, version string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, ConvertTextIf(func(int) error { return fmt.Errorf("no: %w", ErrTooMuch) }, &out, []byte(text), Group+"/"+version))
	return out.String()
}

func TestScenario027_WhatTakesTooMuchMemoryIsReadableAndComesBack(t *testing.T) {
	const carrier = `"apps.kruise.io/cloneset-v1beta1-fields":"too-large"`
	for name, c := range map[string]struct{ beta, alpha string }{
		"annotations":     {`"metadata":{"name":"a","annotations":{"a\"\u00e9":"b"}},"spec":{"x":{}}`, `"metadata":{"name":"a","annotations":{"a\"é":"b",` + carrier + `}},"spec":{"x":{}}`},
		"no annotations":  {`"metadata":{"name":"a"},"spec":5`, `"metadata":{"name":"a","annotations":{` + carrier + `}},"spec":5`},
		"empty metadata":  {`"metadata":{}`, `"metadata":{"annotations":{` + carrier + `}}`},
		"no metadata":     {`"spec":[null,{}]`, `"spec":[null,{}]`},
		"something else":  {`"metadata":{"annotations":{"a":5}}`, `"metadata":{"annotations":{"a":5}}`},
		"a list":          {`"metadata":{"annotations":[1]}`, `"metadata":{"annotations":[1]}`},
		"no room":         {`"metadata":{"annotations":{"a":"` + strings.Repeat("x", maxAnnotationBytes-20) + `"}}`, `"metadata":{"annotations":{"a":"` + strings.Repeat("x", maxAnnotationBytes-20) + `"}}`},
		"another carrier": {`"metadata":{"annotations":{"apps.kruise.io/cloneset-v1alpha1-fields":"{}"}}`, `"metadata":{"annotations":{"apps.kruise.io/cloneset-v1alpha1-fields":"{}",` + carrier + `}}`},
	} {
		t.Run(name, func(t *testing.T) {
			text := func(version, rest string) string {
				return `{"apiVersion":"apps.kruise.io/` + version + `","kind":"CloneSet",` + rest + `}`
			}
			alpha := unaffordable(t, text(V1beta1, c.beta), V1alpha1)
			require.Equal(t, text(V1alpha1, c.alpha), alpha)
			beta := unaffordable(t, alpha, V1beta1)
			back := strings.Replace(text(V1beta1, c.beta), `\u00e9`, "é", 1)
			if strings.HasPrefix(name, "no annot") || strings.HasPrefix(name, "empty") {
				// Annotations that are empty are as good as none.
				beta = strings.NewReplacer(`,"annotations":{}`, "", `"annotations":{}`, "").Replace(beta)
			}
			require.Equal(t, back, beta)
		})
	}
	alpha, err := Decode([]byte(unaffordable(t, `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"a"}}`, V1alpha1)))
	require.NoError(t, err)
	require.Contains(t, CarrierProblem(alpha, alpha), "edit this object through v1beta1")
}

// Objects are as deep as the API server can read.
func TestScenario027_ADeepObjectIsReadable(t *testing.T) {
	const levels = 9900
	deep := strings.Repeat(`{"a":[`, levels/2) + strings.Repeat("]}", levels/2)
	for _, rest := range []string{
		`"kind":"StatefulSet","spec":{"lifecycle":{"preDelete":` + deep + `}}`,
		`"kind":"StatefulSet","spec":{"template":` + deep + `}`,
		`"kind":"AdvancedCronJob","spec":{"template":{"imageListPullJobTemplate":` + deep + `}}`,
		`"kind":"CloneSet","spec":{"updateStrategy":{"rollingUpdate":{"x":` + deep + `}}}`,
	} {
		beta := `{"apiVersion":"apps.kruise.io/v1beta1",` + rest + `}`
		var alpha, back bytes.Buffer
		require.NoError(t, ConvertText(&alpha, []byte(beta), Group+"/"+V1alpha1))
		require.NoError(t, ConvertText(&back, alpha.Bytes(), Group+"/"+V1beta1))
		require.JSONEq(t, beta, back.String())
	}
}

func TestACarrierThatIsTooDeepIsRefused(t *testing.T) {
	carrying := func(levels int) Tree {
		x := object(t, "AdvancedCronJob", V1alpha1, `{"metadata":{"name":"a"},"spec":{}}`)
		setAnnotation(x, CarrierKey("AdvancedCronJob", V1beta1), `{"spec":{"template":{"imageListPullJobTemplate":`+strings.Repeat("[", levels-3)+strings.Repeat("]", levels-3)+`}}}`)
		return x
	}
	require.Empty(t, CarrierProblem(nil, carrying(maxCarriedDepth)))
	require.Contains(t, CarrierProblem(nil, carrying(maxCarriedDepth+1)), "nested deeper than 900 levels")
}

// The API server refuses a conversion after which the annotations are too large: nobody can read the object then, nor a list of it.
func TestNoConversionMakesAnnotationsTooLarge(t *testing.T) {
	for name, c := range map[string]struct{ kind, version, rest string }{
		"mirrors":   {"CloneSet", V1beta1, `{"metadata":{"name":"x"},"spec":{"updateStrategy":{"rollingUpdate":{"inPlaceUpdateStrategy":{"imagePreDownloadParallelism":5,"imagePreDownloadTimeoutSeconds":60}}}}}`},
		"a carrier": {"CloneSet", V1beta1, `{"metadata":{"name":"x"},"spec":{"updateStrategy":{"rollingUpdate":{"progressDeadlineSeconds":{"x":[1]},"podUpdatePolicy":"InPlaceOnly"},"type":"OnDelete"}}}`},
		"a shape":   {"UnitedDeployment", V1alpha1, `{"metadata":{"name":"x"},"spec":{"template":{"cloneSetTemplate":{"spec":{"updateStrategy":{"type":"InPlaceIfPossible"}}}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			for left := range 400 {
				x := object(t, c.kind, c.version, c.rest)
				setAnnotation(x, "a", strings.Repeat("x", maxAnnotations-1-left))
				total := 0
				y := convert(t, x, other(c.version))
				for k, v := range child(y, "metadata", "annotations") {
					total += len(k) + len(v.(string))
				}
				require.LessOrEqual(t, total, maxAnnotations, left)
				if c.version == V1beta1 {
					// Whoever writes it through v1alpha1 erases nothing, or is told.
					back := convert(t, y, V1beta1)
					isSame := encode(t, child(back, "spec")) == encode(t, child(x, "spec"))
					require.True(t, isSame || CarrierProblem(y, y) != "", left)
					require.True(t, isSame || RoomProblem(nil, []byte(encode(t, x))) != "", left)
				}
			}
		})
	}
}
