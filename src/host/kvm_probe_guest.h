/* The probe's guest: its code, where things lie in its memory, and what it says at each step. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GUEST_MEMORY_SIZE 0x10000u
#define GUEST_PML4	  0x1000u
#define GUEST_PDPT	  0x2000u
#define GUEST_PD	  0x3000u
#define GUEST_IDT	  0x4000u
#define GUEST_GDT	  0x4800u
#define GUEST_TSS	  0x5000u
#define GUEST_CODE	  0x6000u
#define GUEST_STACK_TOP	  0x9000u
#define GUEST_XSAVE_AREA  0x9000u /* one page of zeros: XRSTOR sets the initial state */
#define GUEST_OPERAND	  0xa000u /* 16 bytes of zeros for CMPXCHG16B */
#define GUEST_PORT	  0x10u	  /* each step ends with its number written to this port */

enum guest_step {
	GUEST_NOTHING,
	GUEST_LONG_MODE,
	GUEST_CMPXCHG16B,
	GUEST_XSETBV,
	GUEST_XRSTOR,
	GUEST_INT3_HANDLER,
	GUEST_INT3_RETURN, /* the last */
};

extern const uint8_t kvm_probe_guest_code[];
extern const uint8_t kvm_probe_guest_int3[]; /* the handler, within the code */
extern const uint8_t kvm_probe_guest_end[];
