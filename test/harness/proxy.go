package harness

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy stands between a controller and the API server and can cut the line.
type Proxy struct {
	target   string
	listener net.Listener

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

// StartProxy listens on loopback and forwards to the cluster's API server until the test ends.
func (c *Cluster) StartProxy(t testing.TB) *Proxy {
	t.Helper()
	server, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatalf("address of the API server: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listening: %v", err)
	}
	p := &Proxy{target: server.Host, listener: l, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Address is what a kubeconfig has as its server. The certificate is the API server's own, which names
// loopback addresses.
func (p *Proxy) Address() string { return "https://" + p.listener.Addr().String() }

// Cut breaks all connections and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.conns {
		c.Close()
	}
}

// Mend lets connections through again.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

func (p *Proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.keep(in) {
			in.Close()
			continue
		}
		p.wg.Go(func() { p.forward(in) })
	}
}

func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		p.conns[c] = struct{}{}
	}
	return !p.cut
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

// forward ends when either side does: a half-open line would hide a cut.
func (p *Proxy) forward(in net.Conn) {
	defer p.forget(in)
	out, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	if !p.keep(out) {
		out.Close()
		return
	}
	defer p.forget(out)
	Join(in, out)
}

// Join forwards both ways until either side ends, and closes both.
func Join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			// The error is the end of the line, which is what this waits for.
			_, _ = io.Copy(pair[0], pair[1])
			pair[0].Close()
		})
	}
	both.Wait()
}
