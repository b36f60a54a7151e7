package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/internal/admission"
)

// Limits are what a body may take.
type Limits struct {
	// Body is the size of one, Budget that of all that are being worked on, in bytes.
	Body, Budget int64
}

const (
	// answerWithin bounds the work on a request, answerEarly leaves time to send the answer.
	answerWithin = 25 * time.Second
	answerEarly  = 200 * time.Millisecond
)

// Handle works on one body and returns the answer with its HTTP code. An error is told to the client with that code: it
// means that nothing was decided, so that the caller's policy holds.
type Handle func(ctx context.Context, body []byte) (answer []byte, code int, err error)

// gatekeeper stands before all handlers.
type gatekeeper struct {
	log      logr.Logger
	clock    clock.PassiveClock
	metrics  *metrics
	budget   int64
	inFlight atomic.Int64
	// bodyWithin is how long a body may take that is small.
	bodyWithin time.Duration
	draining   atomic.Bool
}

// visit is a request, and what became of it.
type visit struct {
	path string
	body []byte
	told admission.Told
	code int
	// err is why nothing was decided, stack where that was if nobody expected it.
	err   error
	stack string
}

// guard checks what can be checked before a body is understood, and bounds what understanding it may cost.
func (g *gatekeeper) guard(path string, limit int64, handle Handle) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if g.draining.Load() {
			// The client is to ask somebody else next time.
			w.Header().Set("Connection", "close")
		}
		start := g.clock.Now()
		g.metrics.busy.Inc()
		defer g.metrics.busy.Dec()
		v := &visit{path: path}
		g.serve(w, r, limit, handle, v)
		g.report(v, g.clock.Since(start))
	}
}

// maxReason bounds what is told of an error, to the client and in logs: it may hold what was sent.
const maxReason = 1024

func (g *gatekeeper) refuse(w http.ResponseWriter, v *visit, code int, reason string, err error) {
	g.metrics.rejected.WithLabelValues(reason).Inc()
	v.fail(w, code, err)
}

func (v *visit) fail(w http.ResponseWriter, code int, err error) {
	v.code, v.err = code, errors.New(shorten(err.Error()))
	http.Error(w, v.err.Error(), code)
}

func shorten(text string) string {
	if len(text) > maxReason {
		text = text[:maxReason]
	}
	return strings.ToValidUTF8(text, "")
}

func (g *gatekeeper) serve(w http.ResponseWriter, r *http.Request, limit int64, handle Handle, v *visit) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		g.refuse(w, v, http.StatusMethodNotAllowed, "malformed", errors.New("only POST is allowed"))
		return
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		g.refuse(w, v, http.StatusUnsupportedMediaType, "content_type", errors.New("Content-Type must be application/json")) //nolint:staticcheck // The name of a header.
		return
	}
	body, release, code, reason, err := g.read(w, r, limit)
	if err != nil {
		g.refuse(w, v, code, reason, err)
		return
	}
	defer release()
	v.body = body
	if err := checkBody(body); err != nil {
		g.refuse(w, v, http.StatusBadRequest, "malformed", err)
		return
	}
	ctx, cancel := context.WithTimeout(admission.Tell(r.Context(), &v.told), patience(r))
	defer cancel()
	answer, code, err := g.protected(ctx, v, handle)
	switch {
	case ctx.Err() != nil:
		g.refuse(w, v, http.StatusServiceUnavailable, "deadline", errors.New("no answer in time; repeat the request"))
		return
	case err != nil && code >= http.StatusInternalServerError:
		v.fail(w, code, err)
		return
	case err != nil:
		g.refuse(w, v, code, "malformed", err)
		return
	}
	v.code = code
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if _, err := w.Write(answer); err != nil {
		g.log.V(4).Info("the answer could not be sent", "error", err.Error())
	}
}

// A body is given room as it arrives, so that the budget is charged with what was sent and not with what was announced: who
// announces much and sends nothing takes nothing from others.
const (
	firstRoom = 16 << 10
	moreRoom  = 4
	// bodyWithin is how long a body may take, beside a second for every so many bytes.
	bodyWithin     = 5 * time.Second
	bytesPerSecond = 4 << 20
)

var errBusy = errors.New("too much is being worked on; repeat the request")

// read takes a body within the limit, the budget and the time.
func (g *gatekeeper) read(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, release func(), code int, reason string, err error) {
	announced := r.ContentLength
	if announced < 0 {
		announced = limit
	}
	tooLarge := fmt.Errorf("the body is larger than %d bytes", limit)
	if announced > limit {
		return nil, nil, http.StatusRequestEntityTooLarge, "body_too_large", tooLarge
	}
	held := &share{of: g}
	conn, now := http.NewResponseController(w), g.clock.Now()
	err = setReadDeadline(conn, now.Add(g.bodyWithin+time.Duration(announced/bytesPerSecond)*time.Second))
	if err == nil {
		body, err = held.read(http.MaxBytesReader(w, r.Body, limit), announced)
	}
	if err == nil {
		// The connection is listened to while the request is worked on: its end would be that of the request.
		err = setReadDeadline(conn, now.Add(readTimeout))
	}
	var tooMany *http.MaxBytesError
	switch {
	case err == nil:
		return body, held.release, 0, "", nil
	case errors.As(err, &tooMany):
		code, reason, err = http.StatusRequestEntityTooLarge, "body_too_large", tooLarge
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "1")
		code, reason = http.StatusTooManyRequests, "busy"
	case errors.Is(err, os.ErrDeadlineExceeded):
		code, reason, err = http.StatusRequestTimeout, "deadline", errors.New("the body did not arrive in time")
	default:
		code, reason, err = http.StatusBadRequest, "malformed", fmt.Errorf("reading the body: %w", err)
	}
	held.release()
	return nil, nil, code, reason, err
}

// setReadDeadline does without where there is no connection, as in tests.
func setReadDeadline(conn *http.ResponseController, at time.Time) error {
	if err := conn.SetReadDeadline(at); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("bounding the time: %w", err)
	}
	return nil
}

// share is what one request holds of the budget.
type share struct {
	of   *gatekeeper
	held int64
}

// grow fails, and holds no more, where the budget does not allow it.
func (s *share) grow(to int64) error {
	more := to - s.held
	if s.of.inFlight.Add(more) > s.of.budget {
		s.of.inFlight.Add(-more)
		return errBusy
	}
	s.held = to
	s.of.metrics.inFlight.Set(float64(s.of.inFlight.Load()))
	return nil
}

func (s *share) release() {
	s.of.metrics.inFlight.Set(float64(s.of.inFlight.Add(-s.held)))
	s.held = 0
}

// read reads all. It takes one byte more than was announced to see the end.
func (s *share) read(from io.Reader, announced int64) ([]byte, error) {
	var body []byte
	for room := min(announced+1, firstRoom); ; room = min(announced+1, room*moreRoom) {
		if err := s.grow(room); err != nil {
			return nil, err
		}
		body = slices.Grow(body, int(room)-len(body))
		for len(body) < int(room) {
			n, err := from.Read(body[len(body):room])
			body = body[:len(body)+n]
			switch {
			case errors.Is(err, io.EOF):
				return body, nil
			case err != nil:
				return nil, err //nolint:wrapcheck // The caller says what is being read.
			}
		}
	}
}

// patience is the smaller of our own and the caller's, less the time that the answer takes.
func patience(r *http.Request) time.Duration {
	said, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || said <= 0 {
		return answerWithin
	}
	return max(time.Millisecond, min(answerWithin, said-answerEarly))
}

// protected turns a panic into an answer: one body must not end the process.
func (g *gatekeeper) protected(ctx context.Context, v *visit, handle Handle) (answer []byte, code int, err error) {
	defer func() {
		if p := recover(); p != nil {
			g.metrics.rejected.WithLabelValues("panic").Inc()
			v.stack = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
			answer, code, err = nil, http.StatusInternalServerError, errors.New("an internal error; it has been logged")
		}
	}()
	return handle(ctx, v.body)
}
