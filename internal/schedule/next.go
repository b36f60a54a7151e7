package schedule

import "time"

// furthest bounds the search: between two 29ths of February there are at most eight years.
const furthest = 9 * 366 * 24 * time.Hour

// Next is the first time after t at which the schedule is due; the zero time: never. zone is where the expression is read
// unless it names one itself. For @every, t is what is counted from.
//
// An expression that names its hours is due once on each day that it matches, whatever clocks do: of an hour that comes
// twice only the first counts, and what falls into an hour that is left out is due right after it. Others follow real time.
func (s *Schedule) Next(t time.Time, zone *time.Location) time.Time {
	if s.every > 0 {
		return t.Truncate(time.Second).Add(s.every)
	}
	if s.Zone != nil {
		zone = s.Zone
	}
	end := t.Add(furthest)
	for from := t.In(zone); ; {
		p := periodOf(from)
		if next, found := s.within(p, from, t); found {
			return next
		}
		if p.end.IsZero() || p.end.After(end) {
			return time.Time{}
		}
		from = p.end
	}
}

// period is a time in which clocks run evenly.
type period struct {
	// start and end may be zero: there is no such end. The start belongs to the period.
	start, end time.Time
	// offset is what the clock is ahead of UTC, before what it was ahead in the period before.
	offset, before time.Duration
}

func periodOf(t time.Time) period {
	p := period{}
	p.start, p.end = t.ZoneBounds()
	p.offset = offsetOf(t)
	p.before = p.offset
	if !p.start.IsZero() {
		p.before = offsetOf(p.start.Add(-1))
	}
	return p
}

func offsetOf(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// within looks for the first due time after t in a period, from a time in it.
func (s *Schedule) within(p period, from, after time.Time) (time.Time, bool) {
	clock := wall(from, p.offset)
	if s.isFixed && !p.start.IsZero() {
		before := wall(p.start, p.before)
		if p.start.After(after) {
			if due, found := s.match(before, wall(p.start, p.offset)); found && due.Before(wall(p.start, p.offset)) {
				return p.start, true
			}
		}
		// What the clock showed before it was set back counted then.
		if clock.Before(before) {
			clock = before
		}
	}
	until := wall(after, p.offset).Add(furthest)
	if !p.end.IsZero() {
		until = wall(p.end, p.offset)
	}
	for {
		due, found := s.match(clock, until)
		if !found {
			return time.Time{}, false
		}
		if next := due.Add(-p.offset).In(from.Location()); next.After(after) {
			return next, true
		}
		clock = due.Add(time.Minute)
	}
}

// wall is what the clock shows, as a time in UTC.
func wall(t time.Time, offset time.Duration) time.Time { return t.UTC().Add(offset) }

// match is the first reading of the clock that matches, from one on and before another. Both are in UTC.
func (s *Schedule) match(from, until time.Time) (time.Time, bool) {
	at := from.Truncate(time.Minute)
	if at.Before(from) {
		at = at.Add(time.Minute)
	}
	for at.Before(until) {
		year, month, day := at.Date()
		switch {
		case !s.month.has(int(month)):
			at = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !s.matchesDay(at):
			at = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case !s.hour.has(at.Hour()):
			at = at.Truncate(time.Hour).Add(time.Hour)
		case !s.minute.has(at.Minute()):
			at = at.Add(time.Minute)
		default:
			return at, true
		}
	}
	return time.Time{}, false
}

// matchesDay: where both kinds of days are named, either may match.
func (s *Schedule) matchesDay(t time.Time) bool {
	day, week := s.day.has(t.Day()), s.week.has(int(t.Weekday()))
	if s.dayStarred || s.weekStarred {
		return day && week
	}
	return day || week
}
