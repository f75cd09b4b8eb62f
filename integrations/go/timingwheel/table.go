// SPDX-License-Identifier: MIT

package timingwheel

const pageSize = 256

// entry holds a timer, or is free.
type entry struct {
	timer *Timer
	next  uint32 // the next free one, plus one
}

// table holds the timers that the backend has. An index is used again, and an id is not: so an
// event is for the timer at its index only if it has that timer's id. Pages stay where they are,
// until no timer is left.
type table struct {
	pages []*[pageSize]entry
	used  uint32 // entries that have been used
	free  uint32 // the one that was freed last, plus one
	count uint32 // timers
}

func (t *table) entry(index uint32) *entry {
	return &t.pages[index/pageSize][index%pageSize]
}

// put stores a timer, and returns its index.
func (t *table) put(timer *Timer) uint32 {
	t.count++
	if t.free != 0 {
		index := t.free - 1
		e := t.entry(index)
		t.free = e.next
		*e = entry{timer: timer}
		return index
	}
	if t.used == uint32(len(t.pages))*pageSize {
		t.pages = append(t.pages, new([pageSize]entry))
	}
	index := t.used
	t.used++
	t.entry(index).timer = timer
	return index
}

// find returns the timer with this index, which may be any number, or nil.
func (t *table) find(index uint64) *Timer {
	if index >= uint64(t.used) {
		return nil
	}
	return t.entry(uint32(index)).timer
}

// drop frees the timer's entry, if it is still there.
func (t *table) drop(index uint32, timer *Timer) {
	if t.find(uint64(index)) != timer {
		return
	}
	*t.entry(index) = entry{next: t.free}
	t.free = index + 1
	t.count--
	if t.count == 0 && len(t.pages) > 1 {
		// After a burst, give its memory back.
		*t = table{pages: []*[pageSize]entry{t.pages[0]}}
	}
}
