// SPDX-License-Identifier: MIT

package timingwheel

import (
	"math"
	"sync/atomic"
	"time"
)

// gate counts the functions that are running, and lets no more begin once it is closed.
type gate struct {
	// How many are running; negative, by math.MinInt64 less, once it is closed.
	running atomic.Int64
	// Closed when the gate is, and none is running any more.
	idle chan struct{}
}

// enter says whether a function may begin. If so, leave follows it.
func (g *gate) enter() bool {
	for {
		n := g.running.Load()
		if n < 0 {
			return false
		}
		if g.running.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *gate) leave() {
	if g.running.Add(-1) == math.MinInt64 {
		close(g.idle)
	}
}

// close is called once.
func (g *gate) close() {
	if g.running.Add(math.MinInt64) == math.MinInt64 {
		close(g.idle)
	}
}

func (g *gate) closed() bool {
	return g.running.Load() < 0
}

// wait returns when nothing is running, but after d at the latest.
func (g *gate) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-g.idle:
	case <-timer.C:
	}
}
