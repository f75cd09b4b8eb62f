// SPDX-License-Identifier: MIT

package timingwheel

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// Backend says where a wheel keeps its timers.
type Backend int

const (
	// Any is the device if it can be opened, else the process.
	Any Backend = iota
	// Device is the kernel, behind an open /dev/htw for each wheel.
	Device
	// Process is this process, by libhtw. It needs a program that was built with cgo,
	// and without the tag nolibhtw.
	Process
)

func (b Backend) String() string {
	switch b {
	case Any:
		return "any"
	case Device:
		return "device"
	case Process:
		return "process"
	}
	return fmt.Sprintf("Backend(%d)", int(b))
}

// The device. Tests change it.
var path = "/dev/htw"

// backend keeps timers. Nothing but read is called with or after close.
type backend interface {
	// add starts a timer that expires in so many ns, and returns its id, which is never zero and
	// never used again.
	add(ns, slack, cookie uint64, flags uint32) (uint64, error)
	// rearm moves a timer, which is pending until its event is read. It returns errUnknown if
	// that was read, unless the timer is kept.
	rearm(id, ns uint64) error
	// cancel ends an id. An event of it that read has returned may still be to be handled.
	cancel(id uint64)
	// read waits for events, which are valid until the next call. It returns errClosed after close.
	read() ([]event, error)
	close()
}

var (
	// The timer's id has ended.
	errUnknown = errors.New("unknown timer")
	// The backend was closed while a call waited.
	errClosed = errors.New("closed")
	// There is no usable device; the process can take its place.
	errNoDevice = errors.New("no device")
)

// event is struct htw_event of <linux/htw.h>, as far as it is needed.
type event struct {
	id, cookie uint64
	_          [3]uint64
	_          [2]uint32
}

// The timer's id survives its expiration (HTW_F_KEEP).
const flagKeep = 1 << 1

// The finest tick (HTW_SETUP_EXACT).
const setupExact = 1 << 1

// openBackend returns the backend and its tick, which is Exact or htw's.
func openBackend(b Backend, exact bool) (backend, time.Duration, Backend, error) {
	switch b {
	case Device:
		d, tick, err := openDevice(exact)
		return d, tick, Device, err
	case Process:
		p, tick, err := openProcess(exact)
		return p, tick, Process, err
	case Any:
		d, tick, err := openDevice(exact)
		if err == nil || !absent(err) {
			return d, tick, Device, err
		}
		if !hasProcess {
			return nil, 0, Any, fmt.Errorf("%w, and the program was built without cgo or with "+
				"the tag nolibhtw, else its timers could be in the process", err)
		}
		return openBackend(Process, exact)
	}
	return nil, 0, b, fmt.Errorf("there is no backend %d", int(b))
}

// absent says whether an error means that there is no device for this program, as HTW_BACKEND_ANY
// of libhtw does. With any other, timers in the process would hide a fault.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) ||
		errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENXIO) || errors.Is(err, errNoDevice)
}
