package app

import (
	"net/http"
	"sync"
	"time"
)

// ServerTime is the API server's clock, as its answers tell it. It is the API server that verifies certificates.
type ServerTime struct {
	mu sync.Mutex
	// said is what the last answer said, heard is when that was, with the monotonic clock.
	said, heard time.Time
}

// listen hears the time from every answer.
func (s *ServerTime) listen(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil {
			return response, err
		}
		if said, parseErr := http.ParseTime(response.Header.Get("Date")); parseErr == nil {
			s.mu.Lock()
			s.said, s.heard = said, time.Now()
			s.mu.Unlock()
		}
		return response, nil
	})
}

// Now is the time there, and by how much it is ahead of the local clock. Before the first answer it is the local time.
func (s *ServerTime) Now(local time.Time) (now time.Time, ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said.IsZero() {
		return local, 0
	}
	now = s.said.Add(time.Since(s.heard))
	return now, now.Sub(local)
}
