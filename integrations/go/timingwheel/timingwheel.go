// SPDX-License-Identifier: MIT

// Package timingwheel calls functions when their time has come, by the timing wheels of htw. It has
// the interface of github.com/RussellLuo/timingwheel, and takes that package's place by a replace
// directive in go.mod.
//
// The timers are in the kernel, behind one open /dev/htw for each TimingWheel; where there is no
// such device they are in the process, by libhtw, if the program is built with cgo. The build tag
// nolibhtw leaves libhtw out. Starting, moving and stopping one takes the same time whether a
// thousand are pending or a million. No timer is early. None is more than a tick late, plus the
// time until a CPU, and the Go scheduler, run what is due.
package timingwheel

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// TimingWheel is a set of timers; NewTimingWheel, Open and OpenBackend make one. All methods may be
// called by several goroutines at a time.
type TimingWheel struct {
	slack uint64
	kind  Backend
	gate  gate

	// Held for reading while the backend is used: it is gone once the wheel is stopped.
	open    sync.RWMutex
	backend backend
	started bool
	stopped bool
	reader  sync.WaitGroup

	// Guards the table.
	mutex sync.Mutex
	table table
}

var (
	errNoFunction = errors.New("timingwheel: the function is nil")
	errNotOpened  = errors.New("this wheel is none that NewTimingWheel or Open has returned")
)

// Exact is a tick for timers that must not be late: 10 us, the finest that needs no privilege.
const Exact = 10 * time.Microsecond

// NewTimingWheel returns a wheel whose timers expire at most tick late, at the first tick of htw (1
// ms by default) that is not before their time or, with a longer tick, at one that suits others as
// well. wheelSize must be positive and has no other meaning: the wheels are htw's.
//
// The tick is Exact, or at least 1 ms and htw's. NewTimingWheel panics with an error if it is
// neither, and if timers can be neither in the kernel nor in the process. Open returns that error.
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
	return OpenBackend(Any, tick, wheelSize)
}

// OpenBackend is Open for a program that decides where its timers are. With Any they are in the
// process if the device does not exist, may not be opened, or is of a module that is too old; other
// errors are returned.
func OpenBackend(b Backend, tick time.Duration, wheelSize int64) (*TimingWheel, error) {
	if tick < time.Millisecond && tick != Exact {
		return nil, fmt.Errorf("timingwheel: a tick of %v is shorter than 1ms", tick)
	}
	if wheelSize <= 0 {
		return nil, fmt.Errorf("timingwheel: wheelSize is %d and must be positive", wheelSize)
	}
	backend, htw, kind, err := openBackend(b, tick == Exact)
	if err != nil {
		return nil, fmt.Errorf("timingwheel: %w", err)
	}
	if tick < htw {
		backend.close()
		return nil, fmt.Errorf("timingwheel: a tick of %v is shorter than htw's of %v (see its tick_us)",
			tick, htw)
	}
	return &TimingWheel{
		slack:   uint64(tick - htw),
		kind:    kind,
		gate:    gate{idle: make(chan struct{})},
		backend: backend,
	}, nil
}

// Backend returns where the wheel's timers are: Device or Process.
func (tw *TimingWheel) Backend() Backend {
	return tw.kind
}

// Start lets expired timers call their functions, those that expired before included. Without
// effect if the wheel was started or stopped before.
func (tw *TimingWheel) Start() {
	tw.open.Lock()
	defer tw.open.Unlock()
	if tw.started || tw.stopped {
		return
	}
	if tw.backend == nil {
		panic(fmt.Errorf("timingwheel: cannot start a wheel: %w", errNotOpened))
	}
	tw.started = true
	tw.reader.Add(1)
	go tw.read()
}

// A function that may begin has not yet: its goroutine may be kept from the CPU in between, and
// nobody can tell it from one that has. So Stop waits for this long, unless all return before.
const beginning = 100 * time.Millisecond

// Stop ends all timers, and frees what the wheel has in the kernel or by libhtw. Once it returns,
// no function begins any more, and it asks no Scheduler; those that are running go on. Stop waits
// at most 100 ms for them, for the sake of those that were about to begin, and may be called by
// one.
//
// Timers that are started afterwards never expire. Stopping a wheel again has no effect.
func (tw *TimingWheel) Stop() {
	if tw.backend == nil {
		return
	}
	tw.open.Lock()
	if !tw.stopped {
		tw.stopped = true
		tw.gate.close()
		// Ends the reader's wait.
		tw.backend.close()
		tw.mutex.Lock()
		tw.table = table{}
		tw.mutex.Unlock()
	}
	tw.open.Unlock()
	tw.reader.Wait()
	tw.gate.wait(beginning)
}

// AfterFunc calls f in its own goroutine after the duration d: at once if d is not positive. The
// timer's Stop prevents the call, its Reset moves it.
//
// It panics with an error where TryAfterFunc returns one.
func (tw *TimingWheel) AfterFunc(d time.Duration, f func()) *Timer {
	t, err := tw.TryAfterFunc(d, f)
	if err != nil {
		panic(err)
	}
	return t
}

// TryAfterFunc is AfterFunc, but returns an error: if f is nil; if the kernel refuses the timer at
// the limits of the module (max_timers, max_user_timers: syscall.ENOSPC, syscall.EDQUOT) or of the
// cgroup's memory (syscall.ENOMEM); in the process, beyond 2^26 timers or without memory.
func (tw *TimingWheel) TryAfterFunc(d time.Duration, f func()) (*Timer, error) {
	if f == nil {
		return nil, errNoFunction
	}
	return tw.add(&Timer{wheel: tw, f: f}, d)
}

// Scheduler is a plan: when a function is to be called.
type Scheduler interface {
	// Next returns the time of the call after prev, or the zero time to end the plan. It is
	// called first with the current time, and then with each time that it returned, or, after a
	// Reset of the plan's timer, with the time that this moved it to.
	//
	// One goroutine at a time calls the Next of a plan, and each sees what the one before did:
	// so it needs no lock for what it alone uses. Two plans with the same Scheduler may call it
	// at the same time. Next may call methods of the timer and of the wheel.
	Next(prev time.Time) time.Time
}

// ScheduleFunc calls f in its own goroutine at the times that s returns. It returns nil if there is
// no first one. Before each call of f, s.Next is called in the same goroutine, and the timer is
// started for the time it returns; so calls overlap if f takes longer than that.
//
// A program that was too late for several times calls f once for all of them: before that call, s
// is asked until it returns one that is still to come. A time that is not later than the one before
// gets a call of its own, at once.
//
// The timer's Stop ends the plan. There is no time between two calls at which it fails to.
//
// Times with a monotonic clock reading, as prev.Add() has, are exact whatever happens to the
// system's clock. For others the remaining time is computed when the timer is started; setting the
// clock later does not move it.
//
// It panics with an error where TryScheduleFunc returns one.
func (tw *TimingWheel) ScheduleFunc(s Scheduler, f func()) *Timer {
	t, err := tw.TryScheduleFunc(s, f)
	if err != nil {
		panic(err)
	}
	return t
}

// TryScheduleFunc is ScheduleFunc, but returns an error: if s or f is nil, and as TryAfterFunc.
// Without a first time, it returns nil and no error.
func (tw *TimingWheel) TryScheduleFunc(s Scheduler, f func()) (*Timer, error) {
	if s == nil {
		return nil, errors.New("timingwheel: the scheduler is nil")
	}
	if f == nil {
		return nil, errNoFunction
	}
	next := s.Next(time.Now().UTC())
	if next.IsZero() {
		return nil, nil
	}
	return tw.add(&Timer{wheel: tw, f: f, plan: &plan{scheduler: s, next: next}}, time.Until(next))
}

func (tw *TimingWheel) add(t *Timer, d time.Duration) (*Timer, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err := t.arm(d); err != nil {
		return nil, fmt.Errorf("timingwheel: cannot start a timer: %w", err)
	}
	return t, nil
}

// read has timers that expire call their functions, until the backend is closed.
func (tw *TimingWheel) read() {
	defer tw.reader.Done()
	for {
		events, err := tw.backend.read()
		if errors.Is(err, errClosed) {
			return
		}
		if err != nil {
			// As if somebody else has closed the descriptor. No function would be called
			// any more, and nobody would learn of it.
			panic(fmt.Errorf("timingwheel: cannot read expirations: %w", err))
		}
		for i := range events {
			tw.expire(&events[i])
		}
	}
}

// expire starts the goroutine of an expired timer. An event of no timer is ignored: one of a timer
// that was stopped or moved after the event had been read, or that another process has started.
func (tw *TimingWheel) expire(ev *event) {
	tw.mutex.Lock()
	t := tw.table.find(ev.cookie)
	tw.mutex.Unlock()
	if t != nil && t.expire(ev.id) {
		go t.run()
	}
}

// drop frees a timer's entry.
func (tw *TimingWheel) drop(index uint32, t *Timer) {
	tw.mutex.Lock()
	defer tw.mutex.Unlock()
	tw.table.drop(index, t)
}

func nanoseconds(d time.Duration) uint64 {
	if d < 0 {
		return 0
	}
	return uint64(d)
}
