// SPDX-License-Identifier: MIT

package timingwheel

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// state of a timer
type state uint8

const (
	// It has been stopped, or its function called, or its plan has ended.
	ended state = iota
	// It is waiting for its time, or its wheel has been stopped.
	armed
	// Its time has come, and its goroutine has been started.
	due
	// Its goroutine is asking the plan for the next time.
	asking
)

// Timer is a call, or the calls of a plan, to come.
type Timer struct {
	wheel *TimingWheel
	f     func()
	plan  *plan

	// Guards the fields below, and those of the plan that change. Held while the backend starts or moves the timer,
	// so that an event that comes at once waits for the id.
	mutex sync.Mutex
	// The backend's name for it, zero if there is none. A plan's is kept until the plan ends.
	id    uint64
	index uint32 // in the table, with an id
	state state
}

type plan struct {
	scheduler Scheduler
	next      time.Time
	// Next is running: nobody else calls it until it returns.
	asked bool
}

// Stop prevents the call. It returns true if it did so: the function will not be called. It returns
// false if the function has been called, or the timer had been stopped before. Each timer of
// AfterFunc ends in one of two ways: its function is called once, or one Stop returns true.
//
// For a timer of ScheduleFunc, true means that this call ended the plan. A call whose time has come
// may still be about to begin, and a Next that is running goes on until it returns.
//
// Timers of a wheel that was stopped have not been called, and Stop returns true for each once.
func (t *Timer) Stop() bool {
	if t == nil || t.wheel == nil {
		// A plan without a call, or a timer that nobody has started.
		return false
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.state == ended {
		return false
	}
	t.end()
	return true
}

// Reset has the function called after the duration d from now, and not when it would have been. It
// returns true if it had not been called or stopped before: then it is called once. If it returns
// false, the timer was started again, and the function may be running.
//
// The plan of a timer of ScheduleFunc goes on from there: its Next is asked with the new time. If
// Next is running, what it returns does not count, and the call before which it was asked is not
// made. A call whose time comes before Next has returned is made after that.
//
// It panics with an error where TryReset returns one.
func (t *Timer) Reset(d time.Duration) bool {
	active, err := t.TryReset(d)
	if err != nil {
		panic(err)
	}
	return active
}

// TryReset is Reset, but returns an error: for a timer that nobody has started, or as TryAfterFunc.
// A timer of AfterFunc that is waiting for its time can always be moved. After an error the timer
// is as it was.
func (t *Timer) TryReset(d time.Duration) (bool, error) {
	if t == nil || t.wheel == nil {
		return false, errors.New("timingwheel: Reset of a timer that was not started")
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	active := t.state != ended
	move := t.arm
	if t.plan != nil && t.state == armed {
		move = t.armAnew
	}
	if err := move(d); err != nil {
		return active, fmt.Errorf("timingwheel: cannot move a timer: %w", err)
	}
	if t.plan != nil {
		t.plan.next = time.Now().Add(time.Duration(nanoseconds(d)))
	}
	return active, nil
}

// arm starts or moves the timer. After an error it is as it was. The mutex is held.
func (t *Timer) arm(d time.Duration) error {
	tw := t.wheel
	tw.open.RLock()
	defer tw.open.RUnlock()
	if tw.stopped {
		t.state = armed
		return nil
	}
	if tw.backend == nil {
		return errNotOpened
	}
	if t.id != 0 {
		err := tw.backend.rearm(t.id, nanoseconds(d))
		if err == nil {
			t.state = armed
		}
		if err != errUnknown {
			return err
		}
		// Its event has been read, or another process has ended it. With another id, such
		// an event is ignored.
	}
	return t.start(d)
}

// armAnew does so with another id, in place of one that is kept and of which an event may have been
// read already.
func (t *Timer) armAnew(d time.Duration) error {
	tw := t.wheel
	tw.open.RLock()
	defer tw.open.RUnlock()
	if tw.stopped {
		return nil
	}
	id := t.id
	if err := t.start(d); err != nil {
		return err
	}
	tw.backend.cancel(id)
	return nil
}

// start has the backend start a timer. The mutex is held, and the wheel is open.
func (t *Timer) start(d time.Duration) error {
	tw := t.wheel
	index := t.index
	if t.id == 0 {
		tw.mutex.Lock()
		index = tw.table.put(t)
		tw.mutex.Unlock()
	}
	var flags uint32
	if t.plan != nil {
		flags = flagKeep
	}
	id, err := tw.backend.add(nanoseconds(d), tw.slack, uint64(index), flags)
	if err != nil {
		if t.id == 0 {
			tw.drop(index, t)
		}
		return err
	}
	t.id, t.index, t.state = id, index, armed
	return nil
}

// end makes sure that it does not expire any more. The mutex is held.
func (t *Timer) end() {
	tw := t.wheel
	tw.open.RLock()
	defer tw.open.RUnlock()
	if t.id != 0 && !tw.stopped {
		tw.backend.cancel(t.id)
		tw.drop(t.index, t)
	}
	t.id, t.state = 0, ended
}

// expire says whether an event with this id is its own.
func (t *Timer) expire(id uint64) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.id != id || t.state != armed {
		return false
	}
	t.state = due
	if t.plan == nil {
		t.id = 0
		t.wheel.drop(t.index, t)
	}
	return true
}

// run makes the call, unless the timer or the wheel has been stopped meanwhile.
func (t *Timer) run() {
	if !t.begin() {
		return
	}
	defer t.wheel.gate.leave()
	if t.plan == nil || t.proceed() {
		t.f()
	}
}

func (t *Timer) begin() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.state != due || (t.plan != nil && t.plan.asked) || !t.wheel.gate.enter() {
		return false
	}
	t.state = ended
	if t.plan != nil {
		t.state = asking
	}
	return true
}

// proceed starts the timer of a plan for the next call, and says whether to make this one: not if
// the plan was stopped or moved meanwhile, or the wheel stopped.
func (t *Timer) proceed() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	next := t.following()
	if !t.goesOn() {
		return false
	}
	if next.IsZero() {
		t.end()
		return true
	}
	t.plan.next = next
	if err := t.arm(time.Until(next)); err != nil {
		// A timer that is kept needs nothing for that.
		panic(fmt.Errorf("timingwheel: cannot go on with a plan: %w", err))
	}
	return true
}

// following asks the plan for its next time; if that has passed, for the first that has not. The
// mutex is held, but not while Next runs.
func (t *Timer) following() time.Time {
	now := time.Now()
	prev := t.plan.next
	next := t.ask(prev)
	for next.After(prev) && !next.After(now) && t.goesOn() {
		prev, next = next, t.ask(next)
	}
	return next
}

// ask calls Next without the mutex, which is held before and after. If the plan is moved meanwhile,
// and expires again, that call waits for this one: begin refuses it, and it is made up for here.
func (t *Timer) ask(prev time.Time) time.Time {
	t.plan.asked = true
	t.mutex.Unlock()
	// Also if Next ends its goroutine.
	defer func() {
		t.mutex.Lock()
		t.plan.asked = false
		if t.state == due {
			go t.run()
		}
	}()
	return t.plan.scheduler.Next(prev)
}

// goesOn says whether what the plan is being asked is still wanted. The mutex is held.
func (t *Timer) goesOn() bool {
	return t.state == asking && !t.wheel.gate.closed()
}
