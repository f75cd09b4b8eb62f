// SPDX-License-Identifier: MIT

//go:build cgo && !nolibhtw

package timingwheel

/*
#cgo pkg-config: libhtw
#include <libhtw.h>

// A handle is a number to Go, and results come by value: Go would allocate memory to check the one
// as a pointer, and for what the other as a pointer refers to.

static struct htw *handle(uintptr_t number)
{
	return (struct htw *)number;
}

struct opened {
	uintptr_t handle;
	uint64_t tick;
	int fd;
	int error;
};

static struct opened open_process(uint64_t limit, uint32_t flags)
{
	const struct htw_setup_args setup = { .flags = flags, .limit = limit };
	struct htw_info_args info;
	struct htw *htw;
	int ret = htw_open(&htw, HTW_BACKEND_PROCESS, &setup);

	if (ret)
		return (struct opened){ .error = -ret };
	ret = htw_info(htw, &info);
	if (ret) {
		htw_close(htw);
		return (struct opened){ .error = -ret };
	}
	return (struct opened){
		.handle = (uintptr_t)htw, .tick = info.tick_ns, .fd = htw_fd(htw),
	};
}

static void close_process(uintptr_t htw)
{
	htw_close(handle(htw));
}

struct added {
	uint64_t id;
	int error;
};

static struct added add(uintptr_t htw, uint64_t ns, uint64_t slack, uint64_t cookie,
			uint32_t flags)
{
	struct htw_add_args add = {
		.deadline = ns, .slack = slack, .cookie = cookie, .flags = flags,
	};
	int ret = htw_add(handle(htw), &add);

	return (struct added){ .id = add.id, .error = -ret };
}

static int rearm(uintptr_t htw, uint64_t id, uint64_t ns)
{
	return -htw_rearm(handle(htw), id, ns);
}

static void stop(uintptr_t htw, uint64_t id)
{
	htw_stop(handle(htw), id);
}

static int read_events(uintptr_t htw, void *events, unsigned int count)
{
	return htw_read(handle(htw), events, count);
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const hasProcess = true

// The most that libhtw takes. Tests lower it.
var processLimit uint64 = 1 << 26

// process is a handle of libhtw with its timers in this process.
type process struct {
	handle C.uintptr_t
	// A copy of the handle's descriptor, by which Go's poller waits for it.
	file   *os.File
	conn   syscall.RawConn
	closed atomic.Bool
	events [256]event // for read
}

func openProcess(exact bool) (backend, time.Duration, error) {
	var flags C.uint32_t
	if exact {
		flags = setupExact
	}
	opened := C.open_process(C.uint64_t(processLimit), flags)
	if opened.error != 0 {
		return nil, 0, fmt.Errorf("cannot have timers in the process: %w", syscall.Errno(opened.error))
	}
	p := &process{handle: opened.handle}
	// The handle is freed with the wheel, if that is dropped without Start and Stop.
	runtime.SetFinalizer(p, (*process).close)
	if err := p.watch(uintptr(opened.fd)); err != nil {
		p.close()
		return nil, 0, fmt.Errorf("cannot wait for timers in the process: %w", err)
	}
	return p, time.Duration(opened.tick), nil
}

// watch gives a copy of the descriptor to the runtime's poller.
func (p *process) watch(fd uintptr) error {
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return errno
	}
	p.file = os.NewFile(fd, "libhtw")
	// Fails if the poller has not taken it; then close would not end a read.
	if err := p.file.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	var err error
	p.conn, err = p.file.SyscallConn()
	return err
}

func (p *process) close() {
	if p.closed.Swap(true) {
		return
	}
	runtime.SetFinalizer(p, nil)
	if p.file != nil {
		// Ends the reader's wait, and returns when it has left htw_read. Before htw_close, to
		// have epoll forget the descriptor while it is open.
		p.file.Close()
	}
	C.close_process(p.handle)
}

func (p *process) add(ns, slack, cookie uint64, flags uint32) (uint64, error) {
	added := C.add(p.handle, C.uint64_t(ns), C.uint64_t(slack), C.uint64_t(cookie), C.uint32_t(flags))
	runtime.KeepAlive(p)
	if added.error == 0 {
		return uint64(added.id), nil
	}
	err := error(syscall.Errno(added.error))
	if err == syscall.ENOSPC {
		err = fmt.Errorf("%w (the limit of a wheel in the process is %d timers)", err, processLimit)
	}
	return 0, err
}

func (p *process) rearm(id, ns uint64) error {
	errno := syscall.Errno(C.rearm(p.handle, C.uint64_t(id), C.uint64_t(ns)))
	runtime.KeepAlive(p)
	switch errno {
	case 0:
		return nil
	case syscall.ENOENT:
		return errUnknown
	}
	return errno
}

func (p *process) cancel(id uint64) {
	C.stop(p.handle, C.uint64_t(id))
	runtime.KeepAlive(p)
}

func (p *process) read() ([]event, error) {
	var n C.int
	err := p.conn.Read(func(uintptr) bool {
		n = C.read_events(p.handle, unsafe.Pointer(&p.events[0]), C.uint(len(p.events)))
		// Wait if there is none.
		return n != 0
	})
	switch {
	case p.closed.Load():
		return nil, errClosed
	case err != nil:
		return nil, err
	case n < 0:
		return nil, syscall.Errno(-n)
	}
	return p.events[:n], nil
}
