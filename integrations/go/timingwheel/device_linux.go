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
	htwInfo struct {
		features, tick, limit, timers, expired uint64
		clock, homeCPU                         int32
		flags, levels                          uint32
		slots                                  [8]uint32
		ringEntries, reserved0                 uint32
		tableSize                              uint64
		reserved                               [4]uint32
	}
	htwAdd struct {
		id, deadline, interval, slack, cookie uint64
		flags, firings                        uint32
		reserved                              uint64
	}
	htwCancel struct {
		id, remaining, cookie, missed uint64
		flags, ringTail               uint32
		reserved                      [2]uint64
	}
	htwMod struct {
		id, deadline, interval, slack, cookie uint64
		flags, firings                        uint32
		reserved                              uint64
	}
)

const (
	featureAdd   = 1 << 0
	featureKeep  = 1 << 1
	featureMod   = 1 << 3
	featureSlack = 1 << 4
	needed       = featureAdd | featureKeep | featureMod | featureSlack

	modDeadline = 1 << 8
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
	requestInfo   = request(ioctlRead, 1, unsafe.Sizeof(htwInfo{}))
	requestAdd    = request(ioctlRead|ioctlWrite, 2, unsafe.Sizeof(htwAdd{}))
	requestCancel = request(ioctlRead|ioctlWrite, 3, unsafe.Sizeof(htwCancel{}))
	requestMod    = request(ioctlWrite, 4, unsafe.Sizeof(htwMod{}))
)

// device is an open /dev/htw.
type device struct {
	file   *os.File
	fd     uintptr
	events [256]event // for read
}

func openDevice() (backend, time.Duration, error) {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, refusal(&os.PathError{Op: "open", Path: path, Err: err})
	}
	d := &device{file: os.NewFile(uintptr(fd), path), fd: uintptr(fd)}
	var info htwInfo
	if err := d.ioctl(requestInfo, unsafe.Pointer(&info)); err != nil {
		d.close()
		return nil, 0, fmt.Errorf("%s is not a device of htw: %w", path, err)
	}
	if missing := needed &^ info.features; missing != 0 {
		d.close()
		return nil, 0, fmt.Errorf("%w: the module htw is too old, and lacks features %#x", errNoDevice, missing)
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
	// If it has expired, its event is on its way; if its id has ended, there is nothing to do.
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
