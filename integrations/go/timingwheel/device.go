// SPDX-License-Identifier: MIT

package timingwheel

import "errors"

const path = "/dev/htw"

var (
	// The timer's id has ended.
	errUnknown = errors.New("unknown timer")
	// The device was closed while a call waited.
	errClosed = errors.New("device closed")
)

// event is struct htw_event of <linux/htw.h>.
type event struct {
	id, cookie, deadline, fired, missed uint64
	flags, reserved                     uint32
}
