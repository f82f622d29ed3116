/* SPDX-License-Identifier: MIT */
/* Enables mrguard-cap.service as `systemctl enable' does, also where no systemd runs. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cap.h"
#include "tools/commands.h"
#include "tools/fail.h"

#define UNIT "mrguard-cap.service"
#define WANTS "/etc/systemd/system/basic.target.wants"

static const char *find_unit(void)
{
	static const char *const places[] = {
		"/etc/systemd/system/" UNIT,
		"/usr/local/lib/systemd/system/" UNIT,
		"/usr/lib/systemd/system/" UNIT,
		"/lib/systemd/system/" UNIT,
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (!access(places[i], F_OK))
			return places[i];
	return NULL;
}

static int make_link(const char *unit)
{
	static const char *const dirs[] = { "/etc/systemd", "/etc/systemd/system", WANTS };

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		if (mkdir(dirs[i], 0755) && errno != EEXIST)
			return -errno;
	if (unlink(WANTS "/" UNIT) && errno != ENOENT)
		return -errno;
	return symlink(unit, WANTS "/" UNIT) ? -errno : 0;
}

static int enable_unit(void)
{
	const char *unit = find_unit();
	int ret;

	if (!unit) {
		fail_say("Install the package mrguard, or run 'make install' in its source.",
			 "The unit " UNIT " is not installed.");
		return EXIT_FAILED;
	}
	ret = make_link(unit);
	if (ret) {
		fail_say("", "The unit " UNIT " cannot be enabled: %s: %s.", WANTS, strerror(-ret));
		return EXIT_FAILED;
	}
	if (!mrg_cap_is_for_boot()) {
		fail_say("Run 'systemctl unmask " UNIT "'.", "The unit " UNIT " is masked.");
		return EXIT_FAILED;
	}
	if (access("/run/systemd/system", F_OK))
		fail_say("",
			 "No systemd runs here; " UNIT " is enabled for one that boots this root.");
	return EXIT_OK;
}

int cap_for_boot(bool enable)
{
	if (enable)
		return enable_unit();
	if (!unlink(WANTS "/" UNIT) || errno == ENOENT)
		return EXIT_OK;
	fail_say("", "The unit " UNIT " cannot be disabled: %s: %s.", WANTS, strerror(errno));
	return EXIT_FAILED;
}
