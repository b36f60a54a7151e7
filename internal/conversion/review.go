// Package conversion answers ConversionReviews. What becomes of an object is in apis/apps/conversion; here are the protocol
// and its limits.
package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	mapping "github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

const (
	reviewKind = "ConversionReview"
	unknown    = "unknown"
	// maxMessage bounds what is said about a failure.
	maxMessage = 1024
)

// review is a ConversionReview with its objects left as they came: part of the body, and as many as it takes.
type review struct {
	apiVersion, kind, uid, desired string
	// asks: there is a request.
	asks bool
	// objects is a list, if it is anything.
	objects []byte
}

// read takes a review apart. Members that it does not know are passed over.
func read(body []byte) (review, error) {
	var r review
	if err := rawjson.Valid(body); err != nil {
		return r, err
	}
	var d rawjson.Reader
	for name, value := range rawjson.Members(body) {
		switch string(name) {
		case "apiVersion":
			r.apiVersion = d.Text(value, "apiVersion")
		case "kind":
			r.kind = d.Text(value, "kind")
		case "request":
			r.asks = !rawjson.IsNull(value)
			r.readRequest(&d, value)
		}
	}
	return r, d.Err
}

func (r *review) readRequest(d *rawjson.Reader, request []byte) {
	for name, value := range rawjson.Members(request) {
		switch string(name) {
		case "uid":
			r.uid = d.Text(value, "request.uid")
		case "desiredAPIVersion":
			r.desired = d.Text(value, "request.desiredAPIVersion")
		case "objects":
			r.objects = value
		}
	}
}

// answer is a ConversionReview that was answered.
type answer struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Response   response `json:"response"`
}

type response struct {
	UID    string `json:"uid"`
	Result result `json:"result"`
	// ConvertedObjects is the last member; see frame.
	ConvertedObjects []json.RawMessage `json:"convertedObjects"`
}

type result struct {
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// Observed is what became of an object. What is neither a kind nor a version of ours is called unknown: anybody may call, and
// what is observed is kept.
type Observed struct {
	// Review is the uid of the review, as it came.
	Review                 string
	Kind, From, To, Result string
	// IsTooLarge: what the version lacks was left out, as the object says.
	IsTooLarge bool
	// Err is why the object was not converted.
	Err error
}

// Results of objects.
const (
	Converted = "converted"
	Unchanged = "unchanged"
	Failed    = "failed"
)

// Host is where reviews are answered.
type Host interface {
	// Observe is called before every object; what it returns is told what became of it.
	Observe() func(Observed)
	// Afford is asked before an object takes so many bytes of memory, beside some times its text.
	Afford(ctx context.Context, bytes int) error
}

// Handle answers one review. The code is 200 also for a review that fails: the protocol has its own way to say so. Other
// codes mean that it was no review, or that it was not answered because of the host or the context's end.
func Handle(ctx context.Context, body []byte, host Host) ([]byte, int, error) {
	in, err := read(body)
	switch {
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("decoding the review: %w", err)
	case in.kind != reviewKind:
		return nil, http.StatusBadRequest, fmt.Errorf("kind is %q: must be %s", in.kind, reviewKind)
	case in.apiVersion != apiextensionsv1.SchemeGroupVersion.String() && in.apiVersion != apiextensionsv1.GroupName+"/v1beta1":
		return nil, http.StatusBadRequest, fmt.Errorf("apiVersion is %q: must be %s", in.apiVersion, apiextensionsv1.SchemeGroupVersion)
	case !in.asks:
		return nil, http.StatusBadRequest, errors.New("request is missing")
	case in.uid == "":
		return nil, http.StatusBadRequest, errors.New("request.uid is missing")
	case !rawjson.IsNull(in.objects) && in.objects[0] != '[':
		return nil, http.StatusBadRequest, errors.New("request.objects is something else: must be a list")
	}
	before, after, err := in.frame(result{Status: "Success"})
	if err != nil {
		return nil, http.StatusInternalServerError, err
	}
	var out bytes.Buffer
	// Most objects grow a little, by a carrier.
	out.Grow(len(before) + len(in.objects)*9/8 + growth + len(after))
	out.Write(before)
	if err := in.convert(ctx, &out, host); err != nil {
		if errors.As(err, &undecided{}) {
			return nil, http.StatusServiceUnavailable, err
		}
		// The protocol has no result for each object.
		before, after, err = in.frame(result{Status: "Failure", Message: limit(err.Error())})
		if err != nil {
			return nil, http.StatusInternalServerError, err
		}
		return append(before, after...), http.StatusOK, nil
	}
	out.Write(after)
	return out.Bytes(), http.StatusOK, nil
}

// growth is by how many bytes a single object grows at most, as a rule.
const growth = 512

// undecided is an error that says nothing of the objects.
type undecided struct{ error }

func (u undecided) Unwrap() error { return u.error }

// convert appends the objects in the desired version, until there is an error.
func (r review) convert(ctx context.Context, out *bytes.Buffer, host Host) error {
	start := out.Len()
	afford := func(bytes int) error {
		if err := host.Afford(ctx, bytes); err != nil {
			return undecided{err}
		}
		return nil
	}
	for object := range rawjson.Elements(r.objects) {
		if err := ctx.Err(); err != nil {
			return undecided{err}
		}
		if out.Len() > start {
			out.WriteByte(',')
		}
		done := host.Observe()
		seen := convert(afford, out, object, r.desired)
		seen.Review = r.uid
		if done(seen); seen.Err != nil {
			return seen.Err
		}
	}
	if out.Len() == start && !mapping.IsVersion(r.desired) {
		return fmt.Errorf("request.desiredAPIVersion: %q is not known", r.desired)
	}
	return nil
}

// frame is what stands before and after the objects of an answer. They are put in as they are: they must not change by the way.
func (r review) frame(outcome result) (before, after []byte, err error) {
	const end = "]}}"
	raw, err := json.Marshal(answer{APIVersion: r.apiVersion, Kind: r.kind, Response: response{UID: r.uid, Result: outcome, ConvertedObjects: []json.RawMessage{}}})
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the answer: %w", err)
	}
	return bytes.TrimSuffix(raw, []byte(end)), []byte(end), nil
}

// named is what an object calls itself.
type named struct{ apiVersion, kind, namespace, name string }

// nameOf reads the names of an object. Whatever is wrong there or elsewhere is no reason to fail: it is a text without names.
func nameOf(object []byte) named {
	var n named
	var d rawjson.Reader
	for name, value := range rawjson.Members(object) {
		switch string(name) {
		case "apiVersion":
			n.apiVersion = d.Text(value, "")
		case "kind":
			n.kind = d.Text(value, "")
		case "metadata":
			n.namespace, n.name = d.Text(rawjson.Member(value, "namespace"), ""), d.Text(rawjson.Member(value, "name"), "")
		}
	}
	return n
}

func ifKnown(name string, is func(string) bool) string {
	if is(name) {
		return name
	}
	return unknown
}

// convert appends an object in the desired version.
func convert(afford func(bytes int) error, out *bytes.Buffer, object []byte, desired string) Observed {
	n := nameOf(object)
	start := out.Len()
	err := mapping.ConvertTextIf(afford, out, object, desired)
	seen := Observed{Kind: ifKnown(n.kind, mapping.IsKind), From: ifKnown(n.apiVersion, mapping.IsVersion), To: ifKnown(desired, mapping.IsVersion), Result: Converted}
	switch {
	case err != nil:
		seen.Result = Failed
		seen.Err = fmt.Errorf("%s %s/%s from %q to %q: %w", n.kind, n.namespace, n.name, n.apiVersion, desired, err)
	case n.apiVersion == desired:
		seen.Result = Unchanged
	default:
		seen.IsTooLarge = isTooLarge(out.Bytes()[start:], n.kind)
	}
	return seen
}

// isTooLarge tells whether a converted object says that its carrier would be.
func isTooLarge(object []byte, kind string) bool {
	if !bytes.Contains(object, []byte(mapping.TooLarge)) {
		return false
	}
	annotations := rawjson.Member(rawjson.Member(object, "metadata"), "annotations")
	return rawjson.Says(rawjson.Member(annotations, mapping.CarrierKey(kind, mapping.V1beta1)), mapping.TooLarge)
}

func limit(message string) string {
	if len(message) > maxMessage {
		return message[:maxMessage]
	}
	return message
}
