/* SPDX-License-Identifier: MIT */
/* Between the audit library and the guard, which live in one process and in two
 * namespaces of the loader. */
#ifndef GUARD_BIND_H
#define GUARD_BIND_H

#include <stdint.h>

/**
 * mrguard_guard_bind() - the guard's function to stand before another
 * @name: of the symbol
 * @address: what it would be bound to
 * @base: where the library that has it is loaded
 *
 * Called by the audit library, with the loader's lock held: it calls nothing.
 *
 * Return: an entry of the guard; @address where there is none (left).
 */
__attribute__((visibility("default"))) uintptr_t
mrguard_guard_bind(const char *name, uintptr_t address, uintptr_t base);

/* Bindings for which no entry was left. */
unsigned long guard_bind_unseen(void);

#endif
