/* The table of commands as JSON: how a program, or an agent, learns this one. */
#include <string.h>

#include "base/json.h"
#include "cli/help.h"

static json_t *choices_json(const char *const *choices)
{
	json_t *list = json_array();

	for (size_t i = 0; choices[i]; i++)
		json_array_append_new(list, json_string(choices[i]));
	return list;
}

static json_t *operand_json(const struct cli_operand *operand)
{
	json_t *json = json_object();

	json_put_str(json, "name", operand->name);
	json_put_str(json, "help", operand->help);
	json_put(json, "optional", json_boolean(operand->optional));
	json_put(json, "repeat", json_boolean(operand->repeat));
	if (operand->choices)
		json_put(json, "choices", choices_json(operand->choices));
	return json;
}

static json_t *option_json(const struct cli_option *option)
{
	const char letter[2] = { option->letter, '\0' };
	json_t *json = json_object();

	json_put_str(json, "name", option->name);
	json_put_str(json, "letter", option->letter ? letter : NULL);
	json_put_str(json, "value", option->metavar);
	json_put_str(json, "help", option->help);
	json_put(json, "repeat", json_boolean(option->repeat));
	if (option->choices)
		json_put(json, "choices", choices_json(option->choices));
	return json;
}

static json_t *options_json(const struct cli_option *options, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, option_json(&options[i]));
	return list;
}

static json_t *command_json(const struct cli_command *command)
{
	json_t *json = json_object(), *operands = json_array(), *examples = json_array();
	_cleanup_buf_ struct buf synopsis = BUF_INIT;

	help_synopsis(command, &synopsis);
	for (size_t i = 0; i < command->n_operands; i++)
		json_array_append_new(operands, operand_json(&command->operands[i]));
	for (size_t i = 0; i < command->n_examples; i++) {
		json_t *example = json_object();

		json_put_str(example, "what", command->examples[i].what);
		json_put_str(example, "command", command->examples[i].command);
		json_array_append_new(examples, example);
	}
	json_put_str(json, "name", command->name);
	json_put_str(json, "synopsis", buf_str(&synopsis));
	json_put_str(json, "summary", command->summary);
	json_put_str(json, "detail", command->detail);
	json_put(json, "operands", operands);
	json_put(json, "options", options_json(command->options, command->n_options));
	json_put(json, "examples", examples);
	return json;
}

json_t *help_json(const char *name)
{
	const struct cli_command *const *commands;
	const struct cli_option *common;
	json_t *json, *list = json_array();
	size_t n, n_common, len = strlen(name);

	commands = cli_commands(&n);
	for (size_t i = 0; i < n; i++) {
		const char after =
			strncmp(commands[i]->name, name, len) == 0 ? commands[i]->name[len] : 'x';

		if (len == 0 || after == '\0' || after == ' ')
			json_array_append_new(list, command_json(commands[i]));
	}
	if (json_array_size(list) == 0) {
		json_decref(list);
		return NULL;
	}
	json = json_object();
	common = cli_common_options(&n_common);
	json_put(json, "commands", list);
	json_put(json, "common_options", options_json(common, n_common));
	return json;
}
