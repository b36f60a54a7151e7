package admission

import (
	"context"
	"strings"
	"sync/atomic"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// Told is what becomes known of a review while it is answered, for whoever counts and logs. What is told is of bounded length,
// whatever was sent, and holds no values of objects. It can be read while the handler is still at work.
type Told struct {
	asked    atomic.Pointer[Asked]
	answered atomic.Pointer[admissionv1.AdmissionResponse]
}

type toldKey struct{}

// Tell has the handler of the context's review fill in what it gets to know.
func Tell(ctx context.Context, t *Told) context.Context { return context.WithValue(ctx, toldKey{}, t) }

// tell tells what is known by now, if anybody asked.
func tell(ctx context.Context, r *Asked, response *admissionv1.AdmissionResponse) {
	if t, isAsked := ctx.Value(toldKey{}).(*Told); isAsked {
		t.asked.Store(r)
		t.answered.Store(response)
	}
}

// Bounds of what is told.
const (
	longestUID    = 64
	longestName   = 256
	causesInALine = 10
)

// Operation is that of the request, as labels of metrics name it: one of those that there are, "unknown", or "" without a request.
func (t *Told) Operation() string {
	request := t.asked.Load()
	if request == nil {
		return ""
	}
	switch o := request.Operation; o {
	case admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect:
		return string(o)
	}
	return "unknown"
}

// IsDecided tells whether there is an answer, IsAllowed what it is.
func (t *Told) IsDecided() bool { return t.answered.Load() != nil }

// IsAllowed is false where nothing was decided.
func (t *Told) IsAllowed() bool {
	response := t.answered.Load()
	return response != nil && response.Allowed
}

// Patch is how long the patch is, in operations and bytes.
func (t *Told) Patch() (operations, size int) {
	response := t.answered.Load()
	if response == nil {
		return 0, 0
	}
	for range rawjson.Elements(response.Patch) {
		operations++
	}
	return operations, len(response.Patch)
}

// UID is that of the request; "" without one.
func (t *Told) UID() string {
	request := t.asked.Load()
	if request == nil {
		return ""
	}
	return cut(string(request.UID), longestUID)
}

// Values are those of a log line about the request.
func (t *Told) Values() []any {
	request := t.asked.Load()
	if request == nil {
		return nil
	}
	kind, err := rawjson.String(rawjson.Member(request.kind, "kind"))
	if err != nil || kind == "" {
		kind = request.Resource.Resource
	}
	return []any{
		"kind", cut(kind, longestName), "object", cut(request.Namespace, longestName) + "/" + cut(request.Name, longestName),
		"operation", t.Operation(), "dryRun", request.IsDryRun,
	}
}

// Reason is why an object was refused: the fields, and what kind of mistake each is.
func (t *Told) Reason() string {
	response := t.answered.Load()
	if response == nil || response.Result == nil || response.Result.Details == nil {
		return ""
	}
	var out []string
	for i, c := range response.Result.Details.Causes {
		if i == causesInALine {
			out = append(out, "and more")
			break
		}
		out = append(out, cut(c.Field, longestName)+": "+string(c.Type))
	}
	return strings.Join(out, ", ")
}
