/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <mrguard/host.h>
#include "commands.h"

int cmd_info(int argc, char **argv)
{
	struct mrg_rdma_dev *devs;
	ssize_t count = mrg_rdma_list(NULL, &devs);

	(void)argc; (void)argv;
	for (ssize_t i = 0; i < count; i++)
		printf("%s %s %s\n", devs[i].name, devs[i].driver, devs[i].netdev);
	return EXIT_OK;
}
