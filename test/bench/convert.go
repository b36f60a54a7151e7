package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

const (
	kib = 1 << 10
	mib = 1 << 20

	conversionSize = 8 * kib
	durations      = "flotilla_webhook_request_duration_seconds"
)

// What conversion promises.
const (
	conversionMedian, conversionTail = 1, 5 // milliseconds in the handler
	conversionsPerCPU                = 1000 // a second
	conversionHeap                   = 8    // times the body
	conversionMemory                 = 64   // MiB
)

// idleMemory is what the processes need before anybody calls.
func (h *hooks) idleMemory(ctx context.Context) error {
	if err := h.memory(ctx, h.server, partIdle, "webhook-server, no SidecarSets", 40); err != nil {
		return err
	}
	return h.memory(ctx, h.rotator, partIdle, "cert-rotator", rotatorMemory)
}

// memory tells how much memory a process needs when nothing happens.
func (h *hooks) memory(ctx context.Context, c *component, part, figure string, limit float64) error {
	if _, err := heap(ctx, c.pprof); err != nil {
		return err
	}
	total, err := localcluster.MemoryOf(c.process.Pid(), "VmRSS:")
	if err != nil {
		return err
	}
	anonymous, err := localcluster.MemoryOf(c.process.Pid(), "RssAnon:")
	if err != nil {
		return err
	}
	h.verdicts.most(part, figure+": RSS, MiB", float64(total)/mib, limit)
	h.verdicts.tell(part, figure+": RSS without what is mapped from the executable, MiB", float64(anonymous)/mib)
	return nil
}

// conversion asks webhook-server itself: what the API server does beside is not measured.
func (h *hooks) conversion(ctx context.Context) error {
	objects := make([]json.RawMessage, h.options.list)
	for i := range objects {
		var err error
		if objects[i], err = grownText(fmt.Sprint("web-", i), benchNamespace, conversionSize, nil); err != nil {
			return err
		}
	}
	// What one large review needs stays with the process for a while: it comes last.
	if err := h.convertMany(ctx, objects); err != nil {
		return err
	}
	return h.convertList(ctx, objects)
}

// convertList converts many objects in one review.
func (h *hooks) convertList(ctx context.Context, objects []json.RawMessage) error {
	body, err := conversionReview(objects)
	if err != nil {
		return err
	}
	const again = 5
	var calls tally
	m, err := h.measured(ctx, h.server, func() error {
		for range again {
			calls.time(func() error { return h.convert(ctx, body, len(objects)) })
		}
		return calls.first()
	})
	if err != nil {
		return err
	}
	part, n := fmt.Sprintf("conversion, %d objects of %d KiB in one review", len(objects), len(body)/len(objects)/kib), float64(len(objects))
	h.verdicts.tell(part, "objects a second", n/calls.quantile(0.5)*1000)
	h.verdicts.tell(part, "ms per object", calls.quantile(0.5)/n)
	h.verdicts.tell(part, "CPU ms per object", milliseconds(m.cpu)/n/again)
	h.verdicts.tell(part, "KiB allocated per object", m.allocated/n/again/kib)
	h.verdicts.most(part, "bytes allocated per byte of the body", m.allocated/again/float64(len(body)), conversionHeap)
	h.verdicts.tell(part, "peak RSS, MiB", m.peak)
	return nil
}

// convertMany converts one object per review, as the API server asks, from many callers at once.
func (h *hooks) convertMany(ctx context.Context, objects []json.RawMessage) error {
	const callers = 10
	bodies := make([][]byte, len(objects))
	for i := range objects {
		var err error
		if bodies[i], err = conversionReview(objects[i : i+1]); err != nil {
			return err
		}
	}
	n := h.options.reviews
	var calls tally
	start := time.Now()
	m, err := h.measured(ctx, h.server, func() error {
		return each(n, callers, func(i int) error {
			calls.time(func() error { return h.convert(ctx, bodies[i%len(bodies)], 1) })
			return nil
		})
	})
	took := time.Since(start)
	if err == nil {
		err = calls.first()
	}
	if err != nil {
		return err
	}
	part := fmt.Sprintf("conversion, %d callers", callers)
	label := fmt.Sprintf("path=%q", conversionPath)
	if err := h.handled(m.metrics, part, label, conversionMedian, conversionTail); err != nil {
		return err
	}
	h.verdicts.tell(part, "p50 at the caller, ms", calls.quantile(0.5))
	h.verdicts.tell(part, "p99 at the caller, ms", calls.quantile(0.99))
	h.verdicts.tell(part, "reviews a second, callers on the same machine", float64(n)/took.Seconds())
	h.verdicts.least(part, "reviews per second of CPU, TLS included", float64(n)/m.cpu.Seconds(), conversionsPerCPU)
	h.verdicts.most(part, "bytes allocated per byte of the body, HTTP included", m.allocated/float64(n)/float64(len(bodies[0])), conversionHeap)
	h.verdicts.most(part, "peak RSS, MiB", m.peak, conversionMemory)
	return nil
}

// handled tells what the handler took, by its own account.
func (h *hooks) handled(s samples, part, label string, median, tail float64) error {
	for _, q := range []struct{ at, limit float64 }{{0.5, median}, {0.99, tail}} {
		v, err := s.quantile(q.at, durations, label)
		if err != nil {
			return err
		}
		h.verdicts.most(part, fmt.Sprintf("p%g in the handler, ms", q.at*100), v*1000, q.limit)
	}
	return nil
}

// convert makes sure that so many objects come back: a review that fails is answered fast.
func (h *hooks) convert(ctx context.Context, body []byte, objects int) error {
	answer, err := h.caller.post(ctx, conversionPath, body)
	if err != nil {
		return err
	}
	var review struct {
		Response struct {
			ConvertedObjects []json.RawMessage `json:"convertedObjects"`
			Result           struct {
				Message string `json:"message"`
			} `json:"result"`
		} `json:"response"`
	}
	if err := json.Unmarshal(answer, &review); err != nil {
		return fmt.Errorf("decoding the answer: %w", err)
	}
	if n := len(review.Response.ConvertedObjects); n != objects {
		return fmt.Errorf("%d of %d objects were converted: %s", n, objects, review.Response.Result.Message)
	}
	return nil
}

// measurement is what a process did during something.
type measurement struct {
	metrics samples
	cpu     time.Duration
	// allocated is in bytes, peak in MiB.
	allocated, peak float64
}

func (h *hooks) measured(ctx context.Context, c *component, do func() error) (m measurement, err error) {
	pid := c.process.Pid()
	before, err := scrape(ctx, c.metrics)
	if err != nil {
		return m, err
	}
	allocated, err := allocations(ctx, c.pprof)
	if err != nil {
		return m, err
	}
	if err := forgetPeak(pid); err != nil {
		return m, err
	}
	used, err := cpu(pid)
	if err != nil {
		return m, err
	}
	if err := do(); err != nil {
		return m, err
	}
	after, err := cpu(pid)
	if err != nil {
		return m, err
	}
	m.cpu = after - used
	peak, err := peakMemory(pid)
	if err != nil {
		return m, err
	}
	m.peak = float64(peak) / mib
	now, err := allocations(ctx, c.pprof)
	if err != nil {
		return m, err
	}
	m.allocated = now - allocated
	s, err := scrape(ctx, c.metrics)
	if err != nil {
		return m, err
	}
	m.metrics = s.since(before)
	return m, nil
}

var totalAlloc = regexp.MustCompile(`(?m)^# TotalAlloc = (\d+)$`)

// allocations is what a process has allocated since its start, in bytes.
func allocations(ctx context.Context, pprof string) (float64, error) {
	text, err := localcluster.Get(ctx, "http://"+pprof+"/debug/pprof/heap?debug=1")
	if err != nil {
		return 0, err
	}
	m := totalAlloc.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%s has no TotalAlloc", pprof)
	}
	return strconv.ParseFloat(m[1], 64)
}
