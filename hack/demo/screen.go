package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// screen draws a table of CloneSets: redrawn in place on a terminal, one line per change in a log.
type screen struct {
	out      io.Writer
	terminal bool
	// drawn is the number of lines to go back before the next drawing.
	drawn int
	last  string
	// rows are what was drawn last of each set.
	rows map[string]string
}

func newScreen(out *os.File) *screen {
	info, err := out.Stat()
	return &screen{out: out, rows: map[string]string{}, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"}
}

const (
	header = "  %-10s %-12s %8s %8s %8s  %s\n"
	row    = "  %-10s [%-10s] %8d %8d %8d  %s\n"
)

func (s *screen) draw(sets []v1beta1.CloneSet) {
	var b strings.Builder
	for i := range sets {
		c := &sets[i]
		// Until the controller has seen a change, its counts tell of the set before it.
		if c.Status.ObservedGeneration == c.Generation {
			wanted := ptr.Deref(c.Spec.Replicas, 1)
			s.rows[c.Name] = fmt.Sprintf(row, c.Name, bar(c.Status.UpdatedAvailableReplicas, wanted), wanted, c.Status.UpdatedReplicas, c.Status.AvailableReplicas, image(c))
		}
		b.WriteString(s.rows[c.Name])
	}
	if b.String() == s.last {
		return
	}
	if s.terminal && s.drawn > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn)
	}
	if s.terminal || s.last == "" {
		fmt.Fprintf(s.out, header, "CLONESET", "UPDATED", "DESIRED", "UPDATED", "READY", "IMAGE")
	}
	fmt.Fprint(s.out, b.String())
	s.last = b.String()
	s.drawn = strings.Count(s.last, "\n") + 1
}

// settle keeps what was drawn last and starts the next table below it.
func (s *screen) settle() {
	s.drawn, s.last = 0, ""
}

// bar is a bar of ten characters.
func bar(n, of int32) string {
	return strings.Repeat("#", int(min(n, of)*10/max(of, 1)))
}

func image(c *v1beta1.CloneSet) string {
	if len(c.Spec.Template.Spec.Containers) == 0 {
		return ""
	}
	return c.Spec.Template.Spec.Containers[0].Image
}
