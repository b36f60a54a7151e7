package webhook

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/admission/advancedcronjob"
	"github.com/flotilla-k8s/flotilla/internal/admission/broadcastjob"
	"github.com/flotilla-k8s/flotilla/internal/admission/cloneset"
	"github.com/flotilla-k8s/flotilla/internal/admission/pod"
	"github.com/flotilla-k8s/flotilla/internal/admission/sidecarset"
	"github.com/flotilla-k8s/flotilla/internal/admission/statefulset"
	"github.com/flotilla-k8s/flotilla/internal/admission/uniteddeployment"
)

// Kinds are those that the server defaults and validates.
func (s *Server) Kinds() []admission.Kind {
	templates := s.options.Templates(s.env.Kube).Observed(s.env.Clock, s.observeTemplate)
	return []admission.Kind{
		cloneset.Kind(templates.For("CloneSet")),
		statefulset.Kind(templates.For("StatefulSet"), s.classes),
		broadcastjob.Kind(templates.For("BroadcastJob")),
		advancedcronjob.Kind(templates.For("AdvancedCronJob"), s.env.Clock),
		sidecarset.Kind(s.sidecars, templates.For("SidecarSet"), s.options.ServiceNamespace),
		uniteddeployment.Kind(templates.For("UnitedDeployment")),
	}
}

func (s *Server) observeTemplate(kind, result string, took time.Duration) {
	s.metrics.templates.WithLabelValues(kind, result).Inc()
	s.metrics.templateTime.WithLabelValues(kind).Observe(took.Seconds())
}

// reviews is what a review of admission may be.
func reviews() Accept { return Accept{Bytes: admission.MaxBody, Depth: maxDepth} }

// Admit adds the paths of a kind, before the server works.
func (s *Server) Admit(k admission.Kind) {
	name := "-apps-kruise-io-" + strings.ToLower(k.Kind)
	s.Handle("/mutate"+name, reviews(), s.weighed(k.Mutate()))
	s.Handle("/validate"+name, reviews(), s.weighed(k.Check()))
}

// AdmitPods adds the path of Pods, before the server works.
func (s *Server) AdmitPods() {
	s.Handle("/mutate-pod", reviews(), pod.Mutate(s.sidecars, func(result string) { s.metrics.pods.WithLabelValues(result).Inc() }))
}

// weighed charges what the carriers in a body take beside it.
func (s *Server) weighed(handle Handle) Handle {
	return func(ctx context.Context, body []byte) ([]byte, int, error) {
		if err := s.Afford(ctx, conversion.WeighStrings(body)); err != nil {
			return nil, http.StatusServiceUnavailable, err
		}
		return handle(ctx, body)
	}
}
