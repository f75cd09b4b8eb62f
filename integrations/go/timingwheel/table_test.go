// SPDX-License-Identifier: MIT

package timingwheel

import (
	"math"
	"testing"
)

func TestTable(t *testing.T) {
	var table table
	const n = 3*pageSize + 1
	timers := make([]Timer, n)
	keys := make([]key, n)

	for i := range timers {
		keys[i] = table.put(&timers[i])
	}
	for i, k := range keys {
		if table.get(k) != &timers[i] {
			t.Fatalf("entry %d has another timer", i)
		}
	}
	for _, k := range keys[:n/2] {
		table.drop(k)
	}
	seen := make(map[key]bool)
	for i := range timers[:n/2] {
		k := table.put(&timers[i])
		if seen[k] {
			t.Fatalf("key %#x was given twice", k)
		}
		seen[k] = true
		if table.get(k) != &timers[i] {
			t.Fatalf("key %#x has another timer", k)
		}
	}
	for i, k := range keys {
		if i < n/2 && (seen[k] || table.get(k) != nil) {
			t.Fatalf("the old key %#x is known", k)
		}
		if i >= n/2 && table.get(k) != &timers[i] {
			t.Fatalf("entry %d was lost", i)
		}
	}
	if table.used != n || table.spare != 0 || len(table.pages) != 4 {
		t.Fatalf("%d entries used, %d free, %d pages", table.used, table.spare, len(table.pages))
	}
}

// A key's generation may overflow; the index stays.
func TestTableGeneration(t *testing.T) {
	var table table
	var timer Timer

	table.put(&timer)
	table.drop(table.put(&timer))
	last := key(math.MaxUint32<<32 | 1)
	table.free = last
	if k := table.put(&timer); k != last {
		t.Fatalf("key %#x instead of %#x", k, last)
	}
	table.drop(last)
	if k := table.put(&timer); k != 1 {
		t.Fatalf("key %#x after the last one", k)
	}
}

// An event that was read before its plan was stopped must not call another timer's function.
func TestStaleEvent(t *testing.T) {
	var tw TimingWheel
	old := &Timer{wheel: &tw, plan: &plan{}, f: func() { panic("the stopped timer was called") }}
	old.key = tw.table.put(old)
	tw.forget(old.key)

	called := make(chan bool)
	other := &Timer{wheel: &tw, f: func() { called <- true }}
	other.key = tw.table.put(other)
	if uint32(other.key) != uint32(old.key) {
		t.Fatal("the entry is not used again")
	}
	tw.expire(&event{cookie: uint64(old.key)})
	if tw.table.get(other.key) != other {
		t.Fatal("the stale event has ended another timer")
	}
	tw.expire(&event{cookie: uint64(other.key)})
	<-called
	if tw.forget(other.key) {
		t.Fatal("a timer that expired is still known")
	}
}
