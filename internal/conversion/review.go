// Package conversion answers ConversionReviews. What becomes of an object is in apis/apps/conversion; here are the protocol
// and its limits.
package conversion

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	mapping "github.com/flotilla-k8s/flotilla/apis/apps/conversion"
)

const (
	reviewKind = "ConversionReview"
	// maxMessage bounds what is said about a failure.
	maxMessage = 1024
)

// review is a ConversionReview with its objects left as they came.
type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID               types.UID         `json:"uid"`
	DesiredAPIVersion string            `json:"desiredAPIVersion"`
	Objects           []json.RawMessage `json:"objects"`
}

type response struct {
	UID              types.UID         `json:"uid"`
	ConvertedObjects []json.RawMessage `json:"convertedObjects"`
	Result           result            `json:"result"`
}

type result struct {
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// Observer is told of every object: its kind, its versions, and whether it was converted.
type Observer func(kind, from, to, result string)

// Handle answers one review. The code is 200 also for a review that fails: the protocol has its own way to say so. Other
// codes mean that it was no review.
func Handle(body []byte, observe Observer) ([]byte, int, error) {
	var in review
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&in); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("decoding the review: %w", err)
	}
	switch {
	case in.Kind != reviewKind:
		return nil, http.StatusBadRequest, fmt.Errorf("kind is %q: must be %s", in.Kind, reviewKind)
	case in.APIVersion != apiextensionsv1.SchemeGroupVersion.String() && in.APIVersion != apiextensionsv1.GroupName+"/v1beta1":
		return nil, http.StatusBadRequest, fmt.Errorf("apiVersion is %q: must be %s", in.APIVersion, apiextensionsv1.SchemeGroupVersion)
	case in.Request == nil:
		return nil, http.StatusBadRequest, errors.New("request is missing")
	case in.Request.UID == "":
		return nil, http.StatusBadRequest, errors.New("request.uid is missing")
	}
	out := review{APIVersion: in.APIVersion, Kind: in.Kind, Response: &response{
		UID: in.Request.UID, ConvertedObjects: []json.RawMessage{}, Result: result{Status: "Success"},
	}}
	for _, object := range in.Request.Objects {
		converted, err := convert(object, in.Request.DesiredAPIVersion, observe)
		if err != nil {
			// The protocol has no result for each object.
			out.Response.ConvertedObjects = []json.RawMessage{}
			out.Response.Result = result{Status: "Failure", Message: limit(err.Error())}
			break
		}
		out.Response.ConvertedObjects = append(out.Response.ConvertedObjects, converted)
	}
	raw, err := encode(out)
	if err != nil {
		return nil, http.StatusInternalServerError, err
	}
	return raw, http.StatusOK, nil
}

// encode leaves text as it is: objects must not change by the way.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	return b.Bytes(), nil
}

// named is what an object calls itself.
type named struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

func convert(object json.RawMessage, desired string, observe Observer) (json.RawMessage, error) {
	var n named
	// Whatever is wrong below the names is no reason to fail.
	_ = json.Unmarshal(object, &n)
	fail := func(err error) (json.RawMessage, error) {
		observe(n.Kind, n.APIVersion, desired, "failed")
		return nil, fmt.Errorf("%s %s/%s from %q to %q: %w", n.Kind, n.Metadata.Namespace, n.Metadata.Name, n.APIVersion, desired, err)
	}
	tree, err := mapping.Decode(object)
	if err != nil {
		return fail(err)
	}
	converted, err := mapping.Convert(tree, desired)
	if err != nil {
		return fail(err)
	}
	if n.APIVersion == desired {
		observe(n.Kind, n.APIVersion, desired, "unchanged")
		return object, nil
	}
	raw, err := mapping.Encode(converted)
	if err != nil {
		return fail(err)
	}
	observe(n.Kind, n.APIVersion, desired, "converted")
	return raw, nil
}

func limit(message string) string {
	if len(message) > maxMessage {
		return message[:maxMessage]
	}
	return message
}
