// SPDX-License-Identifier: MIT

// Package timingwheel calls functions when their time has come, by the timing wheels of the
// kernel module htw. It has the interface of github.com/RussellLuo/timingwheel, and takes that
// package's place by a replace directive in go.mod.
//
// The timers are in the kernel, behind one open /dev/htw for each TimingWheel. Starting and
// stopping one takes the same time whether a thousand are pending or a million. No timer is
// early, and none is more than a tick late on a CPU that is free for it.
//
// Where /dev/htw cannot be opened there are no timers: NewTimingWheel panics with the reason, and
// Open returns it.
package timingwheel

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// TimingWheel is a set of timers. All methods may be called by several goroutines at a time.
type TimingWheel struct {
	slack uint64

	// Held for reading while the descriptor is used: its number may be another file's once it
	// is closed.
	open    sync.RWMutex
	device  *device
	started bool
	stopped bool
	reader  sync.WaitGroup

	// Guards the table, and what a plan's goroutines share.
	mutex sync.Mutex
	table table
}

// NewTimingWheel opens /dev/htw. Timers expire at most tick late, at the first tick of the module
// (1 ms by default) that is not before their time or, with a longer tick, at one that suits others
// as well. wheelSize must be positive and has no other meaning: the wheels are the module's.
//
// It panics with an error if the tick is shorter than 1 ms or than the module's, and where
// the device cannot be opened: without the module, or without permission. Open returns that error.
func NewTimingWheel(tick time.Duration, wheelSize int64) *TimingWheel {
	tw, err := Open(tick, wheelSize)
	if err != nil {
		panic(err)
	}
	return tw
}

// Open is NewTimingWheel, but returns an error. If the device cannot be opened, errors.Is says
// why: fs.ErrNotExist, fs.ErrPermission, or a syscall.Errno.
func Open(tick time.Duration, wheelSize int64) (*TimingWheel, error) {
	if tick < time.Millisecond {
		return nil, fmt.Errorf("timingwheel: a tick of %v is shorter than 1ms", tick)
	}
	if wheelSize <= 0 {
		return nil, fmt.Errorf("timingwheel: wheelSize is %d and must be positive", wheelSize)
	}
	d, err := openDevice()
	if err != nil {
		return nil, fmt.Errorf("timingwheel: %w", err)
	}
	if tick < d.tick {
		d.close()
		return nil, fmt.Errorf("timingwheel: a tick of %v is shorter than htw's of %v (see its tick_us)",
			tick, d.tick)
	}
	return &TimingWheel{device: d, slack: uint64(tick - d.tick)}, nil
}

// Start lets expired timers call their functions, those that expired before included. Without
// effect if the wheel was started or stopped before.
func (tw *TimingWheel) Start() {
	tw.open.Lock()
	defer tw.open.Unlock()
	if tw.started || tw.stopped {
		return
	}
	tw.started = true
	tw.reader.Add(1)
	go tw.read()
}

// Stop ends all timers and closes the descriptor. Once it returns, no further function is called;
// those that are running go on, and Stop does not wait for them. Timers that are started
// afterwards never expire. Stopping a wheel again has no effect.
func (tw *TimingWheel) Stop() {
	tw.open.Lock()
	if !tw.stopped {
		tw.stopped = true
		// Ends the reader's wait.
		tw.device.close()
	}
	tw.open.Unlock()
	tw.reader.Wait()
}

// AfterFunc calls f in its own goroutine after the duration d: at once if d is not positive. The
// timer's Stop prevents the call.
//
// It panics with an error if the kernel refuses the timer: at the limits of the module
// (max_timers, max_user_timers) or of the cgroup's memory.
func (tw *TimingWheel) AfterFunc(d time.Duration, f func()) *Timer {
	t := &Timer{wheel: tw, f: f}
	tw.add(t, d, 0)
	return t
}

// Scheduler is a plan: when a function is to be called.
type Scheduler interface {
	// Next returns the time of the call after prev, or the zero time to end the plan. It is
	// called first with the current time, and then with each time that it returned.
	Next(prev time.Time) time.Time
}

// ScheduleFunc calls f in its own goroutine at each of the times that s returns. It returns nil
// if there is no first one. Before each call of f, s.Next is called in the same goroutine, and the
// timer is armed for the time it returns, at once if that has passed; so calls overlap if f takes
// longer than that.
//
// The timer's Stop ends the plan. There is no time between two calls at which it fails to.
//
// Times with a monotonic clock reading, as prev.Add() has, are exact whatever happens to the
// system's clock. For others the remaining time is computed when the timer is armed; setting the
// clock later does not move it.
//
// It panics as AfterFunc does.
func (tw *TimingWheel) ScheduleFunc(s Scheduler, f func()) *Timer {
	next := s.Next(time.Now().UTC())
	if next.IsZero() {
		return nil
	}
	t := &Timer{wheel: tw, f: f, plan: &plan{scheduler: s, next: next}}
	tw.add(t, time.Until(next), flagKeep)
	return t
}

// Timer is a call, or the calls of a plan, to come.
type Timer struct {
	wheel *TimingWheel
	f     func()
	plan  *plan
	// The kernel's name for it; zero if the wheel had been stopped. For Stop, which cannot be
	// called before the timer has been returned.
	id  uint64
	key key
}

type plan struct {
	scheduler Scheduler
	next      time.Time
}

// Stop prevents the call. It returns true if it did so: the function will not be called. It returns
// false if the function has been called, or is about to be in another goroutine, or if the timer
// had been stopped before. Each timer of AfterFunc ends in one of two ways: its function is called
// once, or one Stop returns true.
//
// For a timer of ScheduleFunc, true means that this call ended the plan. A call whose time has come
// may still be about to begin.
//
// Timers of a wheel that was stopped have not been called, and Stop returns true for each once.
func (t *Timer) Stop() bool {
	if t == nil || t.wheel == nil {
		// A plan without a call, or a timer that nobody has started.
		return false
	}
	tw := t.wheel
	tw.open.RLock()
	defer tw.open.RUnlock()
	if !tw.stopped {
		// An expiration that was not read is dropped.
		err := tw.device.cancel(t.id)
		if errors.Is(err, errUnknown) {
			return false
		}
		if err != nil {
			panic(fmt.Errorf("timingwheel: cannot stop a timer: %w", err))
		}
	}
	return tw.forget(t.key)
}

func (tw *TimingWheel) add(t *Timer, d time.Duration, flags uint32) {
	if t.f == nil {
		panic(errors.New("timingwheel: the function is nil"))
	}
	// The timer may expire before its id is known here, so events bring the key.
	tw.mutex.Lock()
	t.key = tw.table.put(t)
	tw.mutex.Unlock()

	tw.open.RLock()
	defer tw.open.RUnlock()
	if tw.stopped {
		return
	}
	id, err := tw.device.add(nanoseconds(d), tw.slack, uint64(t.key), flags)
	if err != nil {
		tw.forget(t.key)
		panic(fmt.Errorf("timingwheel: cannot start a timer: %w", err))
	}
	t.id = id
}

// forget frees the timer's entry, and returns false if it had been freed.
func (tw *TimingWheel) forget(k key) bool {
	tw.mutex.Lock()
	defer tw.mutex.Unlock()
	if tw.table.get(k) == nil {
		return false
	}
	tw.table.drop(k)
	return true
}

// read calls the functions of timers that expire, until the device is closed.
func (tw *TimingWheel) read() {
	defer tw.reader.Done()
	for {
		events, err := tw.device.read()
		if errors.Is(err, errClosed) {
			return
		}
		if err != nil {
			panic(fmt.Errorf("timingwheel: cannot read expirations: %w", err))
		}
		for i := range events {
			tw.expire(&events[i])
		}
	}
}

// expire starts the goroutine of an expired timer.
func (tw *TimingWheel) expire(ev *event) {
	k := key(ev.cookie)
	tw.mutex.Lock()
	defer tw.mutex.Unlock()
	t := tw.table.get(k)
	if t == nil {
		// A plan that was stopped after its event had been read.
		return
	}
	if t.plan == nil {
		tw.table.drop(k)
		go t.f()
		return
	}
	// With the id of the event: ScheduleFunc may not have stored it yet.
	go t.proceed(ev.id, t.plan.next)
}

// proceed arms the timer of a plan for the call after prev, and makes this one.
func (t *Timer) proceed(id uint64, prev time.Time) {
	next := t.plan.scheduler.Next(prev)
	t.wheel.rearm(t, id, next)
	t.f()
}

func (tw *TimingWheel) rearm(t *Timer, id uint64, next time.Time) {
	tw.open.RLock()
	defer tw.open.RUnlock()
	if tw.stopped {
		return
	}
	if next.IsZero() {
		if err := tw.device.cancel(id); err == nil {
			tw.forget(t.key)
		} else if !errors.Is(err, errUnknown) {
			panic(fmt.Errorf("timingwheel: cannot end a plan: %w", err))
		}
		return
	}
	// Before the timer can expire.
	tw.mutex.Lock()
	t.plan.next = next
	tw.mutex.Unlock()
	err := tw.device.rearm(id, nanoseconds(time.Until(next)))
	if err != nil && !errors.Is(err, errUnknown) {
		panic(fmt.Errorf("timingwheel: cannot go on with a plan: %w", err))
	}
}

func nanoseconds(d time.Duration) uint64 {
	if d < 0 {
		return 0
	}
	return uint64(d)
}
