package cloneset

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An old Pod that was just created and that an update would take is deleted and created for ever.
func TestNothingIsCreatedThatAnUpdateTakes(t *testing.T) {
	const most = 4
	for replicas := range most {
		for partition := range replicas + 1 {
			for limits := range 27 {
				n := numbers{replicas: replicas, partition: partition, maxSurge: limits % 3, maxUnavailable: limits / 3 % 3, scaleUnavailable: limits / 9}
				forCounts(most, func(old, fresh tally) {
					c := counts{old: old, new: fresh, all: sum(old, fresh)}
					made := scale(n, c, scaleRules{}).creations()
					for i := range made.total() {
						if made.isOld(i) {
							c.old.total++
							require.Zero(t, differences(n, c, false).updates(), "%+v: %+v and %+v, the %d-th of %+v", n, old, fresh, i, made)
						} else {
							c.new.total++
						}
					}
				})
			}
		}
	}
}

// forCounts calls for all small numbers of Pods.
func forCounts(most int, f func(old, fresh tally)) {
	var all []tally
	for total := range most {
		for specified := range total + 1 {
			for unavailable := range total - specified + 1 {
				all = append(all, tally{total: total, specified: specified, unavailable: unavailable})
			}
		}
	}
	for _, old := range all {
		for _, fresh := range all {
			f(old, fresh)
		}
	}
}

func sum(a, b tally) tally {
	return tally{total: a.total + b.total, specified: a.specified + b.specified, unavailable: a.unavailable + b.unavailable}
}
