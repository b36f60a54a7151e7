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

	"github.com/flotilla-k8s/flotilla/apis/apps/conversion"
	"github.com/flotilla-k8s/flotilla/internal/admission"
)

// Accept is what a path takes.
type Accept struct {
	// Bytes is the size of a body, Depth how deep it may be nested.
	Bytes int64
	Depth int
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
func (g *gatekeeper) guard(path string, accept Accept, handle Handle) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if g.draining.Load() {
			// The client is to ask somebody else next time.
			w.Header().Set("Connection", "close")
		}
		start := g.clock.Now()
		g.metrics.busy.Inc()
		defer g.metrics.busy.Dec()
		v := &visit{path: path}
		g.serve(w, r, accept, handle, v)
		g.report(v, g.clock.Since(start))
	}
}

// maxReason bounds what is told of an error, to the client and in logs: it may hold what was sent.
const maxReason = 1024

func (g *gatekeeper) refuse(w http.ResponseWriter, v *visit, code int, reason string, err error) {
	g.metrics.rejected.WithLabelValues(reason).Inc()
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
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

func (g *gatekeeper) serve(w http.ResponseWriter, r *http.Request, accept Accept, handle Handle, v *visit) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		g.refuse(w, v, http.StatusMethodNotAllowed, "malformed", errors.New("only POST is allowed"))
		return
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		g.refuse(w, v, http.StatusUnsupportedMediaType, "content_type", errors.New("Content-Type must be application/json")) //nolint:staticcheck // The name of a header.
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience(r))
	defer cancel()
	body, held, code, reason, err := g.read(w, r, accept.Bytes)
	if err != nil {
		g.refuse(w, v, code, reason, err)
		return
	}
	v.body = body
	o, inTime := g.work(admission.Tell(ctx, &v.told), body, held, func(ctx context.Context, body []byte) ([]byte, int, error) {
		if err := checkBody(body, accept.Depth); err != nil {
			return nil, http.StatusBadRequest, err
		}
		return handle(ctx, body)
	})
	if inTime {
		defer held.release()
	}
	v.stack = o.stack
	switch {
	case ctx.Err() != nil:
		g.refuse(w, v, http.StatusServiceUnavailable, "deadline", errors.New("no answer in time; repeat the request"))
	case errors.Is(o.err, errBusy):
		g.refuse(w, v, http.StatusTooManyRequests, "busy", o.err)
	case errors.Is(o.err, conversion.ErrTooMuch):
		g.refuse(w, v, http.StatusRequestEntityTooLarge, "body_too_large", o.err)
	case o.err != nil && o.code >= http.StatusInternalServerError:
		v.fail(w, o.code, o.err)
	case o.err != nil:
		g.refuse(w, v, o.code, "malformed", o.err)
	default:
		g.send(w, v, o)
	}
}

func (g *gatekeeper) send(w http.ResponseWriter, v *visit, o outcome) {
	v.code = o.code
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(o.code)
	if _, err := w.Write(o.answer); err != nil {
		g.log.V(4).Info("the answer could not be sent", "error", err.Error())
	}
}

// outcome is what a handler came to.
type outcome struct {
	answer []byte
	code   int
	err    error
	stack  string
}

// work has a body handled and waits for that, but not longer than the context allows. What goes on behind it holds its share
// until it ends, and its outcome is nobody's; otherwise the share is the caller's to release.
func (g *gatekeeper) work(ctx context.Context, body []byte, held *share, handle Handle) (o outcome, inTime bool) {
	done := make(chan outcome)
	go func() {
		o := g.handle(held.known(ctx), body, handle)
		select {
		case done <- o:
		case <-ctx.Done():
			held.release()
		}
	}()
	select {
	case o := <-done:
		return o, true
	case <-ctx.Done():
		return outcome{}, false
	}
}

// handle turns a panic into an answer: one body must not end the process.
func (g *gatekeeper) handle(ctx context.Context, body []byte, handle Handle) (o outcome) {
	defer func() {
		if p := recover(); p != nil {
			g.metrics.rejected.WithLabelValues("panic").Inc()
			o = outcome{code: http.StatusInternalServerError, err: errors.New("an internal error; it has been logged"), stack: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	o.answer, o.code, o.err = handle(ctx, body)
	return o
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
func (g *gatekeeper) read(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, held *share, code int, reason string, err error) {
	announced := r.ContentLength
	if announced < 0 {
		announced = limit
	}
	tooLarge := fmt.Errorf("the body is larger than %d bytes", limit)
	if announced > limit {
		return nil, nil, http.StatusRequestEntityTooLarge, "body_too_large", tooLarge
	}
	held = &share{of: g}
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
		return body, held, 0, "", nil
	case errors.As(err, &tooMany):
		code, reason, err = http.StatusRequestEntityTooLarge, "body_too_large", tooLarge
	case errors.Is(err, errBusy):
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
	of *gatekeeper
	// body is how much of what is held is for the body.
	body, held int64
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

type shareKey struct{}

// known lets the handler ask for more.
func (s *share) known(ctx context.Context) context.Context {
	return context.WithValue(ctx, shareKey{}, s)
}

// Afford charges what a handler is about to take beside the body. What it was charged with before it has freed.
func (s *Server) Afford(ctx context.Context, bytes int) error {
	held, isKnown := ctx.Value(shareKey{}).(*share)
	if !isKnown {
		return nil
	}
	return held.afford(int64(bytes))
}

func (s *share) afford(beside int64) error {
	to := s.body + beside
	switch {
	case to <= s.held:
		return nil
	case to > s.of.budget:
		return conversion.ErrTooMuch
	}
	return s.grow(to)
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
		s.body = room
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
