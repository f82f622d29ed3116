/* SPDX-License-Identifier: MIT */
#include "guard/bind.h"
#include "guard/entry.h"

uintptr_t mrguard_guard_bind(const char *name, uintptr_t address, uintptr_t base)
{
	enum guard_call call;
	unsigned int lib = guard_real_note(name, address, base, &call);

	return lib ? (uintptr_t)guard_entries[lib][call] : address;
}
