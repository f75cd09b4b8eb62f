// SPDX-License-Identifier: MIT

//go:build 386 || amd64 || arm || arm64 || loong64 || riscv64 || s390x

package timingwheel

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// The structures of <linux/htw.h> have no padding on any architecture.
type (
	htwSetup struct {
		flags             uint32
		clock             int32
		tick, limit       uint64
		eventSize, levels uint32
		slots             [8]uint32
	}
	htwInfo struct {
		features, tick, limit, timers, bytes uint64
		userLimit, userTimers, next          uint64
		clock                                int32
		flags, eventSize, levels             uint32
		slots                                [8]uint32
	}
	htwAdd struct {
		id, deadline, interval, slack, cookie uint64
		flags, firings                        uint32
	}
	htwCancel struct {
		id, remaining, cookie, missed uint64
		flags, state                  uint32
	}
	htwMod struct {
		id, deadline, interval, slack, cookie uint64
		flags, firings, state, reserved       uint32
	}
)

const (
	featureFirst = 1 << 0
	modDeadline  = 1 << 8
)

// request computes an ioctl's number, as _IOC() does on these architectures.
func request(direction, number, size uintptr) uintptr {
	return direction<<30 | size<<16 | 0xe7<<8 | number
}

const (
	ioctlWrite = 1
	ioctlRead  = 2
)

var (
	requestSetup  = request(ioctlWrite, 0, unsafe.Sizeof(htwSetup{}))
	requestInfo   = request(ioctlRead, 1, unsafe.Sizeof(htwInfo{}))
	requestAdd    = request(ioctlRead|ioctlWrite, 2, unsafe.Sizeof(htwAdd{}))
	requestCancel = request(ioctlRead|ioctlWrite, 3, unsafe.Sizeof(htwCancel{}))
	requestMod    = request(ioctlRead|ioctlWrite, 4, unsafe.Sizeof(htwMod{}))
)

// device is an open /dev/htw.
type device struct {
	file   *os.File
	fd     uintptr
	events [256]event // for read
}

func openDevice(exact bool) (backend, time.Duration, error) {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, refusal(&os.PathError{Op: "open", Path: path, Err: err})
	}
	d := &device{file: os.NewFile(uintptr(fd), path), fd: uintptr(fd)}
	if exact {
		err = d.ioctl(requestSetup, unsafe.Pointer(&htwSetup{flags: setupExact}))
	}
	var info htwInfo
	if err == nil {
		err = d.ioctl(requestInfo, unsafe.Pointer(&info))
	}
	if err != nil {
		d.close()
		return nil, 0, fmt.Errorf("%s is not a device of htw: %w", path, err)
	}
	if info.features&featureFirst == 0 {
		d.close()
		return nil, 0, fmt.Errorf("%w: the module htw is too old", errNoDevice)
	}
	// Fails if the runtime's poller has not taken the descriptor; then close would not end a read.
	if err := d.file.SetReadDeadline(time.Time{}); err != nil {
		d.close()
		return nil, 0, fmt.Errorf("cannot wait for %s: %w", path, err)
	}
	return d, time.Duration(info.tick), nil
}

// refusal says what to do about an error of open.
func refusal(err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w (load the kernel module: modprobe htw)", err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w (may be opened by members of the group htw)", err)
	}
	return err
}

func (d *device) close() {
	d.file.Close()
}

func (d *device) ioctl(request uintptr, argument unsafe.Pointer) error {
	for {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, d.fd, request, uintptr(argument))
		// Else the file might be collected, and the descriptor closed, during the call.
		runtime.KeepAlive(d)
		if errno == 0 {
			return nil
		}
		if errno != syscall.EINTR {
			return errno
		}
	}
}

func (d *device) add(ns, slack, cookie uint64, flags uint32) (uint64, error) {
	add := htwAdd{deadline: ns, slack: slack, cookie: cookie, flags: flags}
	err := d.ioctl(requestAdd, unsafe.Pointer(&add))
	switch err {
	case syscall.ENOSPC:
		err = fmt.Errorf("%w (the limit is htw's max_timers)", err)
	case syscall.EDQUOT:
		err = fmt.Errorf("%w (the limit is htw's max_user_timers)", err)
	}
	return add.id, err
}

func (d *device) rearm(id, ns uint64) error {
	mod := htwMod{id: id, deadline: ns, flags: modDeadline}
	err := d.ioctl(requestMod, unsafe.Pointer(&mod))
	if err == syscall.ENOENT {
		return errUnknown
	}
	return err
}

func (d *device) cancel(id uint64) {
	cancel := htwCancel{id: id}
	// If the id has ended, there is nothing to do.
	_ = d.ioctl(requestCancel, unsafe.Pointer(&cancel))
}

func (d *device) read() ([]event, error) {
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(&d.events)), unsafe.Sizeof(d.events))
	n, err := d.file.Read(buffer)
	if errors.Is(err, os.ErrClosed) {
		return nil, errClosed
	}
	if err != nil {
		return nil, err
	}
	return d.events[:uintptr(n)/unsafe.Sizeof(event{})], nil
}
