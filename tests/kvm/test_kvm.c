/*
 * The VM layer on KVM: probe, boot, template, restore, commands, end. Runs wherever KVM works;
 * test_nested runs it in a machine whose processor is emulated with SVM, for hosts that have none
 * to lend.
 */
#include "vmm_fixture.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

static void assert_shell(struct machine_run *m, const char *user, const char *command,
			 const char *expected)
{
	_cleanup_free_ char *said = shell(&m->guest, user, command);

	assert_string_equal(said, expected);
}

static void probe_guest_runs(void **state)
{
	assert_int_equal(vmm_driver_isolation(fixture.driver), VMM_KVM);
	assert_string_equal(vmm_driver_isolation_reason(fixture.driver),
			    "a probe guest ran under /dev/kvm");
	assert_true(str_starts(vmm_driver_fingerprint(fixture.driver), "qemu-kvm-"));
}

static void restored_machine_answers(void **state)
{
	struct residue before = residue_count(&fixture);
	int64_t from_ms, answer_ms, exec_ms;
	struct machine_run m;

	machine_prepare(&m, &fixture);
	from_ms = clock_boottime_ms();
	machine_start(&m);
	machine_connect(&m);
	answer_ms = clock_boottime_ms() - from_ms;
	from_ms = clock_boottime_ms();
	assert_shell(&m, NULL, "echo $((6 * 7))", "42");
	exec_ms = clock_boottime_ms() - from_ms;
	print_message("# boot to the agent's answer %lld ms; restore to running %lld ms, to the "
		      "agent's answer %lld ms; first command %lld ms\n",
		      (long long)fixture.boot_ms, (long long)m.start_us / 1000,
		      (long long)answer_ms, (long long)exec_ms);
	machine_disconnect(&m);
	machine_end(&m);
	assert_string_equal(machine_record(&m).reason, "destroyed_by_user");
	assert_no_residue(&fixture, before);
}

static void guest_sees_kvm_but_cannot_nest(void **state)
{
	struct machine_run m;

	machine_prepare(&m, &fixture);
	machine_start(&m);
	machine_connect(&m);
	assert_shell(&m, NULL,
		     "cat /sys/devices/system/clocksource/clocksource0/current_clocksource",
		     "kvm-clock");
	assert_shell(&m, NULL, "grep -cwE 'svm|vmx' /proc/cpuinfo || true", "0");
	machine_disconnect(&m);
	machine_end(&m);
}

static void two_at_once_are_independent(void **state)
{
	struct machine_run a, b;

	machine_prepare(&a, &fixture);
	machine_prepare(&b, &fixture);
	machine_start(&a);
	machine_start(&b);
	machine_connect(&a);
	machine_connect(&b);
	assert_shell(&a, NULL, "echo of-a > ~/file && sync && cat ~/file", "of-a");
	assert_shell(&b, NULL, "cat ~/file 2>/dev/null || echo none", "none");
	machine_disconnect(&a);
	machine_disconnect(&b);
	machine_end(&a);
	machine_end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probe_guest_runs),
		cmocka_unit_test(restored_machine_answers),
		cmocka_unit_test(guest_sees_kvm_but_cannot_nest),
		cmocka_unit_test(two_at_once_are_independent),
	};

	return cmocka_run_group_tests_name("kvm", tests, fixture_set_up, fixture_tear_down);
}
