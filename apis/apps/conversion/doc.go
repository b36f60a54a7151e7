// Package conversion converts the kinds of apps.kruise.io between v1alpha1 and v1beta1.
//
// It works on the JSON tree: the mappings move, rename, add and remove the members they know and leave every other
// member where it is. It looks at nothing but its input. Nothing is defaulted, validated or normalised.
//
// Conversion is lossless both ways. Each kind has a pure mapping that says what its document says (<kind>.go). What the
// mapping cannot express travels in an annotation, the carrier, on the object of the version that lacks it. A carrier has
// two parts. The first is what the kind's document describes. The second, member "restore", is written by this package
// for whatever the mapping alone would not bring back, and is empty for ordinary objects:
//
//	            mapping                                       mapping
//	v1beta1 x ───────────► v1alpha1 y        v1alpha1 y ───────────► v1beta1 x
//	        x' ◄───────────                          y' ◄───────────
//	restore on y: where x' differs from x    restore on x: where y' differs from y
//
// So every conversion tries the way back before it returns, and there-and-back is the identity by construction. An entry
// of "restore" takes effect only where the mapping still yields the value that was seen when the entry was written: an
// edit through the other version always wins over a carrier.
//
// # What does not come back
//
// The carriers themselves on the side where they are consumed: parts that are stale or that mean nothing are dropped
// (cleared by `{}`, for example), the rest is written again in canonical form. A carrier that is not a JSON object is no
// carrier but an ordinary annotation, which a carrier that is needed replaces. A carrier that is too large (see
// [TooLarge]). The exceptions that the mapping of CloneSet names: a mirror label or annotation that contradicts its field,
// and a pre-download field in a v1alpha1 spec, which comes back as its annotation.
//
// An object whose metadata could not hold a carrier (metadata, labels or annotations that are not objects of strings,
// which no API server sends) passes through with only its apiVersion changed.
package conversion
