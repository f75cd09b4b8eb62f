// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl - inspect and use htw from the command line
 *
 * See htwctl(1). The first word that is not an option is the subcommand; the
 * words after it are the subcommand's.
 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "htwctl.h"

static const struct command commands[] = {
	{ "info", "show the module, its features, limits and parameters", cmd_info },
	{ "add", "start timers and print their expirations", cmd_add },
	{ "watch", "print the expirations of a descriptor", cmd_watch },
	{ "list", "list descriptors of all processes, or timers of some", cmd_list },
	{ "cancel", "stop timers of a descriptor", cmd_cancel },
	{ "stat", "show counters of users and descriptors, or rates (root)", cmd_stat },
	{ "trace", "print timer events as they happen (root)", cmd_trace },
	{ "top", "show users and descriptors on a screen (root)", cmd_top },
	{ "bench", "measure operations on this machine, in ns", cmd_bench },
};

const char *argp_program_version = "htwctl " HTW_VERSION;

static const struct command *command;
static char **command_argv;
static int command_argc;

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'D':
		opt.device = arg;
		return 0;
	case ARGP_KEY_ARG:
		for (unsigned int i = 0; i < ARRAY_SIZE(commands); i++)
			if (!strcmp(arg, commands[i].name))
				command = &commands[i];
		if (!command)
			argp_error(state, "unknown command '%s'; see --help", show_text(arg));
		/* The remaining words are the subcommand's. */
		command_argv = state->argv + state->next - 1;
		command_argc = state->argc - state->next + 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Generate the list of commands from the table. */
static char *help_filter(int key, const char *text, void *input)
{
	char *help = NULL;
	size_t size;
	FILE *out;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	out = open_memstream(&help, &size);
	if (!out)
		return NULL;
	fputs("Commands:\n", out);
	for (unsigned int i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
	fputs("\n\"htwctl COMMAND -h\" describes a command and shows examples. "
	      "Durations: 250us, 10ms, 1.5s, 30m, 2h, 1d; seconds without a unit.\n\n"
	      "Examples:\n"
	      "  htwctl add 5s --every 1s --count 3\n"
	      "  sudo htwctl list\n"
	      "  sudo htwctl top\n\n"
	      "Exit status: 0 done, 1 failed, 2 wrong usage, 3 no device, 4 permission denied, "
	      "5 no such timer, process or descriptor, 6 a limit was reached, "
	      "7 not supported by this kernel.", out);
	fclose(out);
	return help;
}

/*
 * Without a standard descriptor the next file that is opened would get its
 * number, and what is printed would go to a device or a control file. Open
 * stand-ins that cannot be written, or read, so that an error is reported.
 */
static void hold_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			_exit(HTWCTL_FAILED);
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "device", 'D', "PATH", 0, "the device (default /dev/htw)", 0 },
		{ 0 }
	};
	static const struct argp_child children[] = {
		{ &help_argp, 0, NULL, 0 }, { 0 }
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "COMMAND [ARGUMENT...]",
		.doc = "Inspect and use htw, the timers of /dev/htw, from the command line.\v ",
		.help_filter = help_filter,
		.children = children,
	};
	char name[32];

	hold_standard_descriptors();
	on_exit(check_output, NULL);
	/* For the screen of top. Numbers keep their decimal point, also in JSON. */
	setlocale(LC_CTYPE, "");
	argp_err_exit_status = HTWCTL_USAGE;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
	snprintf(name, sizeof(name), "htwctl %s", command->name);
	command_argv[0] = name;
	return command->run(command_argc, command_argv);
}
