package admission

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// Templates has Pod templates judged by the API server that will have to accept the Pods.
type Templates struct {
	Client kubernetes.Interface
	// slots bounds the questions that are under way, within the time that one may take.
	slots  chan struct{}
	within time.Duration

	// isElsewhere: the Pods will be in other namespaces than the one that is asked in.
	isElsewhere bool

	kind    string
	observe func(kind, result string, took time.Duration)
	clock   clock.PassiveClock
}

const (
	templatesAtOnce  = 16
	templateWithin   = 2 * time.Second
	templateWarnings = 3
)

// NewTemplates asks with that client.
func NewTemplates(client kubernetes.Interface) *Templates {
	return &Templates{Client: client, slots: make(chan struct{}, templatesAtOnce), within: templateWithin}
}

// Verdicts, as metrics name them.
const (
	verdictOK        = "ok"
	verdictRefused   = "refused"
	verdictUnchecked = "unchecked"
)

// Observed has every verdict told, and how long it took.
func (t *Templates) Observed(clock clock.PassiveClock, observe func(kind, result string, took time.Duration)) *Templates {
	if t == nil {
		return nil
	}
	out := *t
	out.clock, out.observe = clock, observe
	return &out
}

// For has verdicts told as those of a kind. What is under way is bounded for all kinds together.
func (t *Templates) For(kind string) *Templates {
	if t == nil {
		return nil
	}
	out := *t
	out.kind = kind
	return &out
}

// Elsewhere is for Pods of other namespaces than the one that is asked in: what that one demands of its Pods is not said.
func (t *Templates) Elsewhere() *Templates {
	if t == nil {
		return nil
	}
	out := *t
	out.isElsewhere = true
	return &out
}

// notChecked are the warnings where the API server could not be asked.
func notChecked(at *field.Path) []string {
	return []string{at.String() + " was not checked by the API server; mistakes show when Pods are created"}
}

// CheckChanged has the template of a request judged if it is new or differs from was: one that is unchanged must not block
// the change of something else, whatever the API server thinks of it today. The template is sent as the client wrote it:
// the API server may know members that are newer than the types here.
func (t *Templates) CheckChanged(ctx context.Context, r Request, was, is *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim, at *field.Path) (field.ErrorList, []string) {
	if t == nil || was != nil && equality.Semantic.DeepEqual(was, is) {
		return nil, nil
	}
	text := r.Object
	for name := range strings.SplitSeq(at.String(), ".") {
		text = rawjson.Member(text, name)
	}
	if rawjson.IsNull(text) {
		// A template that is left out is an empty one.
		text = []byte("{}")
	}
	template, err := conversion.Decode(text)
	if err != nil {
		return field.ErrorList{field.InternalError(at, err)}, nil
	}
	return t.judge(ctx, r.Namespace, template, claims, at)
}

// Check has a template judged that is made up of others. Anything but a verdict is no refusal: the controller will report
// what remains. claims are added as volumes of their names.
func (t *Templates) Check(ctx context.Context, namespace string, template *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim, at *field.Path) (field.ErrorList, []string) {
	tree, err := encodeFrom(template)
	if err != nil {
		return field.ErrorList{field.InternalError(at, err)}, nil
	}
	return t.judge(ctx, namespace, tree, claims, at)
}

// judge asks, and tells how that went.
func (t *Templates) judge(ctx context.Context, namespace string, template conversion.Tree, claims []corev1.PersistentVolumeClaim, at *field.Path) (field.ErrorList, []string) {
	if t.observe == nil {
		errs, warnings, _ := t.ask(ctx, namespace, template, claims, at)
		return errs, warnings
	}
	begun := t.clock.Now()
	errs, warnings, verdict := t.ask(ctx, namespace, template, claims, at)
	t.observe(t.kind, verdict, t.clock.Since(begun))
	return errs, warnings
}

// ask sends a PodTemplate that is not stored.
func (t *Templates) ask(ctx context.Context, namespace string, template conversion.Tree, claims []corev1.PersistentVolumeClaim, at *field.Path) (errs field.ErrorList, said []string, verdict string) {
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	default:
		return nil, notChecked(at), verdictUnchecked
	}
	ctx, cancel := context.WithTimeout(ctx, t.within)
	defer cancel()
	template, places := withClaims(template, claims)
	body, err := conversion.Encode(conversion.Tree{
		"apiVersion": "v1", "kind": "PodTemplate", "metadata": conversion.Tree{"generateName": "check-", "namespace": namespace}, "template": template,
	})
	if err != nil {
		return field.ErrorList{field.InternalError(at, err)}, nil, verdictUnchecked
	}
	heard := warnings{isElsewhere: t.isElsewhere}
	options := &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationIgnore}
	err = t.Client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("podtemplates").VersionedParams(options, scheme.ParameterCodec).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).WarningHandlerWithContext(&heard).Do(ctx).Error()
	switch {
	case err == nil:
		return nil, heard.at(at), verdictOK
	case !apierrors.IsInvalid(err):
		return nil, notChecked(at), verdictUnchecked
	}
	return causes(err, places, at), nil, verdictRefused
}

// withClaims puts claims into a template as volumes: in the place of volumes of their names, as in every Pod, or after all
// others. The second result are the places of claims by the index of their volume. The template is not changed.
func withClaims(template conversion.Tree, claims []corev1.PersistentVolumeClaim) (conversion.Tree, map[int]int) {
	if len(claims) == 0 {
		return template, nil
	}
	spec, _ := template["spec"].(conversion.Tree)
	listed, _ := spec["volumes"].([]any)
	volumes, index := slices.Clone(listed), map[string]int{}
	for i, v := range volumes {
		if volume, ok := v.(conversion.Tree); ok {
			name, _ := volume["name"].(string)
			index[name] = i
		}
	}
	places := map[int]int{}
	for i := range claims {
		name := claims[i].Name
		volume := conversion.Tree{"name": name, "persistentVolumeClaim": conversion.Tree{"claimName": name}}
		if at, found := index[name]; found {
			volumes[at] = volume
			continue
		}
		places[len(volumes)] = i
		volumes = append(volumes, volume)
	}
	out := conversion.Tree{"spec": conversion.Tree{"volumes": volumes}}
	for name, v := range template {
		if name != "spec" {
			out[name] = v
		}
	}
	into, _ := out["spec"].(conversion.Tree)
	for name, v := range spec {
		if name != "volumes" {
			into[name] = v
		}
	}
	return out, places
}

// warnings are what the API server says beside its verdict.
type warnings struct {
	texts       []string
	isElsewhere bool
}

// ofNamespace is in every warning of the plugin that compares Pods with the labels of their namespace.
const ofNamespace = "violate PodSecurity"

// HandleWarningHeaderWithContext keeps one.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	isForeign := w.isElsewhere && strings.Contains(text, ofNamespace)
	if len(w.texts) < templateWarnings && !isForeign {
		w.texts = append(w.texts, text)
	}
}

func (w *warnings) at(at *field.Path) []string {
	var out []string
	for _, text := range w.texts {
		if rest, found := strings.CutPrefix(text, "template."); found {
			out = append(out, at.String()+"."+rest)
		} else {
			out = append(out, at.String()+": "+text)
		}
	}
	return out
}

// causes are those of the refusal, at the place of the template; of volumes that are claims, at the claim.
func causes(err error, claims map[int]int, at *field.Path) field.ErrorList {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, err.Error())}
	}
	var errs field.ErrorList
	for _, c := range status.Status().Details.Causes {
		name, ok := strings.CutPrefix(c.Field, "template")
		if !ok {
			continue
		}
		e := &field.Error{Type: field.ErrorType(c.Type), Field: at.String() + name, BadValue: field.OmitValueType{}}
		// The API server's text says what is wrong in words of its own, and so will ours.
		e.Detail = strings.TrimPrefix(strings.TrimPrefix(c.Message, e.Type.String()), ": ")
		if i, isClaim := claims[volumeIndex(name)]; isClaim {
			e.Field = fmt.Sprintf("%svolumeClaimTemplates[%d].metadata.name", strings.TrimSuffix(at.String(), "template"), i)
		}
		errs = append(errs, e)
	}
	if len(errs) == 0 {
		errs = field.ErrorList{field.Invalid(at, field.OmitValueType{}, err.Error())}
	}
	return errs
}

// volumeOf finds the index in the path of a volume.
var volumeOf = regexp.MustCompile(`^\.spec\.volumes\[([0-9]+)\]`)

// volumeIndex is -1 for what is no volume.
func volumeIndex(path string) int {
	match := volumeOf.FindStringSubmatch(path)
	if match == nil {
		return -1
	}
	i, err := strconv.Atoi(match[1])
	if err != nil {
		return -1
	}
	return i
}
