/* Credit of the fake core (fake_core.h): answers of the form that the real ones have. */
#include <errno.h>

#include "base/json.h"
#include "core/core.h"

int core_usage(struct core *core, const struct principal *who, const struct core_usage_request *req,
	       json_t **ret, struct err *err)
{
	*ret = json_pack("{s:s, s:I}", "account_id", who->account_id, "balance_microcredits",
			 (json_int_t)0);
	return 0;
}

int core_ledger(struct core *core, const struct principal *who,
		const struct core_ledger_request *req, json_t **ret, struct err *err)
{
	*ret = json_pack("{s:[], s:n}", "items", "next_cursor");
	return 0;
}

int core_grant(struct core *core, const struct principal *who, const struct core_grant_request *req,
	       json_t **ret, struct err *err)
{
	*ret = json_pack("{s:I}", "microcredits", (json_int_t)req->microcredits);
	return 0;
}

int core_ledger_check(struct core *core, json_t **ret, struct err *err)
{
	*ret = json_pack("{s:b}", "ok", 1);
	return 0;
}
