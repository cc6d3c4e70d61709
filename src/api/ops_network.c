/* Operations on what sandboxes may reach, and on private networks. */
#include "api/ops_internal.h"

#include "base/json.h"
#include "base/str.h"

static const char *sandbox_id(const struct op_call *call)
{
	return json_get_str(call->args, "id", "");
}

/* ---- egress ---- */

static json_t *egress_json(const struct op_call *call, json_t *rules)
{
	json_t *json = json_object();

	json_put_str(json, "id", sandbox_id(call));
	json_put(json, "rules", rules);
	return json;
}

int op_get_egress(struct op_call *call, struct err *err)
{
	json_t *rules;
	int rc = core_egress_get(call->core, &call->who, sandbox_id(call), &rules, err);

	if (rc == 0)
		call->result = egress_json(call, rules);
	return rc;
}

int op_set_egress(struct op_call *call, struct err *err)
{
	json_t *rules;
	int rc = core_egress_set(call->core, &call->who, sandbox_id(call),
				 json_object_get(call->args, "rules"), &rules, err);

	if (rc == 0)
		call->result = egress_json(call, rules);
	return rc;
}

int op_change_egress(struct op_call *call, struct err *err)
{
	json_t *rules;
	int rc = core_egress_change(call->core, &call->who, sandbox_id(call),
				    json_object_get(call->args, "add"),
				    json_object_get(call->args, "remove"), &rules, err);

	if (rc == 0)
		call->result = egress_json(call, rules);
	return rc;
}

int op_list_denials(struct op_call *call, struct err *err)
{
	uint64_t unreported;
	json_t *items;
	int rc = core_egress_denials(call->core, &call->who, sandbox_id(call), &items, &unreported,
				     err);

	if (rc < 0)
		return rc;
	call->result = json_object();
	json_put(call->result, "items", items);
	json_put_str(call->result, "next_cursor", NULL);
	json_put_int(call->result, "unreported", (json_int_t)unreported);
	return 0;
}

/* ---- networks ---- */

static json_t *member_json(const char *network, const struct core_network_member *member)
{
	_cleanup_buf_ struct buf host = BUF_INIT;
	json_t *json = json_object();

	buf_printf(&host, "%s.%s.internal", member->name, network);
	json_put_str(json, "id", member->sandbox_id);
	json_put_str(json, "name", member->name);
	json_put_str(json, "host", buf_str(&host));
	json_put_str(json, "address", member->address[0] ? member->address : NULL);
	return json;
}

static json_t *network_json(const struct core_network *network)
{
	json_t *json = json_object(), *members = json_array();

	for (size_t i = 0; i < network->n_members; i++)
		json_array_append_new(members, member_json(network->name, &network->members[i]));
	json_put_str(json, "name", network->name);
	json_put_time(json, "created_at", network->created_unix_ms);
	json_put(json, "members", members);
	return json;
}

int op_create_network(struct op_call *call, struct err *err)
{
	struct core_network network = { 0 };
	int rc;

	str_copy(network.name, sizeof(network.name), json_get_str(call->args, "name", ""));
	rc = core_network_create(call->core, &call->who, network.name, &network.created_unix_ms,
				 err);
	if (rc == 0)
		call->result = network_json(&network);
	return rc;
}

int op_list_networks(struct op_call *call, struct err *err)
{
	struct core_network *networks;
	json_t *items;
	size_t n;
	int rc = core_network_list(call->core, &call->who, &networks, &n, err);

	if (rc < 0)
		return rc;
	items = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(items, network_json(&networks[i]));
	core_networks_free(networks, n);
	call->result = json_object();
	json_put(call->result, "items", items);
	json_put_str(call->result, "next_cursor", NULL);
	return 0;
}

int op_remove_network(struct op_call *call, struct err *err)
{
	const char *name = json_get_str(call->args, "name", "");
	int rc = core_network_remove(call->core, &call->who, name, err);

	if (rc < 0)
		return rc;
	call->result = json_object();
	json_put_str(call->result, "name", name);
	return 0;
}

int op_join_network(struct op_call *call, struct err *err)
{
	const char *network = json_get_str(call->args, "name", "");
	struct core_network_member member;
	int rc = core_network_join(call->core, &call->who, network, sandbox_id(call),
				   json_get_str(call->args, "as", NULL), &member, err);

	if (rc < 0)
		return rc;
	call->result = member_json(network, &member);
	json_put_str(call->result, "network", network);
	return 0;
}

int op_leave_network(struct op_call *call, struct err *err)
{
	const char *network = json_get_str(call->args, "name", "");
	int rc = core_network_leave(call->core, &call->who, network, sandbox_id(call), err);

	if (rc < 0)
		return rc;
	call->result = json_object();
	json_put_str(call->result, "id", sandbox_id(call));
	json_put_str(call->result, "network", network);
	return 0;
}
