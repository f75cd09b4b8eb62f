// SPDX-License-Identifier: MIT
/*
 * WebAssembly: libc.c's machine, whose output and end are imported. wasm.mjs runs it.
 */
#include "bare.h"

__attribute__((import_module("env"), import_name("write")))
void host_write(const char *text, size_t length);
__attribute__((import_module("env"), import_name("exit")))
_Noreturn void host_exit(int status);

/* Where the linker's own data ends. */
extern char __heap_base[];

void bare_write(const char *text, size_t length)
{
	host_write(text, length);
}

void bare_exit(int status)
{
	host_exit(status);
}

void *bare_memory(size_t *size)
{
	char *from = __heap_base + (-(size_t)__heap_base & 15);

	*size = __builtin_wasm_memory_size(0) * 65536 - (size_t)from;
	return from;
}

__attribute__((export_name("run")))
void run_all(void)
{
	bare_exit(bare_main());
}
