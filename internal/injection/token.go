package injection

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenNumber
	tokenName
	tokenSign
)

// token is a word of an expression. A number with a unit is a quantity.
type token struct {
	kind     tokenKind
	text     string
	quantity bool
	value    *big.Rat
}

// tokenize ends the list with a token that says so.
func tokenize(text string) ([]token, error) {
	word := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)
	var out []token
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		t := token{text: rest[:1]}
		switch {
		case strings.Contains("+-*/(),", rest[:1]):
			t.kind = tokenSign
		case strings.Contains(".0123456789", rest[:1]):
			var err error
			if t, err = number(rest); err != nil {
				return nil, err
			}
		case word.MatchString(rest):
			t.kind, t.text = tokenName, word.FindString(rest)
		default:
			return nil, fmt.Errorf("unexpected %q", []rune(rest)[0])
		}
		out = append(out, t)
		rest = rest[len(t.text):]
	}
	return append(out, token{text: "the end"}), nil
}

// number reads a decimal, or one with a unit or a percent sign right behind it.
func number(text string) (token, error) {
	// The exponent has few digits: arithmetic on huge numbers is nobody's wish.
	parts := regexp.MustCompile(`^([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?([A-Za-z0-9_.%]*)`).FindStringSubmatch(text)
	if parts == nil {
		return token{}, fmt.Errorf("unexpected %q", text[:1])
	}
	t := token{kind: tokenNumber, text: parts[0]}
	value, ok := new(big.Rat).SetString(strings.TrimSuffix(parts[1], ".") + parts[2])
	if !ok {
		return token{}, fmt.Errorf("%q is no number", t.text)
	}
	t.value = value
	switch suffix := parts[3]; {
	case suffix == "":
	case suffix == "%":
		value.Quo(value, big.NewRat(100, 1))
	case parts[2] == "" && unit(suffix) != nil:
		t.quantity = true
		value.Mul(value, unit(suffix))
	default:
		return token{}, fmt.Errorf("%q has no unit that is known: must be m, k, M, G, T, P, Ki, Mi, Gi, Ti or Pi", t.text)
	}
	return t, nil
}

// unit is nil for one that is not known.
func unit(name string) *big.Rat {
	switch name {
	case "m":
		return big.NewRat(1, 1000)
	case "k":
		return big.NewRat(1e3, 1)
	case "M":
		return big.NewRat(1e6, 1)
	case "G":
		return big.NewRat(1e9, 1)
	case "T":
		return big.NewRat(1e12, 1)
	case "P":
		return big.NewRat(1e15, 1)
	case "Ki":
		return big.NewRat(1<<10, 1)
	case "Mi":
		return big.NewRat(1<<20, 1)
	case "Gi":
		return big.NewRat(1<<30, 1)
	case "Ti":
		return big.NewRat(1<<40, 1)
	case "Pi":
		return big.NewRat(1<<50, 1)
	}
	return nil
}
