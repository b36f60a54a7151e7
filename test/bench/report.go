package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

func report(out io.Writer, o options, native, ours *side) {
	fmt.Fprintf(out, "\n%d Pods on %d simulated nodes, maxUnavailable 25%%, maxSurge 25%% (0 in place), one run\n\n", o.pods, o.nodes)
	w := table(out)
	compare(w, o, native, ours)
	for _, q := range []float64{0.5, 0.99} {
		x, y := quantile(native.replacements, q), quantile(ours.replacements, q)
		fmt.Fprintf(w, "deletion to replacement\tp%g, ms\t%.1f\t%.1f\t%.2f\t\n", q*100, milliseconds(x), milliseconds(y), y.Seconds()/x.Seconds())
	}
	for _, phase := range []string{phaseWide, phaseFleet} {
		f := ours.phases[phase]
		name := fmt.Sprintf("%s (%d Pods)", phase, f.pods)
		fmt.Fprintf(w, "%s\tseconds until all are Ready\t-\t%.2f\t\t\n", name, f.wall.Seconds())
		fmt.Fprintf(w, "%s\tCPU seconds\t-\t%.2f\t\t\n", name, f.cpu.Seconds())
		fmt.Fprintf(w, "%s\tpeak memory, MiB\t-\t%.2f\t\t\n", name, float64(f.peak)/(1<<20))
		fmt.Fprintf(w, "%s\twrites per Pod\t-\t%.2f\t\t\n", name, float64(f.writes.total())/float64(f.pods))
		fmt.Fprintf(w, "%s\tconflicts (409)\t-\t%d\t\t\n", name, f.conflicts)
	}
	// Nothing to do about a report that cannot be printed.
	_ = w.Flush()
}

func table(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

// compare prints what both sides cost, phase by phase.
func compare(w io.Writer, o options, native, ours *side) {
	fmt.Fprintf(w, "phase\tfigure\t%s\t%s\tratio\t\n", native.name, ours.name)
	for _, phase := range []string{phaseCreate, phaseInPlace, phaseRecreate} {
		a, hasNative := native.phases[phase]
		b := ours.phases[phase]
		row := func(figure string, x, y float64) {
			if !hasNative {
				fmt.Fprintf(w, "%s\t%s\t-\t%.2f\t\t\n", phase, figure, y)
				return
			}
			fmt.Fprintf(w, "%s\t%s\t%.2f\t%.2f\t%.2f\t\n", phase, figure, x, y, y/x)
		}
		row("seconds until all are Ready", a.wall.Seconds(), b.wall.Seconds())
		row("CPU seconds", a.cpu.Seconds(), b.cpu.Seconds())
		row("peak memory, MiB", float64(a.peak)/(1<<20), float64(b.peak)/(1<<20))
		row("writes per Pod", float64(a.writes.total())/float64(o.pods), float64(b.writes.total())/float64(o.pods))
		for _, what := range slices.Sorted(maps.Keys(union(a.writes, b.writes))) {
			row("  "+what, float64(a.writes[what])/float64(o.pods), float64(b.writes[what])/float64(o.pods))
		}
		fmt.Fprintf(w, "%s\tconflicts (409)\t%d\t%d\t\t\n", phase, a.conflicts, b.conflicts)
	}
	fmt.Fprintf(w, "idle %s\twrites\t%d\t%d\t\t\n", o.idle, native.idleWrites.total(), ours.idleWrites.total())
	fmt.Fprintf(w, "\theap per Pod, KiB\t-\t%.2f\t\t\n", ours.heapPerPod/1024)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func union(a, b writes) writes {
	all := maps.Clone(b)
	if all == nil {
		all = writes{}
	}
	for k := range a {
		all[k] += 0
	}
	return all
}
