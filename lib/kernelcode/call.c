/* SPDX-License-Identifier: MIT */
/*
 * Calls code that may do anything, and comes back: on a stack of its own, with
 * known values in the registers that a function has to keep.  A fault, or too
 * much time, ends the call and not the process.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "kernelcode/kernelcode.h"

#define STACK_SIZE (64UL << 10)
#define MARGIN 512 /* above the call, to be found as it was */
#define SIGNAL_STACK (64UL << 10)
#define FILL 0x5a

/* Read and written by the assembly below, by offset. */
struct enter {
	uint64_t code, a, b, c, stack;
	uint64_t result, own_stack, kept, callers_stack;
};

/* Returns like any function, or by kernelcode_leave, which a signal goes on at.
 * @e->kept: 0, where all registers were kept. */
void kernelcode_enter(struct enter *e);
void kernelcode_leave(void);
__attribute__((visibility("hidden"))) struct enter *kernelcode_entered;

#if defined(__x86_64__)
__asm__(".text\n"
	".globl kernelcode_enter, kernelcode_leave\n"
	".hidden kernelcode_enter, kernelcode_leave\n"
	"kernelcode_enter:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	push %r12\n"
	"	push %r13\n"
	"	push %r14\n"
	"	push %r15\n"
	"	mov %rdi, kernelcode_entered(%rip)\n"
	"	mov %rsp, 64(%rdi)\n"
	"	mov (%rdi), %rax\n"
	"	mov 16(%rdi), %rsi\n"
	"	mov 24(%rdi), %rdx\n"
	"	mov 32(%rdi), %rsp\n"
	"	mov 8(%rdi), %rdi\n"
	"	mov $0x1111, %rbx\n"
	"	mov $0x2222, %rbp\n"
	"	mov $0x3333, %r12\n"
	"	mov $0x4444, %r13\n"
	"	mov $0x5555, %r14\n"
	"	mov $0x6666, %r15\n"
	"	call *%rax\n"
	"	mov kernelcode_entered(%rip), %rdi\n"
	"	mov %rax, 40(%rdi)\n"
	"	mov %rsp, 48(%rdi)\n"
	"	xor $0x1111, %rbx\n"
	"	xor $0x2222, %rbp\n"
	"	xor $0x3333, %r12\n"
	"	xor $0x4444, %r13\n"
	"	xor $0x5555, %r14\n"
	"	xor $0x6666, %r15\n"
	"	or %rbp, %rbx\n"
	"	or %r12, %rbx\n"
	"	or %r13, %rbx\n"
	"	or %r14, %rbx\n"
	"	or %r15, %rbx\n"
	"	mov %rbx, 56(%rdi)\n"
	"kernelcode_leave:\n"
	"	mov kernelcode_entered(%rip), %rdi\n"
	"	mov 64(%rdi), %rsp\n"
	"	cld\n"
	"	pop %r15\n"
	"	pop %r14\n"
	"	pop %r13\n"
	"	pop %r12\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n");

static uint64_t go_on_at(ucontext_t *context, uint64_t where)
{
	uint64_t was = (uint64_t)context->uc_mcontext.gregs[REG_RIP];

	context->uc_mcontext.gregs[REG_RIP] = (greg_t)where;
	return was;
}
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl kernelcode_enter, kernelcode_leave\n"
	".hidden kernelcode_enter, kernelcode_leave\n"
	"kernelcode_enter:\n"
	"	stp x29, x30, [sp, #-176]!\n"
	"	stp x19, x20, [sp, #16]\n"
	"	stp x21, x22, [sp, #32]\n"
	"	stp x23, x24, [sp, #48]\n"
	"	stp x25, x26, [sp, #64]\n"
	"	stp x27, x28, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n"
	"	stp d10, d11, [sp, #112]\n"
	"	stp d12, d13, [sp, #128]\n"
	"	stp d14, d15, [sp, #144]\n"
	"	str x18, [sp, #160]\n"
	"	adrp x9, kernelcode_entered\n"
	"	str x0, [x9, :lo12:kernelcode_entered]\n"
	"	mov x10, sp\n"
	"	str x10, [x0, #64]\n"
	"	ldr x9, [x0]\n"
	"	ldp x1, x2, [x0, #16]\n"
	"	ldr x10, [x0, #32]\n"
	"	ldr x0, [x0, #8]\n"
	"	mov sp, x10\n"
	"	mov x19, #0x1111\n"
	"	mov x20, x19\n"
	"	mov x21, x19\n"
	"	mov x22, x19\n"
	"	mov x23, x19\n"
	"	mov x24, x19\n"
	"	mov x25, x19\n"
	"	mov x26, x19\n"
	"	mov x27, x19\n"
	"	mov x28, x19\n"
	"	mov x29, x19\n"
	"	blr x9\n"
	"	adrp x9, kernelcode_entered\n"
	"	ldr x9, [x9, :lo12:kernelcode_entered]\n"
	"	str x0, [x9, #40]\n"
	"	mov x10, sp\n"
	"	str x10, [x9, #48]\n"
	"	mov x11, #0x1111\n"
	"	eor x12, x19, x11\n"
	"	eor x13, x20, x11\n"
	"	orr x12, x12, x13\n"
	"	eor x13, x21, x11\n"
	"	orr x12, x12, x13\n"
	"	eor x13, x22, x11\n"
	"	orr x12, x12, x13\n"
	"	eor x13, x23, x11\n"
	"	orr x12, x12, x13\n"
	"	eor x13, x24, x11\n"
	"	orr x12, x12, x13\n"
	"	eor x13, x25, x11\n"
	"	orr x12, x12, x13\n"
	"	eor x13, x26, x11\n"
	"	orr x12, x12, x13\n"
	"	eor x13, x27, x11\n"
	"	orr x12, x12, x13\n"
	"	eor x13, x28, x11\n"
	"	orr x12, x12, x13\n"
	"	eor x13, x29, x11\n"
	"	orr x12, x12, x13\n"
	"	str x12, [x9, #56]\n"
	"kernelcode_leave:\n"
	"	adrp x9, kernelcode_entered\n"
	"	ldr x9, [x9, :lo12:kernelcode_entered]\n"
	"	ldr x10, [x9, #64]\n"
	"	mov sp, x10\n"
	"	ldr x18, [sp, #160]\n"
	"	ldp d14, d15, [sp, #144]\n"
	"	ldp d12, d13, [sp, #128]\n"
	"	ldp d10, d11, [sp, #112]\n"
	"	ldp d8, d9, [sp, #96]\n"
	"	ldp x27, x28, [sp, #80]\n"
	"	ldp x25, x26, [sp, #64]\n"
	"	ldp x23, x24, [sp, #48]\n"
	"	ldp x21, x22, [sp, #32]\n"
	"	ldp x19, x20, [sp, #16]\n"
	"	ldp x29, x30, [sp], #176\n"
	"	ret\n");

static uint64_t go_on_at(ucontext_t *context, uint64_t where)
{
	uint64_t was = context->uc_mcontext.pc;

	context->uc_mcontext.pc = where;
	return was;
}
#else
void kernelcode_enter(struct enter *e)
{
	e->kept = 1;
}
void kernelcode_leave(void)
{
}
static uint64_t go_on_at(ucontext_t *context, uint64_t where)
{
	(void)context;
	return where;
}
#endif

static uint8_t *stack;
static volatile sig_atomic_t entered;
static bool out_of_time;
static struct {
	int signal;
	uint64_t at; /* what it touched */
	uint64_t from; /* the instruction */
} ended;

static void on_signal(int number, siginfo_t *info, void *context)
{
	/* Outside of a call it is this program's own fault, which ends it. */
	if (!entered) {
		if (number != SIGVTALRM)
			signal(number, SIG_DFL);
		out_of_time |= number == SIGVTALRM;
		return;
	}
	ended.signal = number;
	ended.at = (uintptr_t)info->si_addr;
	ended.from = go_on_at(context, (uintptr_t)kernelcode_leave);
}

bool kernelcode_call_prepare(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGVTALRM };
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
	stack_t alternate = { .ss_size = SIGNAL_STACK };

	/* Guards at both ends of the stack. */
	stack = mmap(NULL, STACK_SIZE * 3, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	alternate.ss_sp = mmap(NULL, SIGNAL_STACK, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED || alternate.ss_sp == MAP_FAILED)
		return false;
	stack += STACK_SIZE;
	if (mprotect(stack, STACK_SIZE, PROT_READ | PROT_WRITE) || sigaltstack(&alternate, NULL))
		return false;
	memset(stack, FILL, STACK_SIZE);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigaction(signals[i], &action, NULL))
			return false;
	return true;
}

static bool margin_is_whole(void)
{
	for (size_t i = STACK_SIZE - MARGIN; i < STACK_SIZE; i++)
		if (stack[i] != FILL)
			return false;
	return true;
}

static bool say_how_it_ended(struct kernelcode_why *why)
{
	const char *symbol = kernelcode_trapped(ended.at);

	if (ended.signal == SIGVTALRM) {
		out_of_time = true;
		return kernelcode_fails(why, "The function did not return.");
	}
	if (!symbol)
		symbol = kernelcode_trapped(ended.from);
	if (symbol)
		return kernelcode_fails(why, "The function uses %s, which is not here.", symbol);
	return kernelcode_fails(why, "The function was stopped by signal %d.", ended.signal);
}

bool kernelcode_call(const void *code, uint64_t a, uint64_t b, uint64_t c, uint64_t *result,
		     struct kernelcode_why *why)
{
	struct enter e = { .code = (uintptr_t)code,
			   .a = a,
			   .b = b,
			   .c = c,
			   .stack = (uintptr_t)stack + STACK_SIZE - MARGIN };

	if (out_of_time)
		return kernelcode_fails(why, "The functions took too long.");
	ended.signal = 0;
	entered = 1;
	kernelcode_enter(&e);
	entered = 0;
	if (ended.signal)
		return say_how_it_ended(why);
	if (e.kept || e.own_stack != e.stack || !margin_is_whole())
		return kernelcode_fails(
			why, "The function did not keep the stack and the registers as they were.");
	*result = e.result;
	return true;
}
