// SPDX-License-Identifier: MIT

// In the package itself: where it stands for the original, its own name would be another module's.

package timingwheel

import (
	"fmt"
	"time"
)

// In the kernel if there is a /dev/htw, else in the process.
func Example() {
	tw := NewTimingWheel(time.Millisecond, 20)
	tw.Start()
	defer tw.Stop()

	called := make(chan bool)
	tw.AfterFunc(10*time.Millisecond, func() {
		fmt.Println("called")
		called <- true
	})
	<-called
	// Output: called
}

// A connection's timeout: started, put off at each message, stopped when the peer closes.
func ExampleTimer_Reset() {
	tw := NewTimingWheel(time.Millisecond, 20)
	tw.Start()
	defer tw.Stop()

	timeout := tw.AfterFunc(30*time.Second, func() { fmt.Println("the peer is silent") })
	for i := 0; i < 3; i++ {
		fmt.Println("put off:", timeout.Reset(30*time.Second))
	}
	fmt.Println("stopped in time:", timeout.Stop())
	// Output:
	// put off: true
	// put off: true
	// put off: true
	// stopped in time: true
}

func ExampleTimer_Stop() {
	tw := NewTimingWheel(time.Millisecond, 20)
	tw.Start()
	defer tw.Stop()

	timer := tw.AfterFunc(time.Hour, func() { fmt.Println("not called") })
	fmt.Println(timer.Stop(), timer.Stop())
	// Output: true false
}

// A program that looks why it cannot have timers in the kernel.
func ExampleOpenBackend() {
	tw, err := OpenBackend(Device, time.Millisecond, 20)
	if err != nil {
		fmt.Println("no timers in the kernel:", err)
		tw, err = OpenBackend(Any, time.Millisecond, 20)
	}
	if err != nil {
		fmt.Println("no timers:", err)
		return
	}
	defer tw.Stop()
	fmt.Println("the timers are in the", tw.Backend())
}

func ExampleTimingWheel_TryAfterFunc() {
	tw := NewTimingWheel(time.Millisecond, 20)
	tw.Start()
	defer tw.Stop()

	timer, err := tw.TryAfterFunc(time.Minute, func() { fmt.Println("too late") })
	if err != nil {
		// As at the limit of timers: the program can refuse the connection.
		fmt.Println("no timer:", err)
		return
	}
	fmt.Println("stopped in time:", timer.Stop())
	// Output: stopped in time: true
}

// interval is a plan with a fixed interval.
type interval time.Duration

func (i interval) Next(prev time.Time) time.Time { return prev.Add(time.Duration(i)) }

func ExampleTimingWheel_ScheduleFunc() {
	tw := NewTimingWheel(time.Millisecond, 20)
	tw.Start()
	defer tw.Stop()

	called := make(chan bool)
	timer := tw.ScheduleFunc(interval(20*time.Millisecond), func() { called <- true })
	for i := 1; i <= 3; i++ {
		<-called
		fmt.Println("call", i)
	}
	go func() {
		for range called {
			// One may be on its way.
		}
	}()
	fmt.Println("stopped:", timer.Stop())
	// Output:
	// call 1
	// call 2
	// call 3
	// stopped: true
}
