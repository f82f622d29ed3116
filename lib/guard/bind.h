/* SPDX-License-Identifier: MIT */
/* Between the audit library and the guard, which live in one process and in two
 * namespaces of the loader. */
#ifndef GUARD_BIND_H
#define GUARD_BIND_H

#include <stdint.h>

/**
 * mrguard_guard_bind() - the guard's function that replaces another
 * @name: of the symbol
 * @address: of the function that it would be bound to
 * @base: where that function's library is loaded
 *
 * The audit library calls it with the loader's lock held: it calls nothing.
 *
 * Return: an entry of the guard; @address where the guard has none (left).
 */
__attribute__((visibility("default"))) uintptr_t
mrguard_guard_bind(const char *name, uintptr_t address, uintptr_t base);

#endif
