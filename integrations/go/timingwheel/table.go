// SPDX-License-Identifier: MIT

package timingwheel

// key is the index of an entry in a table, with the entry's generation in the upper half. An
// entry that is used again has another generation, so an old key finds nothing.
type key uint64

func (k key) entry(t *table) *entry {
	return &t.pages[uint32(k)/pageSize][uint32(k)%pageSize]
}

const pageSize = 256

// entry holds a timer, or the key of the next free entry.
type entry struct {
	timer *Timer
	key   key
}

// table holds the timers that have not ended. Pages stay where they are and are not given back.
type table struct {
	pages []*[pageSize]entry
	used  uint32 // entries that have been used
	free  key    // the last one that was freed, if spare is not zero
	spare uint32 // free entries among those used
}

// put stores a timer, and returns its key.
func (t *table) put(timer *Timer) key {
	if t.spare == 0 {
		if t.used%pageSize == 0 {
			t.pages = append(t.pages, new([pageSize]entry))
		}
		k := key(t.used)
		t.used++
		*k.entry(t) = entry{timer: timer, key: k}
		return k
	}
	k := t.free
	e := k.entry(t)
	t.free = e.key
	t.spare--
	*e = entry{timer: timer, key: k}
	return k
}

// get returns the key's timer, or nil if it has been dropped.
func (t *table) get(k key) *Timer {
	if e := k.entry(t); e.key == k {
		return e.timer
	}
	return nil
}

// drop frees the entry of a key that get finds.
func (t *table) drop(k key) {
	*k.entry(t) = entry{key: t.free}
	t.free = k + 1<<32
	t.spare++
}
