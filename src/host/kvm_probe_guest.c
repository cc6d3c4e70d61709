/* The probe's guest: see kvm_probe_guest.h. Runs at GUEST_CODE; all addresses are constants. */
#include "host/kvm_probe_guest.h"

#define STEP(number) "	mov $" #number ", %al\n	out %al, $0x10\n"

/* clang-format off */
__asm__("	.pushsection .rodata\n"
	"	.balign 16\n"
	"	.globl kvm_probe_guest_code, kvm_probe_guest_int3, kvm_probe_guest_end\n"
	"	.hidden kvm_probe_guest_code, kvm_probe_guest_int3, kvm_probe_guest_end\n"
	"kvm_probe_guest_code:\n"
	STEP(1)
	/* The operand is zero and compared with zero: it is replaced, ZF is set. */
	"	xor %eax, %eax\n"
	"	xor %edx, %edx\n"
	"	mov $0x5a, %ebx\n"
	"	mov $0xa5, %ecx\n"
	"	cmpxchg16b 0xa000\n"
	"	jnz 1f\n"
	"	cmpq $0xa5, 0xa008\n"
	"	jne 1f\n"
	STEP(2)
	"	xor %ecx, %ecx\n"
	"	xor %edx, %edx\n"
	"	mov $3, %eax\n" /* x87 and SSE */
	"	xsetbv\n"
	STEP(3)
	"	xor %edx, %edx\n"
	"	mov $3, %eax\n"
	"	xrstor 0x9000\n"
	STEP(4)
	"	int3\n"
	STEP(6)
	"1:	hlt\n"
	"	jmp 1b\n"
	"kvm_probe_guest_int3:\n"
	STEP(5)
	"	iretq\n"
	"kvm_probe_guest_end:\n"
	"	.popsection\n");
/* clang-format on */
