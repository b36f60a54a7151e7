package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// Asked is a request as far as anybody looks at it.
type Asked struct {
	UID types.UID
	// kind is what the object is said to be, as text.
	kind []byte
	// Resource is what the object is one of.
	Resource        schema.GroupVersionResource
	SubResource     string
	Operation       admissionv1.Operation
	Namespace, Name string
	IsDryRun        bool
	// Object and OldObject are as they came; nil: there is none. They are parts of the review's body.
	Object, OldObject []byte
}

// Handle answers the review in a body, with an HTTP code. An error means that nothing was decided.
type Handle = func(ctx context.Context, body []byte) (answer []byte, code int, err error)

// Decide answers a request. An error that is ErrMalformed or ErrNotReady says what the code is; any other is our own fault.
type Decide func(ctx context.Context, r *Asked) (*admissionv1.AdmissionResponse, error)

var (
	// ErrMalformed means that the request is not one that can be understood.
	ErrMalformed = errors.New("malformed")
	// ErrNotReady means that nothing was decided, because something that decisions need is not there.
	ErrNotReady = errors.New("not ready")
)

// Reviews answers those of one resource, whose objects are of that kind. Other operations than these, and subresources, are
// allowed.
func Reviews(resource schema.GroupResource, kind string, operations []admissionv1.Operation, decide Decide) Handle {
	return func(ctx context.Context, body []byte) ([]byte, int, error) {
		form, r, err := decodeReview(body)
		if err == nil {
			err = r.belongsTo(resource, kind)
		}
		if err != nil {
			return nil, http.StatusBadRequest, err
		}
		tell(ctx, r, nil)
		var response *admissionv1.AdmissionResponse
		if r.SubResource == "" && slices.Contains(operations, r.Operation) {
			response, err = decide(ctx, r)
		} else {
			response, err = Patched()
		}
		switch {
		case errors.Is(err, ErrMalformed):
			return nil, http.StatusBadRequest, err
		case errors.Is(err, ErrNotReady):
			return nil, http.StatusServiceUnavailable, err
		case err != nil:
			return nil, http.StatusInternalServerError, err
		}
		response.UID = r.UID
		tell(ctx, r, response)
		answer, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: form, Response: response})
		if err != nil {
			return nil, http.StatusInternalServerError, fmt.Errorf("encoding the answer: %w", err)
		}
		return answer, http.StatusOK, nil
	}
}

// belongsTo says what keeps a request from being answered at the path of a resource. Subresources are of kinds of their own.
func (r *Asked) belongsTo(resource schema.GroupResource, kind string) error {
	got := r.Resource.GroupResource()
	switch {
	case got != resource:
		return fmt.Errorf("resource is %s: this path is for %s", got, resource)
	case r.SubResource != "" || rawjson.IsNull(r.kind):
		return nil
	case !rawjson.Says(rawjson.Member(r.kind, "group"), resource.Group) || !rawjson.Says(rawjson.Member(r.kind, "kind"), kind):
		return fmt.Errorf("request.kind is another: this path is for %s", schema.GroupKind{Group: resource.Group, Kind: kind})
	}
	return nil
}

// isForm tells whether a review is of a version that is understood here. The older one has the same members.
func isForm(apiVersion string) bool {
	return apiVersion == admissionv1.SchemeGroupVersion.String() || apiVersion == admissionv1.GroupName+"/v1beta1"
}

// decodeReview returns the form of the review, which is that of the answer, and what is asked.
func decodeReview(body []byte) (form metav1.TypeMeta, r *Asked, err error) {
	if err := rawjson.Valid(body); err != nil {
		return form, nil, fmt.Errorf("decoding the review: %w", err)
	}
	var request []byte
	var d rawjson.Reader
	for name, value := range rawjson.Members(body) {
		switch string(name) {
		case "apiVersion":
			form.APIVersion = d.Text(value, "apiVersion")
		case "kind":
			form.Kind = d.Text(value, "kind")
		case "request":
			request = value
		}
	}
	switch {
	case d.Err != nil:
		return form, nil, d.Err
	case form.Kind != "AdmissionReview":
		return form, nil, fmt.Errorf("kind is %q: must be AdmissionReview", form.Kind)
	case !isForm(form.APIVersion):
		return form, nil, fmt.Errorf("apiVersion is %q: must be %s", form.APIVersion, admissionv1.SchemeGroupVersion)
	case rawjson.IsNull(request):
		return form, nil, errors.New("request is missing")
	}
	r = readRequest(&d, request)
	if d.Err == nil && r.UID == "" {
		d.Err = errors.New("request.uid is missing")
	}
	return form, r, d.Err
}

func readRequest(d *rawjson.Reader, text []byte) *Asked {
	r := &Asked{}
	for name, value := range rawjson.Members(text) {
		switch string(name) {
		case "uid":
			r.UID = types.UID(d.Text(value, "request.uid"))
		case "kind":
			r.kind = value
		case "resource":
			r.Resource = readResource(d, value)
		case "subResource":
			r.SubResource = d.Text(value, "request.subResource")
		case "operation":
			r.Operation = admissionv1.Operation(d.Text(value, "request.operation"))
		case "namespace":
			r.Namespace = d.Text(value, "request.namespace")
		case "name":
			r.Name = d.Text(value, "request.name")
		case "dryRun":
			r.IsDryRun = string(value) == "true"
		case "object":
			r.Object = present(value)
		case "oldObject":
			r.OldObject = present(value)
		}
	}
	return r
}

func readResource(d *rawjson.Reader, text []byte) (r schema.GroupVersionResource) {
	for name, value := range rawjson.Members(text) {
		switch string(name) {
		case "group":
			r.Group = d.Text(value, "request.resource.group")
		case "version":
			r.Version = d.Text(value, "request.resource.version")
		case "resource":
			r.Resource = d.Text(value, "request.resource.resource")
		}
	}
	return r
}

func present(value []byte) []byte {
	if rawjson.IsNull(value) {
		return nil
	}
	return value
}
