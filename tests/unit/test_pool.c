/* The worker pool: bounded queue, drains when freed, runs side by side. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "loop/pool.h"

static atomic_int done;
static sem_t started, may_end;

static void count(void *arg)
{
	atomic_fetch_add(&done, 1);
}

static void wait_for_leave(void *arg)
{
	sem_post(&started);
	sem_wait(&may_end);
	atomic_fetch_add(&done, 1);
}

static int reset(void **state)
{
	atomic_store(&done, 0);
	sem_init(&started, 0, 0);
	sem_init(&may_end, 0, 0);
	return 0;
}

static void test_full_queue_is_an_answer(void **state)
{
	struct pool *pool;

	assert_int_equal(pool_new(1, 2, &pool, NULL), 0);
	assert_int_equal(pool_submit(pool, wait_for_leave, NULL), 0);
	sem_wait(&started); /* the worker is busy, the queue empty */
	assert_int_equal(pool_submit(pool, count, NULL), 0);
	assert_int_equal(pool_submit(pool, count, NULL), 0);
	assert_int_equal(pool_submit(pool, count, NULL), -EAGAIN);
	sem_post(&may_end);
	pool_free(pool);
	assert_int_equal(atomic_load(&done), 3);
}

static void test_free_drains(void **state)
{
	struct pool *pool;

	assert_int_equal(pool_new(3, 1000, &pool, NULL), 0);
	for (int i = 0; i < 1000; i++) {
		int r = pool_submit(pool, count, NULL);

		assert_int_equal(r, 0);
	}
	pool_free(pool);
	assert_int_equal(atomic_load(&done), 1000);
}

static void test_workers_run_side_by_side(void **state)
{
	struct pool *pool;

	assert_int_equal(pool_new(3, 3, &pool, NULL), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pool_submit(pool, wait_for_leave, NULL), 0);
	for (int i = 0; i < 3; i++)
		sem_wait(&started); /* comes only when all three run at the same time */
	for (int i = 0; i < 3; i++)
		sem_post(&may_end);
	pool_free(pool);
	assert_int_equal(atomic_load(&done), 3);
}

static struct pool *closing;
static int late_answer;

static void submit_late(void *arg)
{
	sem_post(&started);
	/* pool_free closes the pool while this job runs; before that, the queue takes the job. */
	do {
		late_answer = pool_submit(closing, count, NULL);
		usleep(1000);
	} while (late_answer == 0 || late_answer == -EAGAIN);
}

static void test_a_closing_pool_refuses(void **state)
{
	assert_int_equal(pool_new(1, 4, &closing, NULL), 0);
	assert_int_equal(pool_submit(closing, submit_late, NULL), 0);
	sem_wait(&started);
	pool_free(closing);
	assert_int_equal(late_answer, -ESHUTDOWN);
	pool_free(NULL);
}

static void test_sizes_are_checked(void **state)
{
	struct pool *pool = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(pool_new(0, 1, &pool, &err), -EINVAL);
	assert_int_equal(pool_new(1, 0, &pool, &err), -EINVAL);
	assert_null(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_full_queue_is_an_answer, reset),
		cmocka_unit_test_setup(test_free_drains, reset),
		cmocka_unit_test_setup(test_workers_run_side_by_side, reset),
		cmocka_unit_test_setup(test_a_closing_pool_refuses, reset),
		cmocka_unit_test(test_sizes_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
