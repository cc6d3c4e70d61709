/* The part of the operations table on prices, usage and credit. Included by ops_table.c alone. */
#pragma once

#include "api/ops_table_words.h"

#define LIST_OF_OBJECTS "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}"

static const struct op_result_field prices_results[] = {
	{ "microcredits_per_credit", INTEGER, "All amounts are whole micro-credits", false, false },
	{ "vcpu_microcredits_per_second", INTEGER, "Of one vCPU", false, false },
	{ "memory_gb_microcredits_per_second", INTEGER, "Of one GiB", false, false },
	{ "disk_gb_microcredits_per_second", INTEGER, "Of one GiB", false, false },
	{ "sizes", LIST_OF_OBJECTS, "What each size costs, with its own price or that of its parts",
	  false, false },
	{ "hold_seconds", INTEGER, "Of running are kept aside for what is about to run", false,
	  false },
	{ "starting_credits", INTEGER, "Of a new account", false, false },
};

#define USAGE_ACCOUNT_ARG                                                                          \
	{                                                                                          \
		.name = "account_id", .type = ARG_STRING, .min = 1, .max = 64,                     \
		.description = "Of this account instead of your own: administrators"               \
	}

static const struct op_arg usage_args[] = {
	USAGE_ACCOUNT_ARG,
	{ .name = "days",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .max = 366,
	  .default_json = "30",
	  .description = "So many of the newest days that have charges" },
	{ .name = "limit",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .max = 200,
	  .default_json = "50",
	  .description = "So many keys, and sandboxes, of those charged last" },
};

static const struct op_result_field usage_results[] = {
	{ "account_id", STRING, "", false, false },
	{ "unlimited", BOOLEAN, "Its balance may be below zero", false, false },
	{ "granted_microcredits", INTEGER, "", false, false },
	{ "charged_microcredits", INTEGER, "", false, false },
	{ "balance_microcredits", INTEGER, "Granted less charged", false, false },
	{ "uncharged_microcredits", INTEGER, "What runs has cost since it was charged last", false,
	  false },
	{ "held_microcredits", INTEGER, "Kept aside beside that", false, false },
	{ "available_microcredits", INTEGER, "The balance less both", false, false },
	{ "running", INTEGER, "Sandboxes that run", false, false },
	{ "microcredits_per_second", INTEGER, "What they cost", false, false },
	{ "seconds_to_zero", INTEGER_OR_NULL, "At this rate; null: it does not end", false, false },
	{ "zero_at", TIME_OR_NULL, "", false, false },
	{ "by_day", LIST_OF_OBJECTS, "day (UTC), microcredits, running_seconds; newest first",
	  false, false },
	{ "by_key", LIST_OF_OBJECTS, "key_id, label and the same", false, false },
	{ "by_sandbox", LIST_OF_OBJECTS, "sandbox_id, name and the same", false, false },
};

static const struct op_arg ledger_args[] = {
	USAGE_ACCOUNT_ARG,
	{ .name = "cursor",
	  .type = ARG_INTEGER,
	  .min = 0,
	  .max = INT64_MAX,
	  .default_json = "0",
	  .description = "Id of an entry: what follows it" },
	{ .name = "limit",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .max = 1000,
	  .default_json = "100",
	  .description = "Entries of a page" },
};

static const struct op_result_field ledger_check_results[] = {
	{ "ok", BOOLEAN, "Everything that must hold does", false, false },
	{ "accounts", INTEGER, "", false, false },
	{ "entries", INTEGER, "", false, false },
	{ "runs", INTEGER, "Runs of sandboxes that were charged", false, false },
	{ "granted_microcredits", INTEGER, "Of all accounts", false, false },
	{ "charged_microcredits", INTEGER, "", false, false },
	{ "balance_microcredits", INTEGER, "", false, false },
	{ "findings", INTEGER, "How many things are wrong", false, false },
	{ "first_finding", STRING_OR_NULL, "", false, false },
};

static const struct op_arg grant_args[] = {
	{ .name = "id",
	  .type = ARG_STRING,
	  .flags = ARG_REQUIRED | ARG_IN_PATH,
	  .min = 1,
	  .max = 64,
	  .description = "Account id" },
	{ .name = "credits",
	  .type = ARG_NUMBER,
	  .flags = ARG_REQUIRED,
	  .min = 1,
	  .max = CORE_GRANT_MAX / 1000,
	  .description = "How many, rounded to micro-credits" },
	{ .name = "reference",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = 128,
	  .description =
		  "The same reference is the same grant: a request that is sent again grants "
		  "nothing more" },
	{ .name = "note", .type = ARG_STRING, .min = 1, .max = 256, .description = "For people" },
};

static const struct op_result_field grant_results[] = {
	{ "id", INTEGER, "Of the entry in the account's ledger", false, false },
	{ "at", TIME, "", false, false },
	{ "kind", STRING, "", false, false },
	{ "debit", STRING, "What it was taken from", false, false },
	{ "credit", STRING, "What it was given to: the account", false, false },
	{ "microcredits", INTEGER, "", false, false },
	{ "reference", STRING_OR_NULL, "", false, false },
	{ "note", STRING_OR_NULL, "", false, false },
};
