// Package admission answers AdmissionReviews: it decodes, converts to the stored version, lets a kind default or validate,
// and says the result in the version of the request. What each kind's defaults and rules are is in its own package.
package admission
