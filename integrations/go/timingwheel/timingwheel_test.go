// SPDX-License-Identifier: MIT

package timingwheel

import (
	"errors"
	"io/fs"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// start returns a wheel that was started, and that must have no timers when the test ends.
func start(t *testing.T, tick time.Duration) *TimingWheel {
	tw := open(t, tick)
	tw.Start()
	return tw
}

func open(t *testing.T, tick time.Duration) *TimingWheel {
	t.Helper()
	tw, err := Open(tick, 20)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no /dev/htw")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tw.Stop()
		if n := pending(tw); n != 0 {
			t.Errorf("%d timers are left", n)
		}
	})
	return tw
}

func pending(tw *TimingWheel) uint32 {
	tw.mutex.Lock()
	defer tw.mutex.Unlock()
	return tw.table.used - tw.table.spare
}

// caught returns the error that f panics with.
func caught(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}

// On a machine without the device.
func TestRefused(t *testing.T) {
	if _, err := os.Stat(path); err == nil {
		t.Skip("there is a /dev/htw")
	}
	err := caught(func() { NewTimingWheel(time.Millisecond, 20) })
	const want = "timingwheel: open /dev/htw: no such file or directory (load the kernel module: modprobe htw)"
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != want {
		t.Errorf("panicked with %v", err)
	}
	if tw, err := Open(time.Millisecond, 20); tw != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("returned %v, %v", tw, err)
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		tick time.Duration
		size int64
		want string
	}{
		{0, 20, "a tick of 0s is shorter than 1ms"},
		{-time.Second, 20, "a tick of -1s is shorter than 1ms"},
		{time.Millisecond - 1, 20, "a tick of 999.999µs is shorter than 1ms"},
		{time.Millisecond, 0, "wheelSize is 0 and must be positive"},
		{time.Millisecond, -1, "wheelSize is -1 and must be positive"},
	} {
		err := caught(func() { NewTimingWheel(c.tick, c.size) })
		if err == nil || err.Error() != "timingwheel: "+c.want {
			t.Errorf("NewTimingWheel(%v, %d) panicked with %v", c.tick, c.size, err)
		}
	}
}

// Tests that need a program of their own run this one again, with the name of a function.
var children = map[string]func(){
	"refused": func() {
		_, err := Open(time.Millisecond, 20)
		os.Stdout.WriteString(err.Error())
		if !errors.Is(err, fs.ErrPermission) {
			os.Exit(1)
		}
	},
	"descriptors": func() {
		links, _ := filepath.Glob("/proc/self/fd/*")
		for _, link := range links {
			if target, _ := os.Readlink(link); target == path {
				os.Stdout.WriteString(target)
			}
		}
	},
	"panic": func() {
		tw := NewTimingWheel(time.Millisecond, 20)
		tw.Start()
		tw.AfterFunc(0, func() { panic("from a function") })
		select {}
	},
}

func TestMain(m *testing.M) {
	if child := children[os.Getenv("TIMINGWHEEL_TEST_CHILD")]; child != nil {
		child()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(name string) *exec.Cmd {
	command := exec.Command("/proc/self/exe")
	command.Env = []string{"TIMINGWHEEL_TEST_CHILD=" + name}
	return command
}

func TestPermission(t *testing.T) {
	open(t, time.Millisecond)
	if os.Getuid() != 0 {
		t.Skip("not root")
	}
	// A directory that it may not search is none that it can execute from.
	command := child("refused")
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	command.Path = filepath.Join("/tmp", "timingwheel-refused")
	defer os.Remove(command.Path)
	if err := os.WriteFile(command.Path, program, 0755); err != nil {
		t.Fatal(err)
	}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := command.CombinedOutput()
	const want = "timingwheel: open /dev/htw: permission denied (may be opened by members of the group htw)"
	if err != nil || string(out) != want {
		t.Errorf("%v: %s", err, out)
	}
}

func TestDescriptorIsNotInherited(t *testing.T) {
	open(t, time.Millisecond)
	out, err := child("descriptors").CombinedOutput()
	if err != nil || len(out) != 0 {
		t.Errorf("a program that was executed has %s (%v)", out, err)
	}
}

func TestPanicEndsTheProgram(t *testing.T) {
	open(t, time.Millisecond)
	out, err := child("panic").CombinedOutput()
	var status *exec.ExitError
	if !errors.As(err, &status) || status.ExitCode() != 2 || !strings.HasPrefix(string(out), "panic: from a function\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// Many timers of many goroutines: each is called once, and none is early.
func TestAfterFunc(t *testing.T) {
	for _, tick := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		t.Run(tick.String(), func(t *testing.T) {
			tw := start(t, tick)
			const goroutines, each = 16, 1000
			var calls [goroutines * each]int32
			var early int32
			var wait sync.WaitGroup

			wait.Add(len(calls))
			for g := 0; g < goroutines; g++ {
				go func(g int) {
					random := rand.New(rand.NewSource(int64(g)))
					for i := 0; i < each; i++ {
						i, d := g*each+i, time.Duration(random.Int63n(int64(time.Second)))
						began := time.Now()
						tw.AfterFunc(d, func() {
							if time.Since(began) < d {
								atomic.AddInt32(&early, 1)
							}
							atomic.AddInt32(&calls[i], 1)
							wait.Done()
						})
					}
				}(g)
			}
			wait.Wait()
			if early != 0 {
				t.Errorf("%d timers were early", early)
			}
			for i := range calls {
				if n := atomic.LoadInt32(&calls[i]); n != 1 {
					t.Errorf("timer %d was called %d times", i, n)
				}
			}
		})
	}
}

func TestDurations(t *testing.T) {
	tw := start(t, time.Millisecond)
	called := make(chan bool)
	for _, d := range []time.Duration{0, -1, math.MinInt64, 1} {
		tw.AfterFunc(d, func() { called <- true })
		<-called
	}
	for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, 100 * 365 * 24 * time.Hour} {
		timer := tw.AfterFunc(d, func() { t.Errorf("a timer of %v was called", d) })
		// By then it would have been, if the number had wrapped.
		tw.AfterFunc(5*time.Millisecond, func() { called <- true })
		<-called
		if !timer.Stop() {
			t.Errorf("a timer of %v could not be stopped", d)
		}
	}
}

func TestBeforeStart(t *testing.T) {
	tw := open(t, time.Millisecond)
	called := make(chan int, 2)
	// Due at once: it has expired.
	stopped := tw.AfterFunc(0, func() { called <- 1 })
	tw.AfterFunc(0, func() { called <- 2 })
	if !stopped.Stop() {
		t.Error("an expiration that was not read could not be dropped")
	}
	tw.Start()
	tw.Start()
	if got := <-called; got != 2 {
		t.Errorf("timer %d was called", got)
	}
	if stopped.Stop() {
		t.Error("a timer was stopped twice")
	}
}

func TestStop(t *testing.T) {
	tw := start(t, time.Millisecond)
	timer := tw.AfterFunc(time.Hour, func() { t.Error("a stopped timer was called") })
	if !timer.Stop() {
		t.Error("a pending timer could not be stopped")
	}
	if timer.Stop() {
		t.Error("a timer was stopped twice")
	}
	called := make(chan bool)
	timer = tw.AfterFunc(time.Millisecond, func() { called <- true })
	<-called
	if timer.Stop() {
		t.Error("a timer was stopped after its function was called")
	}
	if new(Timer).Stop() {
		t.Error("a timer was stopped that had not been started")
	}
}

func TestFunctionIsNil(t *testing.T) {
	tw := start(t, time.Millisecond)
	for _, f := range []func(){
		func() { tw.AfterFunc(0, nil) },
		func() { tw.ScheduleFunc(&every{}, nil) },
	} {
		if err := caught(f); err == nil || err.Error() != "timingwheel: the function is nil" {
			t.Errorf("panicked with %v", err)
		}
	}
}

// Timers that are stopped about when they expire: each is either called, or stopped.
func TestStopOrCall(t *testing.T) {
	tw := start(t, time.Millisecond)
	const goroutines, each = 16, 1500
	var called, stopped int32
	var wait sync.WaitGroup

	wait.Add(goroutines * each)
	for g := 0; g < goroutines; g++ {
		go func(g int) {
			random := rand.New(rand.NewSource(int64(g)))
			for i := 0; i < each; i++ {
				d := time.Duration(random.Int63n(int64(3 * time.Millisecond)))
				deadline := time.Now().Add(d)
				// A WaitGroup panics if a timer ends twice.
				timer := tw.AfterFunc(d, func() {
					atomic.AddInt32(&called, 1)
					wait.Done()
				})
				// Until some time about the tick at which it expires.
				for limit := deadline.Add(time.Duration(random.Int63n(int64(2 * time.Millisecond)))); time.Now().Before(limit); {
					runtime.Gosched()
				}
				if timer.Stop() {
					atomic.AddInt32(&stopped, 1)
					wait.Done()
				}
			}
		}(g)
	}
	wait.Wait()
	if called+stopped != goroutines*each || called == 0 || stopped == 0 {
		t.Errorf("of %d timers %d were called and %d stopped", goroutines*each, called, stopped)
	}
	t.Logf("%d called, %d stopped", called, stopped)
}

// Of many goroutines that stop a timer, at most one does.
func TestStopAtOnce(t *testing.T) {
	tw := start(t, time.Millisecond)
	for i := 0; i < 200; i++ {
		var ends int32
		var wait, call sync.WaitGroup

		call.Add(1)
		timer := tw.AfterFunc(time.Duration(i%3)*time.Millisecond, func() {
			atomic.AddInt32(&ends, 1)
			call.Done()
		})
		for j := 0; j < 8; j++ {
			wait.Add(1)
			go func() {
				defer wait.Done()
				if timer.Stop() {
					atomic.AddInt32(&ends, 1)
					call.Done()
				}
			}()
		}
		wait.Wait()
		call.Wait()
		if ends != 1 {
			t.Fatalf("timer %d ended %d times", i, ends)
		}
	}
}

// A plan that records the times it is asked with.
type intervals struct {
	next     []time.Duration
	asked    []time.Time
	returned []time.Time
}

func (s *intervals) Next(prev time.Time) time.Time {
	s.asked = append(s.asked, prev)
	if len(s.asked) > len(s.next) {
		return time.Time{}
	}
	next := prev.Add(s.next[len(s.asked)-1])
	s.returned = append(s.returned, next)
	return next
}

func TestScheduleFunc(t *testing.T) {
	tw := start(t, time.Millisecond)
	const ms = time.Millisecond
	// The third is due before the second has been called.
	s := &intervals{next: []time.Duration{ms, 20 * ms, -10 * ms, 30 * ms, 0, 15 * ms}}
	called := make(chan time.Time)
	timer := tw.ScheduleFunc(s, func() { called <- time.Now() })
	var calls []time.Time
	for range s.next {
		calls = append(calls, <-called)
	}
	// The last call's goroutine has asked before it called.
	if len(s.asked) != len(s.next)+1 {
		t.Fatalf("the plan was asked %d times", len(s.asked))
	}
	for i, at := range s.returned {
		if !s.asked[i+1].Equal(at) {
			t.Errorf("time %d: asked with %v instead of %v", i, s.asked[i+1], at)
		}
	}
	// Calls that overlap may come in either order; so many were never too early.
	for i, at := range calls {
		due := 0
		for _, planned := range s.returned {
			if !planned.After(at) {
				due++
			}
		}
		if due < i+1 {
			t.Errorf("call %d came when only %d were due", i+1, due)
		}
	}
	if timer.Stop() {
		t.Error("a plan that had ended was stopped")
	}
}

func TestScheduleFuncWithoutTimes(t *testing.T) {
	tw := start(t, time.Millisecond)
	timer := tw.ScheduleFunc(&intervals{}, func() { t.Error("called") })
	if timer != nil {
		t.Error("there is a timer")
	}
	if timer.Stop() {
		t.Error("no timer was stopped")
	}
}

// every counts how often it is asked.
type every struct {
	interval time.Duration
	asked    int32
}

func (s *every) Next(prev time.Time) time.Time {
	atomic.AddInt32(&s.asked, 1)
	return prev.Add(s.interval)
}

// One of many goroutines ends the plan, at whatever moment; at most one call is on its way then.
func TestScheduleFuncStop(t *testing.T) {
	tw := start(t, time.Millisecond)
	random := rand.New(rand.NewSource(1))
	fence := make(chan bool)
	for i := 0; i < 100; i++ {
		// Without an interval the plan is in the gap between call and arming most of the time.
		s := &every{interval: time.Duration(random.Int63n(2)) * time.Millisecond}
		var calls, stops, asked int32
		timer := tw.ScheduleFunc(s, func() { atomic.AddInt32(&calls, 1) })
		for limit := time.Duration(random.Int63n(int64(4 * time.Millisecond))); limit > 0; {
			began := time.Now()
			runtime.Gosched()
			limit -= time.Since(began)
		}
		var wait sync.WaitGroup
		for j := 0; j < 4; j++ {
			wait.Add(1)
			go func() {
				defer wait.Done()
				if timer.Stop() {
					atomic.AddInt32(&stops, 1)
					atomic.StoreInt32(&asked, atomic.LoadInt32(&s.asked))
				}
			}()
		}
		wait.Wait()
		if stops != 1 {
			t.Fatalf("plan %d was stopped %d times", i, stops)
		}
		tw.AfterFunc(3*time.Millisecond, func() { fence <- true })
		<-fence
		if late := atomic.LoadInt32(&s.asked) - asked; late > 1 {
			t.Fatalf("plan %d was asked %d times after it was stopped", i, late)
		}
	}
}

// A plan's function may stop it.
func TestScheduleFuncStopsItself(t *testing.T) {
	tw := start(t, time.Millisecond)
	timers := make(chan *Timer, 1)
	stopped := make(chan bool)
	timers <- tw.ScheduleFunc(&every{interval: 5 * time.Millisecond}, func() {
		select {
		case timer := <-timers:
			stopped <- timer.Stop()
		default:
			// The one that is stopped above, if that was slow.
		}
	})
	if !<-stopped {
		t.Error("its function could not stop it")
	}
}

// The wheel is stopped while timers are started, stopped and called: each ends once.
func TestStopOfTheWheel(t *testing.T) {
	for round := 0; round < 20; round++ {
		tw := open(t, time.Millisecond)
		const goroutines = 8
		var ended, begun int32
		var wait, timers sync.WaitGroup
		ready := make(chan bool, goroutines)

		tw.Start()
		for g := 0; g < goroutines; g++ {
			wait.Add(1)
			go func(g int) {
				defer wait.Done()
				var own []*Timer
				random := rand.New(rand.NewSource(int64(g)))
				for i := 0; i < 300; i++ {
					timers.Add(1)
					atomic.AddInt32(&begun, 1)
					own = append(own, tw.AfterFunc(time.Duration(random.Int63n(int64(20*time.Millisecond))), func() {
						atomic.AddInt32(&ended, 1)
						timers.Done()
					}))
					if i == 100 {
						ready <- true
					}
				}
				for _, timer := range own {
					if timer.Stop() {
						atomic.AddInt32(&ended, 1)
						timers.Done()
					}
				}
			}(g)
		}
		<-ready
		var stops sync.WaitGroup
		for i := 0; i < 2; i++ {
			stops.Add(1)
			go func() {
				tw.Stop()
				stops.Done()
			}()
		}
		stops.Wait()
		wait.Wait()
		timers.Wait()
		if ended != begun {
			t.Fatalf("%d timers were started, %d ended", begun, ended)
		}
	}
}

func TestStoppedWheel(t *testing.T) {
	tw := start(t, time.Millisecond)
	never := func() { t.Error("a timer of a stopped wheel was called") }
	timers := []*Timer{
		tw.AfterFunc(time.Hour, never),
		tw.ScheduleFunc(&every{interval: time.Hour}, never),
	}
	stopped := make(chan bool)
	// Its own functions may stop a wheel.
	tw.AfterFunc(0, func() {
		tw.Stop()
		stopped <- true
	})
	<-stopped
	tw.Stop()
	tw.Start()
	timers = append(timers, tw.AfterFunc(0, never), tw.ScheduleFunc(&every{}, never))
	for i, timer := range timers {
		if !timer.Stop() {
			t.Errorf("timer %d: not stopped", i)
		}
		if timer.Stop() {
			t.Errorf("timer %d: stopped twice", i)
		}
	}
}

func descriptors(t *testing.T) int {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// settle waits until there are no more than n goroutines; others may be about to end.
func settle(n int) {
	for runtime.NumGoroutine() > n {
		runtime.Gosched()
	}
}

// Neither descriptors nor goroutines are left, nor is there a goroutine for a pending timer.
func TestNothingIsLeft(t *testing.T) {
	start(t, time.Millisecond).Stop()
	files, goroutines := descriptors(t), runtime.NumGoroutine()
	for i := 0; i < 50; i++ {
		tw := open(t, time.Millisecond)
		if i%2 == 0 {
			tw.Start()
			tw.Start()
			settle(goroutines + 1)
		}
		timers := make([]*Timer, 1000)
		for j := range timers {
			timers[j] = tw.AfterFunc(time.Hour, func() {})
		}
		settle(goroutines + 1)
		tw.Stop()
		for _, timer := range timers {
			timer.Stop()
		}
		settle(goroutines)
	}
	if n := descriptors(t); n != files {
		t.Errorf("%d descriptors, %d before", n, files)
	}
}

// A wheel that is dropped without Stop and Start closes its descriptor when it is collected.
func TestDroppedWheel(t *testing.T) {
	start(t, time.Millisecond).Stop()
	files := descriptors(t)
	for i := 0; i < 10; i++ {
		if _, err := Open(time.Millisecond, 20); err != nil {
			t.Fatal(err)
		}
	}
	// The finalizers run some time after the collection.
	for descriptors(t) != files {
		runtime.GC()
	}
}

// The module's limits cannot be returned by AfterFunc.
func TestLimit(t *testing.T) {
	const limit = "/sys/module/htw/parameters/max_timers"
	open(t, time.Millisecond)
	before, err := os.ReadFile(limit)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(limit, []byte("10"), 0); err != nil {
		t.Skip(err)
	}
	defer os.WriteFile(limit, before, 0)
	tw := start(t, time.Millisecond)
	var timers []*Timer
	for i := 0; i < 10; i++ {
		timers = append(timers, tw.AfterFunc(time.Hour, func() {}))
	}
	for i := 0; i < 3; i++ {
		err := caught(func() { tw.AfterFunc(0, func() { t.Error("a refused timer was called") }) })
		if !errors.Is(err, syscall.ENOSPC) || !strings.HasSuffix(err.Error(), "(the limit is htw's max_timers)") {
			t.Errorf("panicked with %v", err)
		}
		err = caught(func() { tw.ScheduleFunc(&every{}, func() { t.Error("a refused plan was called") }) })
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("panicked with %v", err)
		}
	}
	if n := pending(tw); n != 10 {
		t.Errorf("%d timers are known", n)
	}
	for _, timer := range timers {
		timer.Stop()
	}
	called := make(chan bool)
	tw.AfterFunc(0, func() { called <- true })
	<-called
}
