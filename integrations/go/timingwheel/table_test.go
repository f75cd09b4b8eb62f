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
	indexes := make([]uint32, n)

	for i := range timers {
		indexes[i] = table.put(&timers[i])
	}
	for i, index := range indexes {
		if table.find(uint64(index)) != &timers[i] {
			t.Fatalf("entry %d has another timer", i)
		}
	}
	for _, number := range []uint64{n, pageSize * 4, math.MaxUint32, 1 << 32, 1<<32 | 1, math.MaxUint64} {
		if table.find(number) != nil {
			t.Errorf("%#x has a timer", number)
		}
	}
	for i, index := range indexes[:n/2] {
		table.drop(index, &timers[n-1]) // not that one
		if table.find(uint64(index)) != &timers[i] {
			t.Fatalf("entry %d was dropped for another timer", i)
		}
		table.drop(index, &timers[i])
		table.drop(index, &timers[i])
		if table.find(uint64(index)) != nil {
			t.Fatalf("entry %d was not dropped", i)
		}
	}
	for i := range timers[:n/2] {
		indexes[i] = table.put(&timers[i])
	}
	for i, index := range indexes {
		if table.find(uint64(index)) != &timers[i] {
			t.Fatalf("entry %d was lost", i)
		}
	}
	if table.used != n || table.count != n || len(table.pages) != 4 {
		t.Fatalf("%d entries used, %d timers, %d pages", table.used, table.count, len(table.pages))
	}
	for i, index := range indexes {
		table.drop(index, &timers[i])
	}
	if table.used != 0 || table.count != 0 || len(table.pages) != 1 {
		t.Fatalf("%d entries used, %d timers, %d pages are left", table.used, table.count, len(table.pages))
	}
	table.drop(indexes[0], &timers[0])
	if index := table.put(&timers[1]); table.find(uint64(index)) != &timers[1] || table.count != 1 {
		t.Fatal("the empty table cannot be used again")
	}
}
