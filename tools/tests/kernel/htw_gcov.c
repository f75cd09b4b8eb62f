// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keeps what gcov counts in htw, on a kernel without gcov of its own, for tools/coverage
 *
 * With make GCOV=1 gcc puts counters into htw's objects, and into each one a constructor that
 * passes a description of these to __gcov_init(). Kernels of distributions call no constructors of
 * modules, so they are called from here when htw is loaded. When it is unloaded, also because its
 * init has failed, the counts are added to those of earlier times. /sys/kernel/debug/htw_gcov has
 * the sums:
 *
 *	file PATH VERSION STAMP CHECKSUM
 *	function IDENT LINENO-CHECKSUM CFG-CHECKSUM COUNT...
 *
 * with the numbers in hexadecimal, as tools/gcov/counts.py writes them to a file for gcov.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/export.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "htw_gcov.h"

/* The sums of a function. */
struct sums {
	unsigned int ident;
	unsigned int lineno_checksum;
	unsigned int cfg_checksum;
	unsigned int num;
	s64 *values;
};

/* The sums of an object. */
struct object {
	struct list_head link;
	char *path;
	unsigned int version;
	unsigned int stamp;
	unsigned int checksum;
	unsigned int n_functions;
	struct sums functions[];
};

/* Guards the following. */
static DEFINE_MUTEX(lock);
/* The objects of htw while it is loaded. */
static struct gcov_info *loaded;
static LIST_HEAD(objects);
static struct dentry *dentry;

/* Called by the constructors, with the lock held. */
void __gcov_init(struct gcov_info *info)
{
	info->next = loaded;
	loaded = info;
}
EXPORT_SYMBOL_GPL(__gcov_init);

/* Objects refer to these, but here nothing calls them. */
void __gcov_exit(void)
{
}
EXPORT_SYMBOL_GPL(__gcov_exit);

void __gcov_merge_add(s64 *counts, unsigned int n)
{
}
EXPORT_SYMBOL_GPL(__gcov_merge_add);

static void free_object(struct object *o)
{
	for (unsigned int i = 0; i < o->n_functions; i++)
		kvfree(o->functions[i].values);
	kfree(o->path);
	kvfree(o);
}

static struct object *new_object(const struct gcov_info *info)
{
	struct object *o = kvzalloc(struct_size(o, functions, info->n_functions), GFP_KERNEL);

	if (!o)
		return NULL;
	o->path = kstrdup(info->filename, GFP_KERNEL);
	o->version = info->version;
	o->stamp = info->stamp;
	o->checksum = info->checksum;
	o->n_functions = info->n_functions;
	if (!o->path)
		goto fail;

	for (unsigned int i = 0; i < o->n_functions; i++) {
		const struct gcov_fn_info *fn = info->functions[i];
		struct sums *sums = &o->functions[i];

		/* A function that another object has. */
		if (!fn || fn->key != info)
			continue;
		sums->ident = fn->ident;
		sums->lineno_checksum = fn->lineno_checksum;
		sums->cfg_checksum = fn->cfg_checksum;
		sums->num = fn->arcs.num;
		sums->values = kvcalloc(sums->num, sizeof(*sums->values), GFP_KERNEL);
		if (!sums->values)
			goto fail;
	}
	list_add_tail(&o->link, &objects);
	return o;

fail:
	free_object(o);
	return NULL;
}

static struct object *find_object(const struct gcov_info *info)
{
	struct object *o;

	list_for_each_entry(o, &objects, link)
		if (o->stamp == info->stamp && !strcmp(o->path, info->filename))
			return o;
	return new_object(info);
}

static void save(void)
{
	for (struct gcov_info *info = loaded; info; info = info->next) {
		struct object *o = find_object(info);

		if (!o) {
			pr_err("no memory for the counts of %s\n", info->filename);
			continue;
		}
		for (unsigned int i = 0; i < o->n_functions; i++)
			for (unsigned int c = 0; c < o->functions[i].num; c++)
				o->functions[i].values[c] += info->functions[i]->arcs.values[c];
	}
	loaded = NULL;
}

static void call_constructors(struct module *mod)
{
	const struct mod_kallsyms *symbols = mod->kallsyms;

	for (unsigned int i = 0; i < symbols->num_symtab; i++)
		if (strstarts(symbols->strtab + symbols->symtab[i].st_name, "_sub_I_00100_"))
			((void (*)(void))symbols->symtab[i].st_value)();
	if (!loaded)
		pr_err("%s counts nothing\n", mod->name);
}

static int notify(struct notifier_block *nb, unsigned long state, void *data)
{
	struct module *mod = data;

	if (strcmp(mod->name, "htw"))
		return NOTIFY_DONE;
	mutex_lock(&lock);
	if (state == MODULE_STATE_COMING)
		call_constructors(mod);
	else if (state == MODULE_STATE_GOING)
		save();
	mutex_unlock(&lock);
	return NOTIFY_OK;
}

static struct notifier_block notifier = { .notifier_call = notify };

static int htw_gcov_show(struct seq_file *m, void *unused)
{
	struct object *o;

	mutex_lock(&lock);
	list_for_each_entry(o, &objects, link) {
		seq_printf(m, "file %s %x %x %x\n", o->path, o->version, o->stamp, o->checksum);
		for (unsigned int i = 0; i < o->n_functions; i++) {
			const struct sums *sums = &o->functions[i];

			if (!sums->num)
				continue;
			seq_printf(m, "function %x %x %x", sums->ident, sums->lineno_checksum,
				   sums->cfg_checksum);
			for (unsigned int c = 0; c < sums->num; c++)
				seq_printf(m, " %llx", sums->values[c]);
			seq_putc(m, '\n');
		}
	}
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(htw_gcov);

static int __init htw_gcov_init(void)
{
	int ret = register_module_notifier(&notifier);

	if (!ret)
		dentry = debugfs_create_file("htw_gcov", 0400, NULL, NULL, &htw_gcov_fops);
	return ret;
}

static void __exit htw_gcov_exit(void)
{
	struct object *o, *next;

	debugfs_remove(dentry);
	unregister_module_notifier(&notifier);
	list_for_each_entry_safe(o, next, &objects, link)
		free_object(o);
}

module_init(htw_gcov_init);
module_exit(htw_gcov_exit);

MODULE_DESCRIPTION("What gcov counts in htw");
MODULE_LICENSE("GPL");
