package binaries

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	barWidth    = 30
	redrawEvery = 200 * time.Millisecond
	// logEvery is for output that goes to a file: a line now and then instead of a bar.
	logEvery = 15 * time.Second
)

// bar shows how far a build is: redrawn in place on a terminal, a line every 15 seconds in a log.
type bar struct {
	label    string
	out      io.Writer
	terminal bool
	start    time.Time
	stop     chan struct{}
	stopped  sync.WaitGroup

	mu      sync.Mutex
	of      int
	done    int
	doing   string
	success bool
}

func newBar(label string, out io.Writer) *bar {
	b := &bar{label: label, out: out, terminal: isTerminal(out), start: time.Now(), stop: make(chan struct{})}
	b.stopped.Go(b.run)
	return b
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (b *bar) run() {
	every := logEvery
	if b.terminal {
		every = redrawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case now := <-tick.C:
			b.show(now)
		}
	}
}

func (b *bar) show(now time.Time) {
	b.mu.Lock()
	line := b.line(now.Sub(b.start))
	b.mu.Unlock()
	if b.terminal {
		const eraseRest = "\x1b[K"
		fmt.Fprintf(b.out, "\r%s%s", line, eraseRest)
		return
	}
	fmt.Fprintln(b.out, line)
}

// line is one state of the bar. Packages that Go's own cache has are never announced, so a build may end early.
func (b *bar) line(elapsed time.Duration) string {
	elapsed = elapsed.Truncate(time.Second)
	if b.of == 0 {
		return fmt.Sprintf("%s: preparing %s %s", b.label, elapsed, b.doing)
	}
	full := barWidth * min(b.done, b.of) / b.of
	doing := b.doing
	if len(doing) > 40 {
		doing = "..." + doing[len(doing)-37:]
	}
	return fmt.Sprintf("%s [%s%s] %d/%d packages %s %s", b.label, strings.Repeat("#", full), strings.Repeat("-", barWidth-full),
		b.done, b.of, elapsed, doing)
}

func (b *bar) total(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of = n
}

func (b *bar) step(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done++
	b.doing = what
}

func (b *bar) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doing = what
}

// finish marks the build as done.
func (b *bar) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.success, b.done, b.doing = true, b.of, ""
}

// close ends the display with its last line.
func (b *bar) close() {
	close(b.stop)
	b.stopped.Wait()
	elapsed := time.Since(b.start).Truncate(time.Second)
	if b.terminal {
		b.show(time.Now())
		fmt.Fprintln(b.out)
	}
	if b.success {
		fmt.Fprintf(b.out, "Compiled %s in %s.\n", b.label, elapsed)
	}
}
