package injection

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestExpressionsAndTheirValues(t *testing.T) {
	for _, c := range []struct{ text, variable, want string }{
		{"max(cpu*50%, 50m)", "200m", "100m"},
		{"cpu*50%", "600m", "300m"},
		{"cpu/3", "200m", "66m"},
		{"0.5", "0", "500m"},
		{"2", "0", "2"},
		{"cpu+1", "200m", "1200m"},
		{"0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)", "10", "3800m"},
		{"min(max(max(max(0.5,0.5*cpu),cpu-1.0),cpu-1.0),3.0)", "2500m", "1500m"},
		{"cpu/1000", "1m", "1m"}, // Never nothing where there is something.
		{"CPU * 5.", "1", "5"},
		{".5e1*cpu", "1", "5"},
		{"1E-1*cpu", "1", "100m"},
		{"-cpu + (2)", "1", "1"},
		{"max(memory*20% + 100Mi, 200Mi)", "1000Mi", "300Mi"},
		{"1.5Gi", "0", "1536Mi"},
		{"memory*50%", "101", "51"},
		{"memory-100Mi", "200Mi", "100Mi"},
		{"8Pi+memory", "8Pi", "16Pi"},
	} {
		t.Run(c.text, func(t *testing.T) {
			name := corev1.ResourceCPU
			if strings.Contains(c.text, "memory") || strings.Contains(c.text, "Gi") {
				name = corev1.ResourceMemory
			}
			e, err := ParseExpression(c.text, name)
			require.NoError(t, err)
			variable := resource.MustParse(c.variable)
			got, err := e.Evaluate(rat(t, &variable))
			require.NoError(t, err)
			want := resource.MustParse(c.want)
			exact := rat(t, &want)
			require.Equal(t, exact.Mul(exact, big.NewRat(1000, 1)).RatString(), got.String())
			require.Equal(t, !strings.Contains(strings.ToLower(c.text), string(name)), e.IsConstant())
		})
	}
	e, err := ParseExpression("cpu-1", corev1.ResourceCPU)
	require.NoError(t, err)
	_, err = e.Evaluate(big.NewRat(1, 5))
	require.ErrorContains(t, err, "negative")
}

func rat(t *testing.T, q *resource.Quantity) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(q.AsDec().String())
	require.True(t, ok)
	return r
}

func TestExpressionsThatAreRefused(t *testing.T) {
	for _, text := range []string{
		"", " ", "max(cpu*50%)", "max(cpu*50%, 50m", "invalidvar * 50%", "memory", "50 %", "2**3", "max(1,2,3)", "%5", "5%%", "+cpu", "cpu cpu",
		"100MB", "1K", "50x", "1E", "1Ei", "1n", "5e3m", "cpu*cpu", "1/cpu", "cpu/0", "cpu/(1-1)", "-1", "1-2m*1000*2", "max", "max()", ")", "cpu$", "1e999", "ü",
		"cpu*(cpu+1)", strings.Repeat("(", 60) + "cpu" + strings.Repeat(")", 60), strings.Repeat("-", 100) + "cpu", "cpu" + strings.Repeat("+1", 600),
	} {
		_, err := ParseExpression(text, corev1.ResourceCPU)
		require.Error(t, err, text)
	}
	_, err := ParseExpression("cpu", corev1.ResourceMemory)
	require.ErrorContains(t, err, "memory")
}

func FuzzExpression(f *testing.F) {
	f.Add("0.5*cpu - 0.3*max(0, cpu-4) + 1e3 / 50%")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExpression(text, corev1.ResourceCPU)
		if err != nil {
			return
		}
		if v, err := e.Evaluate(big.NewRat(1, 2)); err == nil && v.Sign() < 0 {
			t.Fatalf("%q gives %s", text, v)
		}
	})
}
