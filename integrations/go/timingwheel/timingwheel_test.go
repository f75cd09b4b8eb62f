// SPDX-License-Identifier: MIT

package timingwheel

import (
	"errors"
	"flag"
	"io/fs"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var backendFlag = flag.String("backend", "any", "where the timers are: device, process, or any")

// where is the flag's backend.
func where(t testing.TB) Backend {
	for _, b := range []Backend{Any, Device, Process} {
		if b.String() == *backendFlag {
			return b
		}
	}
	t.Fatalf("no backend %q", *backendFlag)
	return Any
}

// start returns a wheel that was started, and that must have no timers when the test ends.
func start(t testing.TB, tick time.Duration) *TimingWheel {
	tw := open(t, tick)
	tw.Start()
	return tw
}

func open(t testing.TB, tick time.Duration) *TimingWheel {
	t.Helper()
	tw, err := OpenBackend(where(t), tick, 20)
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
	return tw.table.count
}

// caught returns the error that f panics with.
func caught(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}

// without has the tests' process find no usable device at this path.
func without(t *testing.T, name string) {
	before := path
	t.Cleanup(func() { path = before })
	path = name
}

// The program may not open the device, or there is none, or it is something else.
func TestRefused(t *testing.T) {
	directory := t.TempDir()
	private := filepath.Join(directory, "private")
	if err := os.WriteFile(private, nil, 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, want string
		is         error
		absent     bool
	}{
		{filepath.Join(directory, "none"), "no such file or directory (load the kernel module: modprobe htw)",
			fs.ErrNotExist, true},
		{private, "is not a device of htw: inappropriate ioctl for device", syscall.ENOTTY, false},
		{directory, "is a directory", syscall.EISDIR, false},
	} {
		without(t, c.path)
		check := func(what string, err error) {
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "timingwheel: ") {
				t.Errorf("%s: %s: %v", c.path, what, err)
			}
		}
		tw, err := OpenBackend(Device, time.Millisecond, 20)
		if tw != nil {
			t.Fatalf("%s: opened", c.path)
		}
		check("OpenBackend", err)
		if c.absent && hasProcess {
			// The process takes its place.
			tw := NewTimingWheel(time.Millisecond, 20)
			if tw.Backend() != Process {
				t.Errorf("%s: the timers are in the %v", c.path, tw.Backend())
			}
			tw.Stop()
			continue
		}
		check("NewTimingWheel", caught(func() { NewTimingWheel(time.Millisecond, 20) }))
		_, err = Open(time.Millisecond, 20)
		check("Open", err)
		if c.absent && !strings.HasSuffix(err.Error(), "built without cgo or with the tag nolibhtw, else its timers could be in the process") {
			t.Errorf("%s: nothing is said of cgo: %v", c.path, err)
		}
	}
	if !hasProcess {
		if _, err := OpenBackend(Process, time.Millisecond, 20); err == nil || !strings.Contains(err.Error(), "cgo") {
			t.Errorf("the process without cgo: %v", err)
		}
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
		{Exact - 1, 20, "a tick of 9.999µs is shorter than 1ms"},
		{Exact + 1, 20, "a tick of 10.001µs is shorter than 1ms"},
		{time.Millisecond, 0, "wheelSize is 0 and must be positive"},
		{time.Millisecond, -1, "wheelSize is -1 and must be positive"},
	} {
		err := caught(func() { NewTimingWheel(c.tick, c.size) })
		if err == nil || err.Error() != "timingwheel: "+c.want {
			t.Errorf("NewTimingWheel(%v, %d) panicked with %v", c.tick, c.size, err)
		}
	}
	for _, b := range []Backend{-1, 3, math.MaxInt32} {
		if _, err := OpenBackend(b, time.Millisecond, 20); err == nil {
			t.Errorf("%v was opened", b)
		}
	}
}

// Tests that need a program of their own run this one again, with the name of a function.
var children = map[string]func(){
	"refused": func() {
		path = os.Getenv("TIMINGWHEEL_TEST_PATH")
		_, err := OpenBackend(Device, time.Millisecond, 20)
		os.Stdout.WriteString(err.Error())
		if !errors.Is(err, fs.ErrPermission) {
			os.Exit(1)
		}
		tw, err := Open(time.Millisecond, 20)
		if hasProcess != (err == nil) || (hasProcess && tw.Backend() != Process) {
			os.Exit(2)
		}
	},
	"descriptors": func() {
		links, _ := filepath.Glob("/proc/self/fd/*")
		for _, link := range links {
			if target, _ := os.Readlink(link); target == path || strings.Contains(target, "timerfd") {
				os.Stdout.WriteString(target)
			}
		}
	},
	"nothing": func() {},
	"panic": func() {
		tw, err := OpenBackend(where(nil), time.Millisecond, 20)
		if err != nil {
			panic(err)
		}
		tw.Start()
		tw.AfterFunc(0, func() { panic("from a function") })
		select {}
	},
}

func TestMain(m *testing.M) {
	flag.Parse()
	if child := children[os.Getenv("TIMINGWHEEL_TEST_CHILD")]; child != nil {
		child()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(name string) *exec.Cmd {
	command := exec.Command("/proc/self/exe", "-backend", *backendFlag)
	command.Env = []string{"TIMINGWHEEL_TEST_CHILD=" + name}
	return command
}

func TestPermission(t *testing.T) {
	command := child("refused")
	device := path
	if _, err := os.Stat(device); err != nil {
		// Without the device, a file stands for it.
		device = filepath.Join("/tmp", "timingwheel-device")
		defer os.Remove(device)
		if err := os.WriteFile(device, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	command.Env = append(command.Env, "TIMINGWHEEL_TEST_PATH="+device)
	if os.Getuid() == 0 {
		// A directory that it may not search is none that it can execute from.
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
	}
	out, err := command.CombinedOutput()
	want := "timingwheel: open " + device + ": permission denied (may be opened by members of the group htw)"
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
	for _, tick := range []time.Duration{Exact, time.Millisecond, 50 * time.Millisecond} {
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

// Exact is the tick of the wheel itself.
func TestExact(t *testing.T) {
	backend, tick, _, err := openBackend(where(t), true)
	if err != nil {
		t.Fatal(err)
	}
	backend.close()
	if tick != Exact {
		t.Errorf("the tick is %v", tick)
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

func TestNil(t *testing.T) {
	tw := start(t, time.Millisecond)
	const function, scheduler = "timingwheel: the function is nil", "timingwheel: the scheduler is nil"
	const timer = "timingwheel: Reset of a timer that was not started"
	for i, c := range []struct {
		f    func()
		want string
	}{
		{func() { tw.AfterFunc(0, nil) }, function},
		{func() { tw.ScheduleFunc(&every{}, nil) }, function},
		{func() { tw.ScheduleFunc(nil, func() {}) }, scheduler},
		{func() { (*Timer)(nil).Reset(0) }, timer},
		{func() { new(Timer).Reset(0) }, timer},
	} {
		if err := caught(c.f); err == nil || err.Error() != c.want {
			t.Errorf("%d: panicked with %v", i, err)
		}
	}
	for i, try := range []func() (*Timer, error){
		func() (*Timer, error) { return tw.TryAfterFunc(0, nil) },
		func() (*Timer, error) { return tw.TryScheduleFunc(&every{}, nil) },
		func() (*Timer, error) { return tw.TryScheduleFunc(nil, func() {}) },
	} {
		if timer, err := try(); timer != nil || err == nil {
			t.Errorf("%d: returned %v, %v", i, timer, err)
		}
	}
	if _, err := new(Timer).TryReset(0); err == nil || err.Error() != timer {
		t.Errorf("TryReset returned %v", err)
	}
	if timer, err := tw.TryScheduleFunc(&intervals{}, func() {}); timer != nil || err != nil {
		t.Errorf("a plan without a time: %v, %v", timer, err)
	}
}

// A wheel that nobody has opened says so to its caller, and not in a goroutine of its own.
func TestZeroWheel(t *testing.T) {
	var tw TimingWheel
	f := func() { t.Error("called") }
	for i, act := range []func(){
		tw.Start,
		func() { tw.AfterFunc(0, f) },
		func() { tw.ScheduleFunc(&every{}, f) },
	} {
		if err := caught(act); !errors.Is(err, errNotOpened) {
			t.Errorf("%d: panicked with %v", i, err)
		}
	}
	for i, try := range []func() (*Timer, error){
		func() (*Timer, error) { return tw.TryAfterFunc(0, f) },
		func() (*Timer, error) { return tw.TryScheduleFunc(&every{}, f) },
	} {
		if timer, err := try(); timer != nil || !errors.Is(err, errNotOpened) {
			t.Errorf("%d: returned %v, %v", i, timer, err)
		}
	}
	tw.Stop()
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
	// The third is due before the second has been called. So long that no stall of this machine
	// makes one call of two.
	s := &intervals{next: []time.Duration{ms, 800 * ms, -10 * ms, 900 * ms, 0, 700 * ms}}
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
		tw, err := OpenBackend(where(t), time.Millisecond, 20)
		if err != nil {
			t.Fatal(err)
		}
		tw.AfterFunc(time.Hour, func() {})
	}
	// The finalizers run some time after the collection.
	for descriptors(t) != files {
		runtime.GC()
	}
}

// limited makes a wheel take no more than n timers.
func limited(t *testing.T, n uint64) *TimingWheel {
	if tw := open(t, time.Millisecond); tw.Backend() == Process {
		setProcessLimit(t, n)
		return start(t, time.Millisecond)
	}
	const parameter = "/sys/module/htw/parameters/max_timers"
	before, err := os.ReadFile(parameter)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(parameter, []byte(strconv.FormatUint(n, 10)), 0); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.WriteFile(parameter, before, 0) })
	return start(t, time.Millisecond)
}

// A wheel that is full refuses timers, and is as it was.
func TestLimit(t *testing.T) {
	tw := limited(t, 10)
	called := make(chan bool)
	fired := tw.AfterFunc(0, func() { called <- true })
	<-called
	var timers []*Timer
	for i := 0; i < 10; i++ {
		timers = append(timers, tw.AfterFunc(time.Hour, func() {}))
	}
	refused := func() { t.Error("a refused timer was called") }
	for i := 0; i < 3; i++ {
		for j, err := range []error{
			caught(func() { tw.AfterFunc(0, refused) }),
			caught(func() { tw.ScheduleFunc(&every{}, refused) }),
			caught(func() { fired.Reset(0) }),
			func() error { _, err := tw.TryAfterFunc(0, refused); return err }(),
			func() error { _, err := tw.TryScheduleFunc(&every{}, refused); return err }(),
			func() error { _, err := fired.TryReset(0); return err }(),
		} {
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "(the limit ") {
				t.Errorf("%d: refused with %v", j, err)
			}
		}
	}
	if n := pending(tw); n != 10 {
		t.Errorf("%d timers are known", n)
	}
	if fired.Stop() {
		t.Error("a timer that could not be started again was stopped")
	}
	for _, timer := range timers {
		// Those that are pending can be moved.
		if !timer.Reset(2*time.Hour) || !timer.Stop() {
			t.Error("a timer was lost")
		}
	}
	tw.AfterFunc(0, func() { called <- true })
	<-called
}

// fence returns after the reader has seen all that was due before.
func fence(tw *TimingWheel) {
	called := make(chan bool)
	tw.AfterFunc(5*time.Millisecond, func() { called <- true })
	<-called
}

// Timers that somebody else starts, moves and ends by the same descriptor.
func TestForeignEvents(t *testing.T) {
	tw := start(t, time.Millisecond)
	never := func() { t.Error("an event that was not its own called a function") }
	timer := tw.AfterFunc(time.Hour, never)
	plan := tw.ScheduleFunc(&every{interval: time.Hour}, never)
	for _, cookie := range []uint64{
		uint64(timer.index), uint64(plan.index), 2, 3, pageSize, 1 << 31, math.MaxUint32,
		1 << 32, 1<<32 | uint64(timer.index), math.MaxUint64,
	} {
		for i := 0; i < 2; i++ {
			if _, err := tw.backend.add(0, 0, cookie, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	fence(tw)
	if !timer.Stop() || !plan.Stop() {
		t.Error("an event that was not its own has ended a timer")
	}

	// Ended by somebody else: not called, and can be stopped, or started again.
	timer = tw.AfterFunc(time.Hour, never)
	tw.backend.cancel(timer.id)
	if !timer.Stop() || timer.Stop() {
		t.Error("a timer that somebody else has ended could not be stopped once")
	}
	called := make(chan bool)
	timer = tw.AfterFunc(time.Hour, func() { called <- true })
	tw.backend.cancel(timer.id)
	if !timer.Reset(0) {
		t.Error("a timer that somebody else has ended was not waiting for its time")
	}
	<-called
	plan = tw.ScheduleFunc(&every{interval: time.Hour}, never)
	tw.backend.cancel(plan.id)
	if !plan.Stop() {
		t.Error("a plan that somebody else has ended could not be stopped")
	}
}

// An event that had been read when its timer was moved or stopped, and its index used again.
func TestStaleEvents(t *testing.T) {
	tw := start(t, time.Millisecond)
	never := func() { t.Error("an event of the past called a function") }
	timer := tw.AfterFunc(time.Hour, never)
	plan := tw.ScheduleFunc(&every{interval: time.Hour}, never)
	stopped := tw.AfterFunc(time.Hour, never)
	var stale []event
	for _, t := range []*Timer{timer, plan, stopped} {
		stale = append(stale, event{id: t.id, cookie: uint64(t.index)})
	}
	// What reading the event of a timer that is not kept does.
	tw.backend.cancel(timer.id)
	if !timer.Reset(time.Hour) || !plan.Reset(time.Hour) || !stopped.Stop() {
		t.Fatal("a timer was not pending")
	}
	other := tw.AfterFunc(time.Hour, never)
	if other.index != uint32(stale[2].cookie) {
		t.Fatal("the entry is not used again")
	}
	for i := range stale {
		tw.expire(&stale[i])
	}
	fence(tw)
	if !timer.Stop() || !plan.Stop() || !other.Stop() {
		t.Error("an event of the past has ended a timer")
	}
}

// Once Stop of the wheel has returned, no function begins, no plan is asked, however many were
// about to, and whatever their goroutines are waiting for.
func TestNothingBeginsAfterStop(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for round := 0; round < rounds; round++ {
		tw := open(t, time.Millisecond)
		var stopped, late, begun, asked int32
		f := func() {
			if atomic.LoadInt32(&stopped) != 0 {
				atomic.AddInt32(&late, 1)
			}
			atomic.AddInt32(&begun, 1)
		}
		var timers []*Timer
		for i := 0; i < 3000; i++ {
			timers = append(timers, tw.AfterFunc(time.Duration(i%5)*time.Millisecond, f))
		}
		for i := 0; i < 20; i++ {
			tw.ScheduleFunc(nextFunc(func(prev time.Time) time.Time {
				if atomic.LoadInt32(&stopped) != 0 {
					atomic.AddInt32(&asked, 1)
				}
				return prev.Add(time.Millisecond)
			}), f)
		}
		tw.Start()
		// At any moment of the storm.
		for spin := round * 20; atomic.LoadInt32(&begun) < int32(spin); {
			runtime.Gosched()
		}
		tw.Stop()
		atomic.StoreInt32(&stopped, 1)
		ended := int(atomic.LoadInt32(&begun))
		for _, timer := range timers {
			if timer.Stop() {
				ended++
			}
		}
		// All goroutines that were started have had their turn.
		for i := 0; i < 100; i++ {
			runtime.Gosched()
		}
		if late != 0 || asked != 0 {
			t.Fatalf("round %d: %d functions began after Stop, %d plans were asked", round, late, asked)
		}
		if ended < len(timers) {
			t.Fatalf("round %d: of %d timers, %d were called or stopped", round, len(timers), ended)
		}
	}
}

type nextFunc func(prev time.Time) time.Time

func (f nextFunc) Next(prev time.Time) time.Time { return f(prev) }

// Next is running when the wheel, or the timer, is stopped, or the timer moved.
func TestNextIsRunning(t *testing.T) {
	for _, c := range []struct {
		name string
		act  func(*TimingWheel, *Timer) bool
		want bool
	}{
		{"wheel", func(tw *TimingWheel, _ *Timer) bool { tw.Stop(); return true }, true},
		{"timer", func(_ *TimingWheel, timer *Timer) bool { return timer.Stop() }, true},
		{"moved", func(_ *TimingWheel, timer *Timer) bool { return timer.Reset(time.Hour) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tw := start(t, time.Millisecond)
			asked, release, returned := make(chan bool), make(chan bool), make(chan bool)
			first := true
			timer := tw.ScheduleFunc(nextFunc(func(prev time.Time) time.Time {
				if first {
					first = false
					return prev
				}
				asked <- true
				<-release
				defer close(returned)
				return prev.Add(time.Millisecond)
			}), func() { t.Error("the function was called") })
			goroutines := runtime.NumGoroutine()
			<-asked
			if got := c.act(tw, timer); got != c.want {
				t.Errorf("returned %v", got)
			}
			close(release)
			<-returned
			// The plan's goroutine is one of those.
			settle(goroutines)
			if !tw.gate.closed() {
				fence(tw)
			}
			timer.Stop()
		})
	}
}

// A plan that is moved, or stopped and started again, while its Next runs: Next is not called again
// until it has returned, and what it returns does not count. Its own goroutine may be what moves
// it, and may end in it.
func TestNextIsCalledByOne(t *testing.T) {
	again := func(timer *Timer) {
		timer.Stop()
		timer.Reset(0)
	}
	for _, c := range []struct {
		name   string
		move   func(*Timer)
		within bool
		end    func()
	}{
		{"moved", func(timer *Timer) { timer.Reset(0) }, false, func() {}},
		{"started again", again, false, func() {}},
		{"moved by Next", func(timer *Timer) { timer.Reset(0) }, true, func() {}},
		{"started again by Next", again, true, func() {}},
		{"moved, Next does not return", func(timer *Timer) { timer.Reset(0) }, false, runtime.Goexit},
	} {
		t.Run(c.name, func(t *testing.T) {
			tw := start(t, time.Millisecond)
			var running, together int32
			// Without a lock: the race detector looks after it.
			asked := 0
			begun, release := make(chan bool), make(chan bool)
			prevs, called := make(chan time.Time, 100), make(chan bool, 100)
			timers := make(chan *Timer, 1)
			timer := tw.ScheduleFunc(nextFunc(func(prev time.Time) time.Time {
				if atomic.AddInt32(&running, 1) != 1 {
					atomic.AddInt32(&together, 1)
				}
				defer atomic.AddInt32(&running, -1)
				asked++
				switch asked {
				case 1:
					return prev
				case 2:
					if c.within {
						c.move(<-timers)
					}
					begun <- true
					<-release
					prevs <- prev
					c.end()
					return prev.Add(2 * time.Hour)
				}
				prevs <- prev
				return prev.Add(time.Hour)
			}), func() { called <- true })
			timers <- timer
			<-begun
			var moved time.Time
			// Many expire meanwhile.
			for i := 0; i < 5; i++ {
				if !c.within {
					c.move(timer)
				}
				timer.mutex.Lock()
				moved = timer.plan.next
				timer.mutex.Unlock()
				fence(tw)
			}
			if len(prevs) != 0 || len(called) != 0 {
				t.Error("the plan was asked, or called, while it was being asked")
			}
			close(release)
			<-called
			if atomic.LoadInt32(&together) != 0 {
				t.Error("two goroutines asked the plan at a time")
			}
			<-prevs
			if prev := <-prevs; !prev.Equal(moved) {
				t.Errorf("asked with %v, moved to %v", prev, moved)
			}
			timer.mutex.Lock()
			next := timer.plan.next
			timer.mutex.Unlock()
			if !next.Equal(moved.Add(time.Hour)) {
				t.Errorf("moved to %v, it goes on with %v", moved, next)
			}
			fence(tw)
			if len(prevs) != 0 || len(called) != 0 || !timer.Stop() {
				t.Errorf("asked %d and called %d times too often, or has ended", len(prevs), len(called))
			}
		})
	}
}

// A plan without locks of its own that many goroutines move, stop and start again: each question is
// answered before the next one.
func TestNextNeedsNoLock(t *testing.T) {
	tw := start(t, time.Millisecond)
	var running, together, asked int32
	count := 0
	timer := tw.ScheduleFunc(nextFunc(func(prev time.Time) time.Time {
		if atomic.AddInt32(&running, 1) != 1 {
			atomic.AddInt32(&together, 1)
		}
		// Longer than the way from Reset to the next question.
		for limit := time.Now().Add(3 * time.Millisecond); time.Now().Before(limit); {
			runtime.Gosched()
		}
		count++
		atomic.AddInt32(&asked, 1)
		atomic.AddInt32(&running, -1)
		return prev.Add(time.Millisecond)
	}), func() {})
	var wait sync.WaitGroup
	for g := 0; g < 3; g++ {
		wait.Add(1)
		go func(g int) {
			defer wait.Done()
			random := rand.New(rand.NewSource(int64(g)))
			for atomic.LoadInt32(&asked) < 50 {
				if random.Intn(3) == 0 {
					timer.Stop()
				}
				timer.Reset(time.Duration(random.Int63n(int64(2 * time.Millisecond))))
				for limit := time.Now().Add(time.Duration(random.Int63n(int64(8 * time.Millisecond)))); time.Now().Before(limit); {
					runtime.Gosched()
				}
			}
		}(g)
	}
	wait.Wait()
	timer.Stop()
	if n := atomic.LoadInt32(&together); n != 0 {
		t.Errorf("Next was called %d times while it ran", n)
	}
}

// Stop does not wait for functions that do not return, and may be called by one.
func TestStopBesideFunctions(t *testing.T) {
	tw := start(t, time.Millisecond)
	begun, release, ended := make(chan bool), make(chan bool), make(chan bool)
	tw.AfterFunc(0, func() {
		begun <- true
		<-release
		ended <- true
	})
	<-begun
	tw.Stop()
	close(release)
	<-ended

	tw = start(t, time.Millisecond)
	tw.AfterFunc(0, func() {
		defer close(begun)
		tw.Stop()
		// Not the end of the program, nor of the wheel's counting.
		runtime.Goexit()
	})
	<-begun
	<-tw.gate.idle
}

// Neither a stopped wheel, nor timers that have ended, keep what functions refer to.
func TestNothingIsKept(t *testing.T) {
	var collected int32
	captured := func() func() {
		object := new([1 << 16]byte)
		runtime.SetFinalizer(object, func(*[1 << 16]byte) { atomic.AddInt32(&collected, 1) })
		return func() { object[0]++ }
	}
	await := func(n int32) {
		for atomic.LoadInt32(&collected) != n {
			runtime.GC()
		}
	}
	tw := start(t, time.Millisecond)
	tw.AfterFunc(0, captured())
	tw.AfterFunc(time.Hour, captured()).Stop()
	tw.ScheduleFunc(&every{interval: time.Hour}, captured()).Stop()
	await(3)

	tw.AfterFunc(time.Hour, captured())
	tw.ScheduleFunc(&every{interval: time.Hour}, captured())
	tw.Stop()
	tw.AfterFunc(time.Hour, captured())
	await(6)
	runtime.KeepAlive(tw)
}

func TestReset(t *testing.T) {
	tw := start(t, time.Millisecond)
	called := make(chan bool, 1)
	timer := tw.AfterFunc(time.Hour, func() { called <- true })
	id := timer.id
	if !timer.Reset(2*time.Hour) || timer.id != id {
		t.Error("a pending timer was not moved")
	}
	if !timer.Reset(time.Millisecond) {
		t.Error("a pending timer was not moved to the present")
	}
	<-called
	for _, d := range []time.Duration{0, -1, math.MinInt64, time.Millisecond} {
		if timer.Reset(d) {
			t.Errorf("a timer that was called was pending, %v", d)
		}
		<-called
	}
	if timer.Reset(time.Hour) || !timer.Stop() || timer.Stop() {
		t.Error("a timer that was started again could not be stopped once")
	}
	if timer.Reset(math.MaxInt64) || !timer.Reset(0) {
		t.Error("a stopped timer was not started again")
	}
	<-called
	fence(tw)
	if len(called) != 0 || pending(tw) != 0 {
		t.Errorf("called %d times too often, %d timers are left", len(called), pending(tw))
	}
	tw.Stop()
	if timer.Reset(0) || !timer.Reset(0) || !timer.Stop() || timer.Stop() {
		t.Error("a timer of a stopped wheel")
	}
}

func TestResetOfAPlan(t *testing.T) {
	tw := start(t, time.Millisecond)
	s := &intervals{next: []time.Duration{time.Hour, time.Hour}}
	called := make(chan time.Time)
	timer := tw.ScheduleFunc(s, func() { called <- time.Now() })
	before := time.Now()
	if !timer.Reset(3 * time.Millisecond) {
		t.Error("a plan could not be moved")
	}
	if at := <-called; at.Sub(before) < 3*time.Millisecond {
		t.Error("a plan that was moved was early")
	}
	timer.mutex.Lock()
	next := timer.plan.next
	timer.mutex.Unlock()
	if asked := s.asked[1]; asked.Before(before) || next != asked.Add(time.Hour) {
		t.Errorf("the plan goes on from %v to %v", asked, next)
	}
	// The plan ends with this call, and goes on with the one after.
	timer.Reset(0)
	<-called
	if timer.Stop() {
		t.Error("a plan that had ended was stopped")
	}
	if timer.Reset(0) {
		t.Error("a plan that had ended was not")
	}
	<-called
	fence(tw)
	if len(s.asked) != 4 {
		t.Errorf("the plan was asked %d times", len(s.asked))
	}
}

// Timers that are moved and stopped about when they expire: what Reset and Stop return says how
// often each is called, and none is early.
func TestResetOrCall(t *testing.T) {
	tw := start(t, time.Millisecond)
	const goroutines, each = 8, 800
	var wait sync.WaitGroup
	var moved, again, early int32
	for g := 0; g < goroutines; g++ {
		wait.Add(1)
		go func(g int) {
			defer wait.Done()
			random := rand.New(rand.NewSource(int64(g)))
			some := func() time.Duration { return time.Duration(random.Int63n(int64(3 * time.Millisecond))) }
			for i := 0; i < each; i++ {
				var calls, want int32 = 0, 1
				var due int64
				begin := time.Now()
				arm := func(d time.Duration) {
					// The earliest that is not withdrawn; once it may run, it stays.
					atomic.StoreInt64(&due, int64(time.Since(begin)+d))
				}
				d := some()
				arm(d)
				timer := tw.AfterFunc(d, func() {
					if want := atomic.LoadInt64(&due); int64(time.Since(begin)) < want && want != 0 {
						atomic.AddInt32(&early, 1)
					}
					atomic.AddInt32(&calls, 1)
				})
				for j := 0; j < 4; j++ {
					for limit := time.Now().Add(some()); time.Now().Before(limit); {
						runtime.Gosched()
					}
					d := some()
					atomic.StoreInt64(&due, 0)
					if timer.Reset(d) {
						atomic.AddInt32(&moved, 1)
					} else {
						atomic.AddInt32(&again, 1)
						want++
					}
				}
				if timer.Stop() {
					want--
				}
				for atomic.LoadInt32(&calls) < want {
					runtime.Gosched()
				}
				if n := atomic.LoadInt32(&calls); n != want {
					t.Errorf("called %d times instead of %d", n, want)
				}
			}
		}(g)
	}
	wait.Wait()
	if moved == 0 || again == 0 || early != 0 {
		t.Errorf("%d moved, %d started again, %d early", moved, again, early)
	}
	t.Logf("%d moved, %d started again", moved, again)
}

// A timer that is moved ahead of its time all the while is never called, though it gets close.
func TestResetIsNeverEarly(t *testing.T) {
	tw := start(t, time.Millisecond)
	const timers, distance = 200, 20 * time.Millisecond
	var early int32
	var wait sync.WaitGroup
	for i := 0; i < timers; i++ {
		wait.Add(1)
		go func(i int) {
			defer wait.Done()
			called := make(chan time.Time, 1)
			f := func() { called <- time.Now() }
			var timer *Timer
			if i%2 == 0 {
				timer = tw.AfterFunc(distance, f)
			} else {
				timer = tw.ScheduleFunc(nextFunc(func(prev time.Time) time.Time {
					return prev.Add(distance)
				}), f)
			}
			for j := 0; j < 20; j++ {
				// Close to its expiration.
				for limit := time.Now().Add(distance * time.Duration(i) / timers); time.Now().Before(limit); {
					runtime.Gosched()
				}
				before := time.Now()
				if timer.Reset(distance) {
					// Whatever comes now is due by this.
					select {
					case at := <-called:
						if !at.Before(before) && at.Sub(before) < distance && i%2 == 0 {
							atomic.AddInt32(&early, 1)
						}
					default:
					}
				}
			}
			timer.Stop()
		}(i)
	}
	wait.Wait()
	if early != 0 {
		t.Errorf("%d were early", early)
	}
}

// A plan that is behind is asked for all times that have passed, and called once.
func TestPlanThatIsBehind(t *testing.T) {
	tw := start(t, time.Millisecond)
	begin := time.Now().Add(-10 * time.Second)
	for _, ends := range []bool{false, true} {
		var asked, calls int32
		called := make(chan int32, 16)
		timer := tw.ScheduleFunc(nextFunc(func(prev time.Time) time.Time {
			n := atomic.AddInt32(&asked, 1)
			if n <= 10000 {
				return begin.Add(time.Duration(n) * time.Millisecond / 2)
			}
			if ends {
				return time.Time{}
			}
			return prev.Add(time.Hour)
		}), func() { called <- atomic.AddInt32(&calls, 1) })
		<-called
		fence(tw)
		if n := atomic.LoadInt32(&asked); n != 10001 || len(called) != 0 {
			t.Errorf("asked %d times, called %d times too often", n, len(called))
		}
		if timer.Stop() == ends {
			t.Errorf("stopped: %v", !ends)
		}
	}
	// It is not asked any more once it has been stopped.
	var asked int32
	timers := make(chan *Timer, 1)
	timers <- tw.ScheduleFunc(nextFunc(func(prev time.Time) time.Time {
		n := atomic.AddInt32(&asked, 1)
		if n == 5 {
			(<-timers).Stop()
		}
		if n > 10000 {
			return time.Time{}
		}
		return begin.Add(time.Duration(n) * time.Millisecond / 2)
	}), func() { t.Error("a plan that was stopped was called") })
	fence(tw)
	if n := atomic.LoadInt32(&asked); n != 5 {
		t.Errorf("a plan that was stopped after 5 questions was asked %d times", n)
	}
	// A plan that does not get ahead has one call for each time, and can be stopped.
	for _, interval := range []time.Duration{0, -time.Second} {
		called := make(chan bool)
		timer := tw.ScheduleFunc(&every{interval: interval}, func() { called <- true })
		for i := 0; i < 50; i++ {
			<-called
		}
		if !timer.Stop() {
			t.Error("a plan that does not get ahead could not be stopped")
		}
		for more := true; more; {
			select {
			case <-called:
			case <-time.After(20 * time.Millisecond):
				more = false
			}
		}
	}
}

// Many timers at once: all are called, and what they took is given back.
func TestMany(t *testing.T) {
	n := 1000000
	if raceEnabled || testing.Short() {
		n = 50000
	}
	tw := start(t, time.Millisecond)
	var calls int32
	timers := make([]*Timer, n)
	for i := range timers {
		timers[i] = tw.AfterFunc(time.Hour, func() { atomic.AddInt32(&calls, 1) })
	}
	stopped := 0
	for i, timer := range timers {
		if i%10 != 0 && timer.Stop() {
			stopped++
		} else if i%10 == 0 && !timer.Reset(time.Duration(i%1000)*time.Millisecond) {
			t.Fatal("a pending timer was not")
		}
	}
	for int(atomic.LoadInt32(&calls)) != n/10 {
		runtime.Gosched()
	}
	if stopped != n-n/10 {
		t.Errorf("%d were stopped", stopped)
	}
	if len(tw.table.pages) != 1 {
		t.Errorf("%d pages are left", len(tw.table.pages))
	}
}

// A program that is executed meanwhile, from many goroutines, does not disturb timers.
func TestExec(t *testing.T) {
	tw := start(t, time.Millisecond)
	var wait sync.WaitGroup
	for i := 0; i < 4; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for j := 0; j < 5; j++ {
				called := make(chan bool)
				tw.AfterFunc(2*time.Millisecond, func() { close(called) })
				if err := child("nothing").Run(); err != nil {
					t.Error(err)
				}
				<-called
			}
		}()
	}
	wait.Wait()
}
