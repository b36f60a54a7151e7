// Package schedule reads cron expressions and says when they are due. Everything here is pure; the time-zone database is
// compiled in and used where the system has none.
package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // The base image may have none.
)

// Schedule is a cron expression that has been read.
type Schedule struct {
	// Zone is that of a TZ= prefix; nil without one.
	Zone *time.Location

	every                            time.Duration
	minute, hour, day, month, week   bits
	dayStarred, weekStarred, isFixed bool
}

// bits has a bit for every number that matches.
type bits uint64

func (b bits) has(n int) bool { return b&(1<<n) != 0 }

// HasZone tells whether an expression begins with a time zone.
func HasZone(text string) bool {
	return strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=")
}

// Parse reads an expression: five fields or a descriptor, after a time zone if there is one.
func Parse(text string) (*Schedule, error) {
	s := &Schedule{}
	if HasZone(text) {
		prefix, rest, found := strings.Cut(text, " ")
		if !found {
			return nil, errors.New("there is nothing after the time zone")
		}
		_, name, _ := strings.Cut(prefix, "=")
		zone, err := time.LoadLocation(name)
		if err != nil {
			return nil, fmt.Errorf("time zone of the schedule: %w", err)
		}
		s.Zone, text = zone, rest
	}
	text = strings.TrimSpace(text)
	var err error
	switch {
	case text == "":
		err = errors.New("the schedule is empty")
	case strings.HasPrefix(text, "@"):
		err = s.parseDescriptor(text)
	default:
		err = s.parseFields(text)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Schedule) parseDescriptor(text string) error {
	if duration, found := strings.CutPrefix(text, "@every "); found {
		every, err := time.ParseDuration(strings.TrimSpace(duration))
		if err != nil {
			return fmt.Errorf("@every: %w", err)
		}
		s.every = max(time.Second, every.Truncate(time.Second))
		return nil
	}
	switch text {
	case "@yearly", "@annually":
		return s.parseFields("0 0 1 1 *")
	case "@monthly":
		return s.parseFields("0 0 1 * *")
	case "@weekly":
		return s.parseFields("0 0 * * 0")
	case "@daily", "@midnight":
		return s.parseFields("0 0 * * *")
	case "@hourly":
		return s.parseFields("0 * * * *")
	}
	return fmt.Errorf("%s is not a descriptor: @yearly, @monthly, @weekly, @daily, @hourly and @every are", text)
}

func (s *Schedule) parseFields(text string) error {
	parts := strings.Fields(text)
	if len(parts) != 5 {
		return fmt.Errorf("%d fields: minute, hour, day of month, month and day of week are wanted", len(parts))
	}
	var errs []error
	read := func(i int, f fieldRange) (bits, bool) {
		matches, starred, err := f.parse(parts[i])
		errs = append(errs, err)
		return matches, starred
	}
	var hourStarred bool
	s.minute, _ = read(0, fieldRange{"minute", 0, 59, nil})
	s.hour, hourStarred = read(1, fieldRange{"hour", 0, 23, nil})
	s.day, s.dayStarred = read(2, fieldRange{"day of month", 1, 31, nil})
	s.month, _ = read(3, fieldRange{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}})
	s.week, s.weekStarred = read(4, fieldRange{"day of week", 0, 6, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}})
	s.isFixed = !hourStarred && !strings.HasPrefix(parts[1], "*/") && !strings.HasPrefix(parts[1], "?/")
	return errors.Join(errs...)
}
