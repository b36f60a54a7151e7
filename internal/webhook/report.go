package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flotilla-k8s/flotilla/internal/conversion"
	"github.com/flotilla-k8s/flotilla/internal/rawjson"
)

// report counts a request and logs what is worth it: one line for what was refused or went wrong, another for a change, and one
// for every request, if anybody wants to know.
func (g *gatekeeper) report(v *visit, took time.Duration) {
	// What was decided too late has not been answered.
	isAnswered, allowed := v.err == nil && v.told.IsDecided(), ""
	if isAnswered {
		allowed = strconv.FormatBool(v.told.IsAllowed())
	}
	g.metrics.requests.WithLabelValues(v.path, v.told.Operation(), strconv.Itoa(v.code), allowed).Inc()
	g.metrics.duration.WithLabelValues(v.path).Observe(took.Seconds())
	operations, size := v.told.Patch()
	if isAnswered && strings.HasPrefix(v.path, mutating) {
		g.metrics.patches.WithLabelValues(v.path).Observe(float64(operations))
	}
	switch {
	case v.err != nil && v.stack != "":
		g.log.Error(v.err, "a handler panicked", append(v.values(), "code", v.code, "stack", v.stack)...)
	case v.err != nil && v.code >= http.StatusInternalServerError:
		g.log.Error(v.err, "a request was not answered", append(v.values(), "code", v.code)...)
	case v.err != nil:
		g.log.Info("a request is none that can be answered", append(v.values(), "code", v.code, "reason", v.err.Error())...)
	case isAnswered && !v.told.IsAllowed():
		g.log.Info("an object is refused", append(v.values(), "reason", v.told.Reason())...)
	case operations > 0:
		if log := g.log.V(2); log.Enabled() {
			log.Info("an object is changed", append(v.values(), "operations", operations)...)
		}
	}
	if log := g.log.V(4); log.Enabled() {
		log.Info("a request", append(v.values(), "code", v.code, "allowed", allowed, "duration", took, "patchBytes", size)...)
	}
}

// mutating is what the paths of hooks that change objects begin with.
const mutating = "/mutate"

// values are those of a log line. What could not be read as a review may have a uid all the same.
func (v *visit) values() []any {
	uid := v.told.UID()
	if uid == "" {
		uid, _ = rawjson.String(rawjson.Member(rawjson.Member(v.body, "request"), "uid"))
	}
	return append([]any{"path", v.path, "uid", shorten(uid)}, v.told.Values()...)
}

// Observe times and counts an object that is converted: see conversion.Observer.
func (s *Server) Observe() func(conversion.Observed) {
	begun := s.env.Clock.Now()
	return func(o conversion.Observed) {
		s.metrics.converted.WithLabelValues(o.Kind, o.From, o.To, o.Result).Inc()
		s.metrics.conversionTime.WithLabelValues(o.Kind).Observe(s.env.Clock.Since(begun).Seconds())
		if o.IsTooLarge {
			s.metrics.tooLarge.WithLabelValues(o.Kind).Inc()
		}
		if o.Err != nil {
			s.env.Log.Info("an object is not converted", "path", "/convert", "uid", shorten(o.Review), "reason", shorten(o.Err.Error()))
		}
	}
}
