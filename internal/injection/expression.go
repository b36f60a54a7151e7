package injection

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Bounds of an expression, so that hostile text costs little.
const (
	maxExpression = 1000
	maxDepth      = 50
)

// Expression computes a resource of a sidecar from that of the containers it serves. All arithmetic is exact.
type Expression struct {
	resource corev1.ResourceName
	term     term
}

// term is a part of an expression. A number is only that; a quantity counts cores or bytes.
type term struct {
	quantity, constant bool
	value              func(variable *big.Rat) *big.Rat
}

// ParseExpression reads an expression for cpu or memory. What could fail or make no sense for every Pod is refused: another
// resource's variable, a product of two quantities, a division by a quantity or by zero, a constant below zero.
func ParseExpression(text string, resource corev1.ResourceName) (*Expression, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("must be at most %d characters long", maxExpression)
	}
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, resource: resource}
	t, err := p.sum()
	if err != nil {
		return nil, err
	}
	if rest := p.peek(); rest.kind != tokenEnd {
		return nil, fmt.Errorf("unexpected %q", rest.text)
	}
	if t.constant && t.value(nil).Sign() < 0 {
		return nil, errors.New("must not be negative")
	}
	return &Expression{resource, t}, nil
}

// IsConstant tells whether the value is the same for all Pods.
func (e *Expression) IsConstant() bool { return e.term.constant }

// Evaluate is the value for Pods whose containers have that much, in thousandths: of a core rounded down, though not to
// nothing, of bytes rounded up to whole bytes.
func (e *Expression) Evaluate(variable *big.Rat) (*big.Int, error) {
	v := new(big.Rat).Set(e.term.value(variable))
	if v.Sign() < 0 {
		return nil, fmt.Errorf("the result is negative: %s", v.FloatString(3))
	}
	thousand := big.NewInt(1000)
	if e.resource == corev1.ResourceMemory {
		quotient, rest := new(big.Int).QuoRem(v.Num(), v.Denom(), new(big.Int))
		if rest.Sign() > 0 {
			quotient.Add(quotient, big.NewInt(1))
		}
		return quotient.Mul(quotient, thousand), nil
	}
	milli := new(big.Int).Mul(v.Num(), thousand)
	milli.Quo(milli, v.Denom())
	if milli.Sign() == 0 && v.Sign() > 0 {
		milli.SetInt64(1)
	}
	return milli, nil
}

// parser reads by recursive descent: a sum of products of factors.
type parser struct {
	tokens   []token
	resource corev1.ResourceName
	at       int
	depth    int
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokenEnd {
		p.at++
	}
	return t
}

func (p *parser) isSign(signs string) bool {
	t := p.peek()
	return t.kind == tokenSign && strings.Contains(signs, t.text)
}

func (p *parser) expect(sign string) error {
	if t := p.next(); t.kind != tokenSign || t.text != sign {
		return fmt.Errorf("expected %q, found %q", sign, t.text)
	}
	return nil
}

func (p *parser) sum() (term, error) {
	if p.depth++; p.depth > maxDepth {
		return term{}, fmt.Errorf("must not be nested deeper than %d levels", maxDepth)
	}
	defer func() { p.depth-- }()
	left, err := p.product()
	for err == nil && p.isSign("+-") {
		operation := (*big.Rat).Add
		if p.next().text == "-" {
			operation = (*big.Rat).Sub
		}
		var right term
		if right, err = p.product(); err == nil {
			left = combine(left, right, operation)
		}
	}
	return left, err
}

func (p *parser) product() (term, error) {
	left, err := p.factor()
	for err == nil && p.isSign("*/") {
		sign := p.next().text
		var right term
		if right, err = p.factor(); err != nil {
			break
		}
		switch {
		case sign == "*" && left.quantity && right.quantity:
			return term{}, errors.New("two quantities cannot be multiplied")
		case sign == "*":
			left = combine(left, right, (*big.Rat).Mul)
		case right.quantity:
			return term{}, errors.New("nothing can be divided by a quantity")
		// Only quantities vary, so the divisor is known.
		case right.value(nil).Sign() == 0:
			return term{}, errors.New("nothing can be divided by zero")
		default:
			left = combine(left, right, (*big.Rat).Quo)
		}
	}
	return left, err
}

func (p *parser) factor() (term, error) {
	t := p.next()
	switch t.kind {
	case tokenNumber:
		value := t.value
		return term{quantity: t.quantity, constant: true, value: func(*big.Rat) *big.Rat { return value }}, nil
	case tokenName:
		return p.named(strings.ToLower(t.text))
	case tokenSign:
		switch t.text {
		case "(":
			inner, err := p.sum()
			if err != nil {
				return term{}, err
			}
			return inner, p.expect(")")
		case "-":
			return p.negated()
		}
	}
	return term{}, fmt.Errorf("expected a value, found %q", t.text)
}

func (p *parser) negated() (term, error) {
	if p.depth++; p.depth > maxDepth {
		return term{}, fmt.Errorf("must not be nested deeper than %d levels", maxDepth)
	}
	defer func() { p.depth-- }()
	inner, err := p.factor()
	if err != nil {
		return term{}, err
	}
	value := inner.value
	inner.value = func(v *big.Rat) *big.Rat { return new(big.Rat).Neg(value(v)) }
	return inner, nil
}

func (p *parser) named(name string) (term, error) {
	switch name {
	case string(p.resource):
		return term{quantity: true, value: func(v *big.Rat) *big.Rat { return v }}, nil
	case "max", "min":
	default:
		return term{}, fmt.Errorf("%q is not known here: must be %s, max or min", name, p.resource)
	}
	if err := p.expect("("); err != nil {
		return term{}, err
	}
	a, err := p.sum()
	if err != nil {
		return term{}, err
	}
	if err := p.expect(","); err != nil {
		return term{}, err
	}
	b, err := p.sum()
	if err != nil {
		return term{}, err
	}
	wanted := 1
	if name == "min" {
		wanted = -1
	}
	return combine(a, b, func(out, x, y *big.Rat) *big.Rat {
		if x.Cmp(y) == wanted {
			return out.Set(x)
		}
		return out.Set(y)
	}), p.expect(")")
}

func combine(a, b term, operation func(out, x, y *big.Rat) *big.Rat) term {
	return term{a.quantity || b.quantity, a.constant && b.constant, func(v *big.Rat) *big.Rat {
		return operation(new(big.Rat), a.value(v), b.value(v))
	}}
}
