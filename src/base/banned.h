/*
 * Included by the build into every file: functions that invite overflow or injection, or that
 * answer in storage which all threads share, do not compile. The headers that declare them come
 * first, so that the macros meet calls and never declarations.
 */
#pragma once

#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BANNED(func) sorry_##func##_is_a_banned_function

#undef strcpy
#define strcpy(x, y) BANNED(strcpy)
#undef strcat
#define strcat(x, y) BANNED(strcat)
#undef strncpy
#define strncpy(x, y, n) BANNED(strncpy)
#undef strncat
#define strncat(x, y, n) BANNED(strncat)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef strtok
#define strtok(x, y) BANNED(strtok)
#undef atoi
#define atoi(x) BANNED(atoi)
#undef atol
#define atol(x) BANNED(atol)
#undef system
#define system(x) BANNED(system)
#undef gets
#define gets(x) BANNED(gets)

/* One buffer for all threads: use the _r sibling. */
#undef getmntent
#define getmntent(x) BANNED(getmntent)
#undef localtime
#define localtime(x) BANNED(localtime)
#undef gmtime
#define gmtime(x) BANNED(gmtime)
#undef asctime
#define asctime(x) BANNED(asctime)
#undef ctime
#define ctime(x) BANNED(ctime)
