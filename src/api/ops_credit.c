/* Operations on prices, usage and credit. */
#include "api/ops_internal.h"

#include <math.h>

#include "base/json.h"

int op_prices(struct op_call *call, struct err *err)
{
	call->result = core_prices_json(core_limits(call->core));
	return 0;
}

int op_get_usage(struct op_call *call, struct err *err)
{
	const struct core_usage_request req = {
		.account_id = json_get_str(call->args, "account_id", NULL),
		.days = (uint32_t)json_get_int(call->args, "days", 0),
		.limit = (uint32_t)json_get_int(call->args, "limit", 0),
	};

	return core_usage(call->core, &call->who, &req, &call->result, err);
}

int op_list_ledger(struct op_call *call, struct err *err)
{
	const struct core_ledger_request req = {
		.account_id = json_get_str(call->args, "account_id", NULL),
		.after_id = json_get_int(call->args, "cursor", 0),
		.limit = (uint32_t)json_get_int(call->args, "limit", 0),
	};

	return core_ledger(call->core, &call->who, &req, &call->result, err);
}

int op_check_ledger(struct op_call *call, struct err *err)
{
	return core_ledger_check(call->core, &call->result, err);
}

int op_grant_credit(struct op_call *call, struct err *err)
{
	const double credits = json_number_value(json_object_get(call->args, "credits"));
	const struct core_grant_request req = {
		.account_id = json_get_str(call->args, "id", ""),
		.microcredits = llround(credits * (double)MICROCREDITS),
		.reference = json_get_str(call->args, "reference", NULL),
		.note = json_get_str(call->args, "note", NULL),
	};

	return core_grant(call->core, &call->who, &req, &call->result, err);
}
