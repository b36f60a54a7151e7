package main

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// samples are the metrics of a process at one time, by name with labels as they are printed.
type samples map[string]float64

// scrape reads the metrics of a process.
func scrape(ctx context.Context, address string) (samples, error) {
	text, err := localcluster.Get(ctx, "http://"+address+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	s := samples{}
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		if i := strings.LastIndexByte(line, '}'); i >= 0 {
			name, value, found = line[:i+1], strings.TrimSpace(line[i+1:]), true
		}
		if !found || strings.HasPrefix(line, "#") {
			continue
		}
		if s[name], err = strconv.ParseFloat(value, 64); err != nil {
			return nil, fmt.Errorf("reading metrics: %q: %w", line, err)
		}
	}
	return s, nil
}

// since is what was added after an earlier scrape.
func (s samples) since(before samples) samples {
	out := samples{}
	for name, v := range s {
		out[name] = v - before[name]
	}
	return out
}

// sum adds up the series of a metric that have all these labels, each as it is printed: `code="200"`.
func (s samples) sum(metric string, labels ...string) float64 {
	total := 0.0
	for name, v := range s {
		if has(name, metric, labels) {
			total += v
		}
	}
	return total
}

func has(name, metric string, labels []string) bool {
	rest, ok := strings.CutPrefix(name, metric)
	if !ok || rest != "" && rest[0] != '{' {
		return false
	}
	return !slices.ContainsFunc(labels, func(l string) bool {
		return !strings.Contains(rest, "{"+l) && !strings.Contains(rest, ","+l)
	})
}

var upperBound = regexp.MustCompile(`le="([^"]+)"`)

// quantile estimates a quantile of a histogram, in its unit, as Prometheus does: values are taken to be spread evenly within a
// bucket. A value beyond the last bound is told as that bound.
func (s samples) quantile(q float64, histogram string, labels ...string) (float64, error) {
	counts := map[float64]float64{}
	for name, v := range s {
		if !has(name, histogram+"_bucket", labels) {
			continue
		}
		bound, err := strconv.ParseFloat(upperBound.FindStringSubmatch(name)[1], 64)
		if err != nil {
			return 0, fmt.Errorf("reading metrics: %s: %w", name, err)
		}
		counts[bound] += v
	}
	rank := q * counts[math.Inf(1)]
	if rank == 0 {
		return 0, fmt.Errorf("%s %v counted nothing", histogram, labels)
	}
	below, under := 0.0, 0.0
	for _, bound := range sortedBounds(counts) {
		n := counts[bound]
		switch {
		case n < rank:
			below, under = bound, n
		case math.IsInf(bound, 1):
			return below, nil
		default:
			return below + (bound-below)*(rank-under)/(n-under), nil
		}
	}
	return below, nil
}

func sortedBounds(counts map[float64]float64) []float64 {
	bounds := make([]float64, 0, len(counts))
	for b := range counts {
		bounds = append(bounds, b)
	}
	slices.Sort(bounds)
	return bounds
}
