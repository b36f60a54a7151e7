package subset

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Resolve is a share or bound of a subset as a number of Pods out of total. Percentages are rounded half up.
func Resolve(q intstr.IntOrString, total int32) (int64, error) {
	exact, err := Exact(q, total)
	if err != nil {
		return 0, err
	}
	half := exact.Add(exact, big.NewRat(1, 2))
	return new(big.Int).Quo(half.Num(), half.Denom()).Int64(), nil
}

// Exact is Resolve without rounding.
func Exact(q intstr.IntOrString, total int32) (*big.Rat, error) {
	if q.Type == intstr.Int {
		if q.IntVal < 0 {
			return nil, fmt.Errorf("must not be negative: %d", q.IntVal)
		}
		return big.NewRat(int64(q.IntVal), 1), nil
	}
	number, isPercent := strings.CutSuffix(q.StrVal, "%")
	percent, err := strconv.ParseInt(number, 10, 32)
	if !isPercent || err != nil || percent < 0 || percent > 100 {
		return nil, fmt.Errorf("must be a number, or a whole percentage from 0%% to 100%%: %q", q.StrVal)
	}
	return big.NewRat(int64(total)*percent, 100), nil
}
