/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of QEMU's interface for plugins that is used: Debian has no package
 * with its header. PLUGIN_VERSION must be one that the QEMU accepts which loads
 * the plugin.
 */
#ifndef BENCH_QEMU_PLUGIN_H
#define BENCH_QEMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QEMU_PLUGIN_CB_NO_REGS	0
#define QEMU_PLUGIN_MEM_RW	3

struct qemu_plugin_tb;
struct qemu_plugin_insn;
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
					   void (*cb)(uint64_t id, struct qemu_plugin_tb *tb));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*cb)(unsigned int cpu, void *pc), int flags,
					    void *pc);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      void (*cb)(unsigned int cpu, uint32_t info, uint64_t vaddr,
						 void *pc),
				      int flags, int rw, void *pc);
unsigned int qemu_plugin_mem_size_shift(uint32_t info);
bool qemu_plugin_mem_is_store(uint32_t info);
char *qemu_plugin_insn_disas(const struct qemu_plugin_insn *insn);

#endif /* BENCH_QEMU_PLUGIN_H */
