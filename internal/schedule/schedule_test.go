package schedule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse("2006-01-02T15:04Z", text)
	require.NoError(t, err)
	return v
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := LoadZone(name)
	require.NoError(t, err)
	return z
}

// TestDueTimes lists what follows a time. Numbers are those of scenarios.
func TestDueTimes(t *testing.T) {
	for name, c := range map[string]struct {
		expression, zone, after string
		want                    []string
	}{
		"003 strictly after":               {"*/5 * * * *", "UTC", "2026-01-05T10:05Z", []string{"2026-01-05T10:10Z"}},
		"004 before the time of day":       {"0 10 * * ?", "UTC", "2022-09-05T09:01Z", []string{"2022-09-05T10:00Z"}},
		"004 after the time of day":        {"0 10 * * ?", "UTC", "2022-09-05T11:01Z", []string{"2022-09-06T10:00Z"}},
		"005 in a zone":                    {"0 10 * * ?", "Asia/Shanghai", "2022-09-05T09:01Z", []string{"2022-09-06T02:00Z"}},
		"005 in a zone of its own":         {"TZ=Asia/Shanghai 0 10 * * ?", "UTC", "2022-09-05T09:01Z", []string{"2022-09-06T02:00Z"}},
		"005 the other prefix":             {"CRON_TZ=Asia/Shanghai 0 10 * * ?", "UTC", "2022-09-05T09:01Z", []string{"2022-09-06T02:00Z"}},
		"006 either kind of day":           {"0 10 1 * 1", "UTC", "2026-10-25T00:00Z", []string{"2026-10-26T10:00Z", "2026-11-01T10:00Z", "2026-11-02T10:00Z"}},
		"006 weekdays":                     {"0 0 ? * MON-FRI", "UTC", "2026-10-23T00:00Z", []string{"2026-10-26T00:00Z", "2026-10-27T00:00Z"}},
		"007 from five on":                 {"5/15 * * * *", "UTC", "2026-01-05T10:00Z", []string{"2026-01-05T10:05Z", "2026-01-05T10:20Z", "2026-01-05T10:35Z", "2026-01-05T10:50Z"}},
		"008 leap days":                    {"0 0 29 2 *", "UTC", "2026-10-24T00:00Z", []string{"2028-02-29T00:00Z"}},
		"a century that does not leap":     {"0 0 29 2 *", "UTC", "2096-10-24T00:00Z", []string{"2104-02-29T00:00Z"}},
		"a step makes no star":             {"0 0 1 * */2", "UTC", "2026-01-03T12:00Z", []string{"2026-01-04T00:00Z", "2026-01-06T00:00Z"}},
		"a star in a list":                 {"0 0 1,* * 1", "UTC", "2026-01-03T12:00Z", []string{"2026-01-05T00:00Z", "2026-01-12T00:00Z"}},
		"yearly":                           {"@yearly", "UTC", "2026-01-03T12:00Z", []string{"2027-01-01T00:00Z"}},
		"weekly":                           {"@weekly", "UTC", "2026-01-05T12:00Z", []string{"2026-01-11T00:00Z"}},
		"050 the hour that comes twice":    {"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", []string{"2026-10-25T00:30Z", "2026-10-26T01:30Z"}},
		"051 the hour that is left out":    {"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", []string{"2026-03-29T01:00Z", "2026-03-30T00:30Z"}},
		"052 left out and there":           {"0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00Z", []string{"2026-03-29T01:00Z", "2026-03-30T00:00Z", "2026-03-30T01:00Z"}},
		"053 no midnight":                  {"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00Z", []string{"2018-11-04T03:00Z", "2018-11-05T02:00Z"}},
		"054 every hour of a long night":   {"0 * * * *", "Europe/Berlin", "2026-10-24T23:30Z", []string{"2026-10-25T00:00Z", "2026-10-25T01:00Z", "2026-10-25T02:00Z", "2026-10-25T03:00Z"}},
		"054 daily":                        {"@daily", "Europe/Berlin", "2026-10-24T12:00Z", []string{"2026-10-24T22:00Z", "2026-10-25T23:00Z"}},
		"055 every other hour":             {"0 */2 * * *", "Europe/Berlin", "2026-10-24T21:00Z", []string{"2026-10-24T22:00Z", "2026-10-25T00:00Z", "2026-10-25T01:00Z", "2026-10-25T03:00Z"}},
		"asked in the second of two hours": {"30 2 * * *", "Europe/Berlin", "2026-10-25T01:10Z", []string{"2026-10-26T01:30Z"}},
		"all of an hour that is left out":  {"*/10 2 * * *", "Europe/Berlin", "2026-03-29T00:00Z", []string{"2026-03-29T01:00Z", "2026-03-30T00:00Z"}},
		"a day that never was":             {"0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00Z", []string{"2011-12-30T10:00Z", "2012-12-29T22:00Z"}},
		"an hour left out on another day":  {"30 2 1 * *", "Europe/Berlin", "2026-03-28T12:00Z", []string{"2026-04-01T00:30Z"}},
		"names of months, in any case":     {"0 0 1 FEB,aug *", "UTC", "2026-01-05T12:00Z", []string{"2026-02-01T00:00Z", "2026-08-01T00:00Z"}},
	} {
		t.Run("Scenario"+name, func(t *testing.T) {
			s, err := Parse(c.expression)
			require.NoError(t, err)
			now := at(t, c.after)
			for _, want := range c.want {
				now = s.Next(now, zone(t, c.zone))
				require.Equal(t, want, now.UTC().Format("2006-01-02T15:04Z"))
			}
		})
	}
}

func TestScenario7EverySoOften(t *testing.T) {
	base := at(t, "2026-01-05T12:00Z")
	for expression, want := range map[string]time.Duration{"@every 90s": 90 * time.Second, "@every 1ms": time.Second, "@every 1500ms": time.Second, "@every 7h": 7 * time.Hour} {
		s, err := Parse(expression)
		require.NoError(t, err)
		require.Equal(t, want, s.Next(base, time.UTC).Sub(base), expression)
		require.Equal(t, 2*want, s.Next(s.Next(base, time.UTC), time.UTC).Sub(base), expression)
	}
}

func TestScenario58WhatIsNoSchedule(t *testing.T) {
	for _, expression := range []string{
		"", " ", "* * * * * *", "* * * *", "0 10 * * 7", "60 * * * *", "*/0 * * * *", "@reboot", "TZ=UTC", "TZ=UTC ", "TZ=Mars/X * * * * *", "CRON_TZ=", "CRON_TZ",
		"5-3 * * * *", "1-2-3 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "L * * * *", "a * * * *", "-1 * * * *", "1, * * * *", "1/ * * * *", "@every", "@every x", "+1 * * * *",
		"* * * * sunday", "1.5 * * * *", "99999999999999999999 * * * *", "*/99999999999999999999 * * * *", "@Daily",
	} {
		_, err := Parse(expression)
		require.Error(t, err, expression)
	}
}

func TestWhatIsNeverDue(t *testing.T) {
	for _, expression := range []string{"0 0 31 2 *", "0 0 31 4,6 ?", "0 0 30 2 *"} {
		s, err := Parse(expression)
		require.NoError(t, err)
		require.Zero(t, s.Next(at(t, "2026-01-05T12:00Z"), zone(t, "Europe/Berlin")), expression)
	}
}

func TestScenario60Zones(t *testing.T) {
	for _, name := range []string{"", "Local", "LOCAL", "Mars/X", "../UTC", "/etc/passwd", "Europe/../UTC", "-UTC", "Europe//Berlin", "Europe/", "Europe/Berlin\x00", "Europe/ABCDEFGHIJKLMNO", "Éurope", "."} {
		_, err := LoadZone(name)
		require.Error(t, err, name)
	}
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Argentina/ComodRivadavia", "Etc/GMT+9", "America/North_Dakota/New_Salem"} {
		_, err := LoadZone(name)
		require.NoError(t, err, name)
	}
}

// TestNextAgreesWithTheClock looks at the clock of every minute, for random expressions around changes of the clock.
func TestNextAgreesWithTheClock(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		part := func(first, last int) string {
			n := first + r.IntN(last-first+1)
			return []string{"*", fmt.Sprint(n), fmt.Sprintf("%d/%d", n, 1+r.IntN(9)), fmt.Sprintf("%d-%d,%d", first, n, last)}[r.IntN(4)]
		}
		expression := strings.Join([]string{part(0, 59), []string{"*", "*/2", "*/5"}[r.IntN(3)], part(1, 31), []string{"*", "3,4", "10"}[r.IntN(3)], part(0, 6)}, " ")
		s, err := Parse(expression)
		require.NoError(t, err, expression)
		z := zone(t, []string{"Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"}[r.IntN(5)])
		now := time.Date(2018, time.Month(1+r.IntN(12)), 20+r.IntN(12), r.IntN(24), r.IntN(60), r.IntN(60), 0, time.UTC)
		want := time.Time{}
		for m := now.Truncate(time.Minute).Add(time.Minute); m.Before(now.Add(40 * 24 * time.Hour)); m = m.Add(time.Minute) {
			l := m.In(z)
			if s.minute.has(l.Minute()) && s.hour.has(l.Hour()) && s.month.has(int(l.Month())) && s.matchesDay(l) {
				want = m
				break
			}
		}
		got := s.Next(now, z)
		if want.IsZero() {
			require.True(t, got.IsZero() || !got.Before(now.Add(40*24*time.Hour)), "%s after %s in %s: %s", expression, now, z, got)
			continue
		}
		require.True(t, got.Equal(want), "%s after %s in %s: %s, not %s", expression, now, z, got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"*/5 * * * *", "TZ=UTC 0 0 29 2 *", "@every 3s", "0 0 1-5/2,7 jan-MAR ?"} {
		f.Add(seed)
	}
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expression string) {
		s, err := Parse(expression)
		if err != nil {
			return
		}
		if next := s.Next(now, time.UTC); !next.IsZero() && !next.After(now) {
			t.Fatalf("%q is due at %s", expression, next)
		}
	})
}
