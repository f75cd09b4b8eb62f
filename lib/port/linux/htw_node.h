/* SPDX-License-Identifier: MIT */
/* The node of the wheel is the module's */
#include "../../../include/linux/htw_node.h"
