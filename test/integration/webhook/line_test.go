package webhook

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/test/harness"
)

// line stands between the API server and the webhook-server. It passes on what is said as it is, and can have the API server
// begin anew: on a connection that it keeps, it looks at no certificate again.
type line struct {
	listener net.Listener
	target   string

	mu sync.Mutex
	// open are the connections of the API server, each with what is closed when it has ended.
	open map[*net.TCPConn]chan struct{}
	// opened is how many there have been.
	opened int64
	wg     sync.WaitGroup
}

func newLine(t *testing.T, target string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &line{listener: listener, target: target, open: map[*net.TCPConn]chan struct{}{}}
	n.wg.Go(n.accept)
	t.Cleanup(func() {
		listener.Close()
		n.mu.Lock()
		for c := range n.open {
			c.Close()
		}
		n.mu.Unlock()
		n.wg.Wait()
	})
	return n
}

func (n *line) accept() {
	for {
		c, err := n.listener.Accept()
		if err != nil {
			return
		}
		in := c.(*net.TCPConn)
		ended := make(chan struct{})
		n.mu.Lock()
		n.open[in] = ended
		n.opened++
		n.mu.Unlock()
		n.wg.Go(func() {
			defer func() {
				in.Close()
				n.mu.Lock()
				delete(n.open, in)
				n.mu.Unlock()
				close(ended)
			}()
			if out, err := net.Dial("tcp", n.target); err == nil {
				harness.Join(in, out)
			}
		})
	}
}

// renew ends the connections in order, and returns when the API server has let go of each: what it asks next, it asks on a new
// one. What it asks just now on one of them for somebody else has to be asked again.
func (n *line) renew() {
	n.mu.Lock()
	ending := make(map[*net.TCPConn]chan struct{}, len(n.open))
	for c, ended := range n.open {
		ending[c] = ended
		// It may have ended by itself; then there is nothing to say.
		_ = c.CloseWrite()
	}
	n.mu.Unlock()
	timer := time.NewTimer(harness.Patience)
	defer timer.Stop()
	for c, ended := range ending {
		select {
		case <-ended:
		case <-timer.C:
			c.Close()
		}
	}
}

// count is how many connections there have been.
func (n *line) count() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.opened
}

// through has the API server call the webhook-server by a line.
func (l *lab) through(n *line) {
	l.Helper()
	l.calls = n.listener.Addr().String()
	l.convertAt("https://" + l.calls + "/convert")
	l.isReady()
}
