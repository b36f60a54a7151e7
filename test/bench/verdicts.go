package main

import (
	"fmt"
	"io"
	"os"
)

// verdict is a figure beside what the product promises.
type verdict struct {
	part, figure string
	value        float64
	// promise is empty where nothing is promised.
	promise string
	kept    bool
}

// verdicts are in the order in which they were measured.
type verdicts []verdict

// tell adds a figure that nothing is promised about.
func (v *verdicts) tell(part, figure string, value float64) {
	*v = append(*v, verdict{part: part, figure: figure, value: value})
}

// most adds a figure that is promised not to be greater.
func (v *verdicts) most(part, figure string, value, limit float64) {
	*v = append(*v, verdict{part, figure, value, fmt.Sprintf("<= %g", limit), value <= limit})
}

// least adds a figure that is promised not to be smaller.
func (v *verdicts) least(part, figure string, value, limit float64) {
	*v = append(*v, verdict{part, figure, value, fmt.Sprintf(">= %g", limit), value >= limit})
}

// failures adds how many calls failed, and shows why the first did.
func (v *verdicts) failures(part string, calls *tally) {
	v.most(part, fmt.Sprintf("failed of %d calls", len(calls.took)+len(calls.failed)), float64(len(calls.failed)), 0)
	if err := calls.first(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", part, err)
	}
}

func (v verdicts) print(out io.Writer, title string) {
	fmt.Fprintf(out, "\n%s\n\n", title)
	w := table(out)
	fmt.Fprintln(w, "part\tfigure\tvalue\ttarget\t\t")
	for _, row := range v {
		word := ""
		switch {
		case row.promise != "" && row.kept:
			word = "met"
		case row.promise != "":
			word = "missed"
		}
		fmt.Fprintf(w, "%s\t%s\t%.2f\t%s\t%s\t\n", row.part, row.figure, row.value, row.promise, word)
	}
	// Nothing to do about a report that cannot be printed.
	_ = w.Flush()
}
