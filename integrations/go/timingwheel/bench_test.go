// SPDX-License-Identifier: MIT

package timingwheel

import (
	"fmt"
	"math/rand"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Beside so many timers that are pending.
var crowds = []int{0, 100000}

// beside measures f with a wheel of the flag's backend, and crowds in it that do not expire.
func beside(b *testing.B, f func(b *testing.B, tw *TimingWheel)) {
	for _, n := range crowds {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tw, err := OpenBackend(where(b), time.Millisecond, 20)
			if err != nil {
				b.Fatal(err)
			}
			tw.Start()
			defer tw.Stop()
			random := rand.New(rand.NewSource(1))
			for i := 0; i < n; i++ {
				tw.AfterFunc(time.Hour+time.Duration(random.Int63n(int64(time.Hour))), func() {})
			}
			runtime.GC()
			b.ReportAllocs()
			b.ResetTimer()
			f(b, tw)
			b.StopTimer()
		})
	}
}

func BenchmarkStart(b *testing.B) {
	beside(b, func(b *testing.B, tw *TimingWheel) {
		for i := 0; i < b.N; i++ {
			tw.AfterFunc(time.Hour+time.Duration(i)*1000, func() {})
		}
	})
}

func BenchmarkStartAndStop(b *testing.B) {
	beside(b, func(b *testing.B, tw *TimingWheel) {
		for i := 0; i < b.N; i++ {
			tw.AfterFunc(time.Hour, func() {}).Stop()
		}
	})
}

func BenchmarkReset(b *testing.B) {
	beside(b, func(b *testing.B, tw *TimingWheel) {
		timer := tw.AfterFunc(time.Hour, func() {})
		for i := 0; i < b.N; i++ {
			timer.Reset(time.Hour + time.Duration(i))
		}
	})
}

// What Reset saves.
func BenchmarkStopAndAfterFunc(b *testing.B) {
	beside(b, func(b *testing.B, tw *TimingWheel) {
		timer := tw.AfterFunc(time.Hour, func() {})
		for i := 0; i < b.N; i++ {
			timer.Stop()
			timer = tw.AfterFunc(time.Hour+time.Duration(i), func() {})
		}
	})
}

func BenchmarkStartAndStopInParallel(b *testing.B) {
	beside(b, func(b *testing.B, tw *TimingWheel) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				tw.AfterFunc(time.Hour, func() {}).Stop()
			}
		})
	})
}

// From the start of a timer that is due at once to its call.
func BenchmarkCall(b *testing.B) {
	beside(b, func(b *testing.B, tw *TimingWheel) {
		var wait sync.WaitGroup
		wait.Add(b.N)
		for i := 0; i < b.N; i++ {
			tw.AfterFunc(0, wait.Done)
		}
		wait.Wait()
	})
}

// Go's own, for comparison.
func BenchmarkTimeStartAndStop(b *testing.B) {
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		time.AfterFunc(time.Hour, func() {}).Stop()
	}
}

func BenchmarkTimeReset(b *testing.B) {
	b.ReportAllocs()
	timer := time.AfterFunc(time.Hour, func() {})
	for i := 0; i < b.N; i++ {
		timer.Reset(time.Hour + time.Duration(i))
	}
}
