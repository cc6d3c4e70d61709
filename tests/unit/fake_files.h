/*
 * Files of the core without machines: of its sandbox "sbx_aa", by their path.
 *
 *	"hello"    "hello, files\n"
 *	"big"      FAKE_BIG_BYTES of 'b'
 *	"proc"     "from the kernel\n", of a size that is not known beforehand
 *	"denied"   may neither be read nor written
 *	"full"     its disk is full after FAKE_FULL_BYTES
 *	"broken"   breaks off after 4 bytes
 *	"dir"      has the entries "a", "b" and the byte ff
 *	otherwise  not there; may be written
 */
#pragma once

#include "core/files.h"

#define FAKE_BIG_BYTES	(8u << 20)
#define FAKE_FULL_BYTES (64u << 10)

int fake_files_open(void);	    /* transfers under way */
uint64_t fake_files_sent(void);	    /* bytes that downloads sent so far */
uint64_t fake_files_received(void); /* bytes of uploads that were complete */
