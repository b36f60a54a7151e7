package rollout

import (
	"fmt"
	"math/big"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rounding says what becomes of a fraction of a Pod.
type Rounding int

// Ways of rounding.
const (
	Down Rounding = iota
	Up
)

// Scaled is the value as a number of Pods out of total. A percentage may have a fraction ("33.3%"). nil gives absent.
func Scaled(value *intstr.IntOrString, total, absent int, rounding Rounding) (int, error) {
	if value == nil {
		return absent, nil
	}
	if value.Type == intstr.Int {
		if value.IntVal < 0 {
			return 0, fmt.Errorf("must not be negative: %d", value.IntVal)
		}
		return value.IntValue(), nil
	}
	percent, err := parsePercent(value.StrVal)
	if err != nil {
		return 0, err
	}
	percent.Mul(percent, big.NewRat(int64(total), 100))
	return round(percent, rounding), nil
}

// maxPercentLength keeps hostile text from becoming arithmetic on huge numbers.
const maxPercentLength = 20

func parsePercent(text string) (*big.Rat, error) {
	number, found := strings.CutSuffix(text, "%")
	whole, fraction, dotted := strings.Cut(number, ".")
	if !found || len(text) > maxPercentLength || !isDigits(whole) || (dotted && !isDigits(fraction)) {
		return nil, fmt.Errorf("must be a number or a percentage such as 20%%: %q", text)
	}
	percent, ok := new(big.Rat).SetString(number)
	if !ok {
		return nil, fmt.Errorf("must be a number or a percentage such as 20%%: %q", text)
	}
	return percent, nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func round(r *big.Rat, rounding Rounding) int {
	quotient, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rounding == Up && rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	const most = 1<<31 - 1
	if !quotient.IsInt64() || quotient.Int64() > most {
		return most
	}
	return int(quotient.Int64())
}

// Partition is the number of Pods out of total to keep at the old revision. A percentage is rounded up, but unless it
// is 100% at least one Pod of several is updated.
func Partition(value *intstr.IntOrString, total int) (int, error) {
	n, err := Scaled(value, total, 0, Up)
	if err != nil {
		return 0, err
	}
	if value != nil && value.Type == intstr.String && value.StrVal != "100%" && total > 1 && n == total {
		n--
	}
	return min(n, total), nil
}
