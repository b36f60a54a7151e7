// Package conversion takes objects of apps.kruise.io from one version of the API to the other.
//
// It works on the JSON tree: members that a mapping does not know stay where they are, at any depth, and nothing is
// defaulted or validated. Conversion there and back gives the object again; what the other version has no place for
// travels in an annotation, the carrier, which the conversion back consumes. Where two spellings mean the same to every
// reader the shorter one may come back: absent for the zero value of a member that the mapping renames (disablePVCReuse,
// enablePVCReuse, excludePreparingDelete, an empty type, namespace, customVersion or updatedRevision), a number for its
// text in imagePreDownloadParallelism, and absent for an object that held nothing but renamed members.
//
// Conversion is total: an object that is in storage must stay readable, whatever it holds. A member of a wrong type is
// left in place.
package conversion
