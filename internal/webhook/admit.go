package webhook

import (
	"strings"

	"github.com/flotilla-k8s/flotilla/internal/admission"
	"github.com/flotilla-k8s/flotilla/internal/admission/advancedcronjob"
	"github.com/flotilla-k8s/flotilla/internal/admission/broadcastjob"
	"github.com/flotilla-k8s/flotilla/internal/admission/cloneset"
	"github.com/flotilla-k8s/flotilla/internal/admission/statefulset"
)

// Kinds are those that the server defaults and validates.
func (s *Server) Kinds() []admission.Kind {
	templates := s.options.Templates(s.env.Kube)
	return []admission.Kind{
		cloneset.Kind(templates),
		statefulset.Kind(templates, s.classes),
		broadcastjob.Kind(templates),
		advancedcronjob.Kind(templates, s.env.Clock),
	}
}

// Admit adds the paths of a kind, before the server works.
func (s *Server) Admit(k admission.Kind) {
	name := "-apps-kruise-io-" + strings.ToLower(k.Kind)
	s.Handle("/mutate"+name, admission.MaxBody, k.Mutate())
	s.Handle("/validate"+name, admission.MaxBody, k.Check())
}
