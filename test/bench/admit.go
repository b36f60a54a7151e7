package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

const admissionSize = 32 * kib

// What admission promises.
const (
	admissionMedian, admissionTail = 1, 10 // milliseconds in the handler
	admissionMemory                = 128   // MiB
	admissionsPerSecond            = 200
)

// admission asks webhook-server itself at a steady pace, while there are many SidecarSets.
func (h *hooks) admission(ctx context.Context) error {
	if err := h.sidecarSets(ctx); err != nil {
		return err
	}
	if err := h.memory(ctx, h.server, partAdmission, fmt.Sprintf("webhook-server, %d SidecarSets", h.options.sidecarSets), 40+6.0*float64(h.options.sidecarSets)/kib); err != nil {
		return err
	}
	requests, err := admissions()
	if err != nil {
		return err
	}
	var calls tally
	m, err := h.measured(ctx, h.server, func() error {
		deadline, cancel := context.WithTimeout(ctx, h.options.load)
		defer cancel()
		paced(deadline, admissionsPerSecond, func(i int) {
			r := requests[i%len(requests)]
			calls.time(func() error { return h.allowed(ctx, r) })
		})
		return nil
	})
	if err != nil {
		return err
	}
	for _, path := range []string{mutationPath, validationPath, sidecarPath} {
		part := fmt.Sprintf("admission, %d a second, %s", admissionsPerSecond, path)
		if err := h.handled(m.metrics, part, fmt.Sprintf("path=%q", path), admissionMedian, admissionTail); err != nil {
			return err
		}
	}
	const part = "admission, all"
	h.verdicts.failures(part, &calls)
	for _, q := range []float64{0.5, 0.99} {
		v, err := m.metrics.quantile(q, "flotilla_webhook_template_check_duration_seconds")
		if err != nil {
			return err
		}
		h.verdicts.tell(part, fmt.Sprintf("p%g of the API server's judging a template, ms", q*100), v*1000)
	}
	h.verdicts.most(part, "templates that were not checked", m.metrics.sum("flotilla_webhook_template_checks_total", `result="unchecked"`), 0)
	h.verdicts.tell(part, "p99 at the caller, ms", calls.quantile(0.99))
	h.verdicts.tell(part, "CPU ms per request", milliseconds(m.cpu)/float64(len(calls.took)))
	h.verdicts.most(part, "peak RSS, MiB", m.peak, admissionMemory)
	return nil
}

// sidecarsAtOnce is less than what webhook-server has judged at a time.
const sidecarsAtOnce = 10

const sidecarPath = "/validate-apps-kruise-io-sidecarset"

type admissionRequest struct {
	path string
	body []byte
}

// admissions are what is asked in turn: a large CloneSet that is created, which has the API server judge its template, one
// that is scaled, and now and then a SidecarSet, which is compared with all others.
func admissions() ([]admissionRequest, error) {
	object, err := grownText("web", benchNamespace, admissionSize, func(s *v1beta1.CloneSet) { s.Spec.Replicas = ptr.To(int32(3)) })
	if err != nil {
		return nil, err
	}
	old, err := grownText("web", benchNamespace, admissionSize, nil)
	if err != nil {
		return nil, err
	}
	created, err := admissionReview("CloneSet", "clonesets", object, nil)
	if err != nil {
		return nil, err
	}
	scaled, err := admissionReview("CloneSet", "clonesets", object, old)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(sidecarSet("another"))
	if err != nil {
		return nil, fmt.Errorf("encoding a SidecarSet: %w", err)
	}
	sidecar, err := admissionReview("SidecarSet", "sidecarsets", raw, nil)
	if err != nil {
		return nil, err
	}
	var all []admissionRequest
	for range 4 {
		all = append(all, admissionRequest{mutationPath, created}, admissionRequest{validationPath, created},
			admissionRequest{mutationPath, scaled}, admissionRequest{validationPath, scaled})
	}
	return append(all, admissionRequest{sidecarPath, sidecar}), nil
}

// allowed wants a decision: one that is a refusal would not have gone all the way.
func (h *hooks) allowed(ctx context.Context, r admissionRequest) error {
	answer, err := h.caller.post(ctx, r.path, r.body)
	if err != nil {
		return err
	}
	var review struct {
		Response struct {
			Allowed bool           `json:"allowed"`
			Status  *metav1.Status `json:"status"`
		} `json:"response"`
	}
	if err := json.Unmarshal(answer, &review); err != nil {
		return fmt.Errorf("decoding the answer: %w", err)
	}
	if !review.Response.Allowed {
		return fmt.Errorf("%s: refused: %v", r.path, review.Response.Status)
	}
	return nil
}

func sidecarSet(name string) *v1beta1.SidecarSet {
	set := &v1beta1.SidecarSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "SidecarSet"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	set.Spec.Containers = []v1beta1.SidecarContainer{{Container: corev1.Container{Name: "agent", Image: "registry.example/agent:1"}}}
	return set
}

// sidecarSets creates those that every further one is compared with.
func (h *hooks) sidecarSets(ctx context.Context) error {
	sets := h.cluster.Flotilla.AppsV1beta1().SidecarSets()
	start := time.Now()
	err := each(h.options.sidecarSets, sidecarsAtOnce, func(i int) error {
		if _, err := sets.Create(ctx, sidecarSet(fmt.Sprint("agent-", i)), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a SidecarSet: %w", err)
		}
		return nil
	})
	h.verdicts.tell(partAdmission, fmt.Sprintf("seconds to create %d SidecarSets through the API server", h.options.sidecarSets), time.Since(start).Seconds())
	return err
}
