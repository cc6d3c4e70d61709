/* Operations on the server itself. */
#include "api/ops_internal.h"

#include "base/json.h"

int op_limits(struct op_call *call, struct err *err)
{
	call->result = core_limits_json(core_limits(call->core));
	return 0;
}

int op_doctor(struct op_call *call, struct err *err)
{
	return core_doctor(call->core, &call->result, err);
}
