package statefulset

import (
	"fmt"

	"github.com/flotilla-k8s/flotilla/internal/lifecycle"
	"github.com/flotilla-k8s/flotilla/internal/workload"
)

// waitsFor tells what somebody else has to do before the set can go on: free a name, let a Pod go.
func (p *planner) waitsFor() string {
	var out []string
	add := func(what string) {
		if what != "" {
			out = append(out, what)
		}
	}
	for _, s := range p.slots {
		if s.m == nil {
			add(p.inTheWay(s.ordinal))
		} else {
			add(p.holds(s.m))
		}
	}
	for _, m := range p.condemned {
		add(p.holds(m))
	}
	return workload.Waits(out)
}

// inTheWay is why the Pod of an ordinal is not created, where isInTheWay says so. Pods that are about to be adopted are
// nobody else's.
func (s *Snapshot) inTheWay(ordinal int32) string {
	name := podName(s.Set, ordinal)
	for _, p := range s.Returning {
		if p.Name == name {
			return ""
		}
	}
	if _, taken := s.Taken[name]; taken {
		return fmt.Sprintf("Pod %s cannot be created: a Pod that does not belong to the set has its name", name)
	}
	if claim := s.staleClaim(ordinal); claim != nil {
		return fmt.Sprintf("Pod %s cannot be created before claim %s is gone, which goes with the former Pod of that name", name, claim.Name)
	}
	return ""
}

// holds is which hook holds a Pod.
func (s *Snapshot) holds(m *member) string {
	if m.terminating {
		return ""
	}
	return lifecycle.WaitsFor(m.Pod, m.state, s.Set.Spec.Lifecycle)
}
