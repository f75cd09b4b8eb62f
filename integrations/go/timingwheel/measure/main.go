// SPDX-License-Identifier: MIT

// Measure a timing wheel beside Go's own timers; prints tables in Markdown. Meant for one CPU whose
// clock counts an instruction as a ns (tools/vm/run --icount), where times are instructions of the
// whole machine, collections of garbage included.
//
// An argument is the path of the same program, built with the original in place of this package (see
// integrations/go/run). Its rows are then in the tables as well.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

type timer interface{ Stop() bool }

// The original's cannot be moved.
type resetter interface{ Reset(time.Duration) bool }

// system starts a timer.
type system func(d time.Duration, f func()) timer

// Go's own. The file beside this one puts wheels in front of it.
var systems = []struct {
	name string
	open func() system
}{
	{"`time.AfterFunc`", func() system {
		return func(d time.Duration, f func()) timer { return time.AfterFunc(d, f) }
	}},
}

func heap() (bytes, objects uint64) {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc, stats.HeapObjects
}

func collection() time.Duration {
	began := time.Now()
	runtime.GC()
	return time.Since(began)
}

func nothing() {}

// pending measures timers that do not expire, with n of them.
func pending(after system, n int) {
	const pairs = 100000
	random := rand.New(rand.NewSource(1))
	timers := make([]timer, n)
	delays := make([]time.Duration, n)
	for i := range delays {
		delays[i] = time.Hour + time.Duration(random.Int63n(int64(time.Hour)))
	}
	order := random.Perm(n)
	empty := collection()
	bytes, objects := heap()

	began := time.Now()
	for i := range timers {
		timers[i] = after(delays[i], nothing)
	}
	add := time.Since(began)
	bytesAfter, objectsAfter := heap()
	full := collection()

	began = time.Now()
	for i := 0; i < pairs; i++ {
		after(time.Second+time.Duration(i), nothing).Stop()
	}
	both := time.Since(began)

	began = time.Now()
	for i := 0; i < pairs; i++ {
		j := i % n
		if t, ok := timers[j].(resetter); ok {
			t.Reset(delays[j] + time.Duration(i))
		} else {
			timers[j].Stop()
			timers[j] = after(delays[j]+time.Duration(i), nothing)
		}
	}
	move := time.Since(began)

	began = time.Now()
	for _, i := range order {
		if !timers[i].Stop() {
			panic("a pending timer could not be stopped")
		}
	}
	stop := time.Since(began)

	each := func(d time.Duration, n int) int64 { return int64(d) / int64(n) }
	fmt.Printf("%d | %d | %d | %d | %d | %.1f | %.0f", each(add, n), each(stop, n),
		each(both, pairs), each(move, pairs), (bytesAfter-bytes)/uint64(n), float64(objectsAfter-objects)/float64(n),
		float64(full-empty)/1e6)
	// Else they are collected before, and their memory counted.
	runtime.KeepAlive(delays)
	runtime.KeepAlive(timers)
}

// expire measures n timers that are due at the same time, from then to the last call.
func expire(after system, n int) {
	var wait sync.WaitGroup
	wait.Add(n)
	done := wait.Done
	due := time.Now().Add(20 * time.Second)
	for i := 0; i < n; i++ {
		after(time.Until(due), done)
	}
	if !time.Now().Before(due) {
		panic("they were due before all had been started")
	}
	wait.Wait()
	fmt.Printf("%d", int64(time.Since(due))/int64(n))
}

// lateness measures n timers over 10 s on an idle machine.
func lateness(after system, n int) {
	var wait sync.WaitGroup
	late := make([]time.Duration, n)
	random := rand.New(rand.NewSource(1))
	wait.Add(n)
	base := time.Now().Add(time.Second)
	for i := range late {
		i, due := i, base.Add(time.Duration(random.Int63n(int64(10*time.Second))))
		after(time.Until(due), func() {
			late[i] = time.Since(due)
			wait.Done()
		})
	}
	wait.Wait()
	sort.Slice(late, func(i, j int) bool { return late[i] < late[j] })
	early := sort.Search(n, func(i int) bool { return late[i] >= 0 })
	us := func(d time.Duration) int64 { return int64(d / time.Microsecond) }
	fmt.Printf("%d | %d | %d | %d | %d", us(late[n/2]), us(late[n*99/100]),
		us(late[n*999/1000]), us(late[n-1]), early)
}

// Each measurement prints the cells of a row.
var measurements = []struct {
	heading string
	measure func(after system, n int)
	counts  []int
}{
	{"pending | start | stop | start and stop | move | bytes | objects | collection, ms", pending, []int{1000, 1000000}},
	{"due at once | each", expire, []int{100000}},
	{"timers in 10 s | median, µs | 99% | 99.9% | longest | early", lateness, []int{10000}},
}

// Each row is a process of its own, so that none finds the memory of another.
func main() {
	if len(os.Args) == 4 {
		measurement, _ := strconv.Atoi(os.Args[1])
		system, _ := strconv.Atoi(os.Args[2])
		n, _ := strconv.Atoi(os.Args[3])
		measurements[measurement].measure(systems[system].open(), n)
		return
	}
	type row struct {
		name, program string
		system        int
	}
	var rows []row
	for i, system := range systems {
		rows = append(rows, row{system.name, "/proc/self/exe", i})
	}
	if len(os.Args) == 2 {
		rows = append(rows, row{"the original", os.Args[1], 0})
	}
	fmt.Printf("%s, %d CPU\n", runtime.Version(), runtime.NumCPU())
	for m, measurement := range measurements {
		fmt.Printf("\n| | %s |\n| --- |%s\n", measurement.heading,
			strings.Repeat(" ---: |", strings.Count(measurement.heading, "|")+1))
		for _, n := range measurement.counts {
			for _, r := range rows {
				command := exec.Command(r.program, strconv.Itoa(m), strconv.Itoa(r.system), strconv.Itoa(n))
				command.Stderr = os.Stderr
				cells, err := command.Output()
				if err != nil {
					fmt.Fprintf(os.Stderr, "%s, %d: %v\n", r.name, n, err)
					os.Exit(1)
				}
				fmt.Printf("| %s | %d | %s |\n", r.name, n, cells)
			}
		}
	}
}
