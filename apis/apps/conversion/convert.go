package conversion

import (
	"errors"
	"fmt"
)

// Names of the group and its versions.
const (
	Group    = "apps.kruise.io"
	V1alpha1 = "v1alpha1"
	V1beta1  = "v1beta1"
)

// Convert returns obj in the desired API version ("apps.kruise.io/v1beta1", for example). It neither changes its input
// nor shares anything with it. It is total: it fails only for an object without string apiVersion and kind, for an unknown
// kind and for an unknown version, whatever else is in the object. An object that is in the desired version already comes
// back as it is.
func Convert(obj Tree, desiredAPIVersion string) (Tree, error) {
	m, have, err := mappingFor(obj, desiredAPIVersion)
	if err != nil {
		return nil, err
	}
	out := deepCopyTree(obj)
	if have == desiredAPIVersion {
		return out, nil
	}
	return m.convert(out, desiredAPIVersion), nil
}

// IsKind says whether objects of the kind can be converted.
func IsKind(kind string) bool {
	_, is := mappingOf(kind)
	return is
}

// IsVersion says whether objects can be converted from and to the API version.
func IsVersion(apiVersion string) bool {
	return apiVersion == Group+"/"+V1alpha1 || apiVersion == Group+"/"+V1beta1
}

// mappingFor finds the mapping of an object and its version, and refuses what there is no conversion for.
func mappingFor(obj Tree, desired string) (m mapping, have string, err error) {
	have, ok := obj["apiVersion"].(string)
	if !ok {
		return mapping{}, "", errors.New("object has no string apiVersion")
	}
	kind, ok := obj["kind"].(string)
	if !ok {
		return mapping{}, "", errors.New("object has no string kind")
	}
	m, ok = mappingOf(kind)
	if !ok {
		return mapping{}, "", fmt.Errorf("kind %q is not known", kind)
	}
	for _, v := range []string{have, desired} {
		if !IsVersion(v) {
			return mapping{}, "", fmt.Errorf("API version %q of kind %s is not known", v, kind)
		}
	}
	return m, have, nil
}

// convert converts an owned object to the version that it is not in.
func (m mapping) convert(out Tree, desired string) Tree {
	switch {
	case m.up == nil || !hasHome(out):
	case desired == Group+"/"+V1beta1:
		out = m.convertUp(out)
	default:
		out = m.convertDown(out)
	}
	out["apiVersion"] = desired
	return out
}

// mapping is what a kind's document says. Its functions change an object that they own (see fork). They get the carrier
// that was on the object, nil without one, and return what the result has to carry.
type mapping struct {
	kind string
	// up turns v1alpha1 into v1beta1. nil: the versions are the same.
	up func(obj, carried Tree) Tree
	// down turns v1beta1 into v1alpha1. It returns what up needs beside the result; it may return more than that, it
	// is written only if up does not restore the object without it.
	down func(obj, carried Tree) Tree
	// maskAlpha and maskBeta remove, from an owned object that is only compared, what need not come back. nil: nothing.
	maskAlpha, maskBeta func(obj Tree)
	// spec and status are what all these functions look at there, in either version; they may look at labels and
	// annotations, too, and at nothing else.
	spec, status reach
	// carries is what down returns, beside "restore".
	carries reach
}

// IsSame tells whether objects of the kind are the same in both versions: the API server converts such by itself.
func IsSame(kind string) bool {
	m, known := mappingOf(kind)
	return known && m.up == nil
}

func mappingOf(kind string) (mapping, bool) {
	switch kind {
	case "AdvancedCronJob":
		return mapping{kind: kind, up: advancedCronJobUp, down: advancedCronJobDown, spec: advancedCronJobSpec(), carries: reach{{"spec", advancedCronJobSpec()}}}, true
	case "BroadcastJob":
		return mapping{kind: kind}, true
	case "CloneSet":
		return mapping{
			kind: kind, up: cloneSetUp, down: cloneSetDown, maskAlpha: maskCloneSetAlpha, maskBeta: maskCloneSetBeta, spec: cloneSetSpec(),
			carries: reach{{"updateStrategy", whole("for", "members", "podUpdatePolicy", "rollingUpdate", "type")}},
		}, true
	case "SidecarSet":
		return mapping{kind: kind, up: sidecarSetUp, down: sidecarSetDown, spec: sidecarSetSpec(), carries: whole("customVersion", "label")}, true
	case "StatefulSet":
		return mapping{
			kind: kind, up: statefulSetUp, down: statefulSetDown, spec: whole(lackingSpec()...), status: whole(lackingStatus()...),
			carries: reach{{"spec", whole(lackingSpec()...)}, {"status", whole(lackingStatus()...)}},
		}, true
	case "UnitedDeployment":
		return mapping{
			kind: kind, up: unitedDeploymentUp, down: unitedDeploymentDown, spec: unitedDeploymentSpec(), status: unitedDeploymentStatus(),
		}, true
	}
	return mapping{}, false
}

// convertUp maps, tries the way back, and lets the result carry what that would lose. What the v1alpha1 object carried
// for the v1beta1 side is applied last: it is invisible from v1alpha1, so it has no part in the way back.
func (m mapping) convertUp(alpha Tree) Tree {
	key := CarrierKey(m.kind, V1alpha1)
	seen := fork(alpha)
	carried := takeCarrier(seen, CarrierKey(m.kind, V1beta1))
	beta := fork(seen)
	carry := m.up(beta, carried)
	try := func(carry Tree) (Tree, Tree) {
		b := fork(beta)
		putCarrier(b, key, carry)
		back, _ := m.plainDown(b)
		return b, differences(masked(back, m.maskAlpha), masked(seen, m.maskAlpha))
	}
	out, lost := try(carry)
	if len(lost) > 0 {
		// A second time with a carrier in place, because it may create the annotations that it is in.
		_, lost = try(with(carry, restoreMember, Tree{}))
		out, _ = try(with(carry, restoreMember, lost))
	}
	m.restore(out, carried, m.maskBeta)
	return out
}

// convertDown maps, tries the way back, and lets the result carry what that would lose.
func (m mapping) convertDown(beta Tree) Tree {
	key := CarrierKey(m.kind, V1alpha1)
	wanted, compared := beta, func(b Tree) Tree { return b }
	if carrierOf(beta, key) != nil {
		// Its own carrier is written again by the way back, without what is stale in it.
		compared = func(b Tree) Tree {
			b = fork(b)
			takeCarrier(b, key)
			return b
		}
		wanted = compared(beta)
	}
	alpha, carry := m.plainDown(beta)
	try := func(carry Tree) (Tree, Tree) {
		a := fork(alpha)
		putCarrier(a, CarrierKey(m.kind, V1beta1), carry)
		return a, differences(masked(compared(m.convertUp(a)), m.maskBeta), masked(wanted, m.maskBeta))
	}
	out, lost := try(nil)
	if len(lost) == 0 {
		return out
	}
	if len(carry) > 0 {
		if out, lost = try(carry); len(lost) == 0 {
			return out
		}
	}
	_, lost = try(with(carry, restoreMember, Tree{}))
	out = fork(alpha)
	putCarrier(out, CarrierKey(m.kind, V1beta1), with(carry, restoreMember, lost))
	return out
}

// plainDown is the way down without a look back. It returns the object without its carrier.
func (m mapping) plainDown(beta Tree) (alpha, carry Tree) {
	alpha = fork(beta)
	carried := takeCarrier(alpha, CarrierKey(m.kind, V1alpha1))
	carry = m.down(alpha, carried)
	// Unmasked: on this side an annotation may be the only place that says a value.
	m.restore(alpha, carried, nil)
	return alpha, carry
}

func masked(obj Tree, mask func(Tree)) Tree {
	if mask == nil {
		return obj
	}
	obj = fork(obj)
	mask(obj)
	return obj
}

func with(t Tree, key string, v any) Tree {
	t = fork(t)
	t[key] = v
	return t
}
