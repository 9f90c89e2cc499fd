/* SPDX-License-Identifier: Apache-2.0 */
/* Room that takes no place on the host's disk (vfs/room.h) is never less than noted: what fills it
 * is charged. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/meter.h"
#include "vfs/host_calls.h"
#include "vfs/room.h"

#define LIMIT ((uint64_t)1 << 20)
#define MUCH ((uint64_t)1 << 40)
#define BLOCK 4096u

static int g_fd;
static struct hostfs_id g_id;
/* Two that write to one file, who know nothing of each other. */
static struct room_end g_end, g_other;

static void begin(void)
{
	uint64_t limits[METER_COUNT];
	char name[] = "/var/tmp/moat-room-XXXXXX";
	struct host_stat st;

	for (unsigned m = 0; m < METER_COUNT; m++)
		limits[m] = METER_NO_LIMIT;
	limits[METER_write_bytes] = LIMIT;
	meters_start(limits);
	room_start();
	g_fd = mkstemp(name);
	cr_assert_geq(g_fd, 0);
	cr_assert_eq(unlink(name), 0);
	cr_assert_eq(host_stat_fd(g_fd, &st), 0);
	g_id = (struct hostfs_id){st.dev, st.ino};
	room_fresh(&g_id, &g_end);
	room_fresh(&g_id, &g_other);
}

static uint64_t charged(void)
{
	return meter_current(METER_write_bytes);
}

static ssize_t put(struct room_end *e, uint64_t pos)
{
	return room_pwrite(&g_id, e, g_fd, "x", 1, (int64_t)pos);
}

Test(vfs_room, sizes_cost_nothing_until_a_mapping, .init = begin)
{
	cr_assert_eq(room_truncate(&g_id, &g_end, g_fd, MUCH), 0);
	cr_assert_eq(charged(), 0);
	cr_assert_eq(room_map(&g_id, g_fd), -EDQUOT);
	cr_assert_eq(room_truncate(&g_id, &g_end, g_fd, LIMIT / 2), 0);
	cr_assert_eq(room_map(&g_id, g_fd), 0);
	cr_assert_eq(charged(), LIMIT / 2);
	cr_assert_eq(room_map(&g_id, g_fd), 0, "once");
	cr_assert_eq(charged(), LIMIT / 2);
	cr_assert_eq(room_truncate(&g_id, &g_end, g_fd, MUCH), -EDQUOT, "now it costs");
	cr_assert_eq(put(&g_end, MUCH), -EDQUOT);
	cr_assert_eq(room_fallocate(&g_id, g_fd, 0, MUCH, 1), -EDQUOT);
	cr_assert_eq(charged(), LIMIT / 2, "what was refused is given back");
	cr_assert_eq(room_truncate(&g_id, &g_end, g_fd, LIMIT), 0);
	cr_assert_eq(charged(), LIMIT);
}

Test(vfs_room, who_writes_behind_the_end_makes_a_hole, .init = begin)
{
	cr_assert_eq(put(&g_end, 2 * LIMIT), 1);
	cr_assert_eq(room_map(&g_id, g_fd), -EDQUOT);
	/* The end that one knows is another's to move. */
	cr_assert_eq(room_truncate(&g_id, &g_other, g_fd, 0), 0);
	cr_assert_eq(room_map(&g_id, g_fd), 0);
	cr_assert_eq(put(&g_end, 2 * LIMIT), -EDQUOT);
}

Test(vfs_room, an_offset_that_was_moved_is_asked_for, .init = begin)
{
	cr_assert_eq(room_write(&g_id, &g_end, g_fd, "x", 1), 1);
	cr_assert_eq(room_seek(&g_id, g_fd, 2 * LIMIT, SEEK_SET), 2 * LIMIT);
	cr_assert_eq(room_write(&g_id, &g_end, g_fd, "x", 1), 1);
	cr_assert_eq(room_map(&g_id, g_fd), -EDQUOT);
}

Test(vfs_room, one_byte_in_a_hole_pays_for_a_block_once, .init = begin)
{
	cr_assert_eq(room_truncate(&g_id, &g_end, g_fd, MUCH), 0);
	for (uint64_t i = 0; i < BLOCK; i++)
		cr_assert_eq(put(&g_end, i), 1);
	/* The byte itself was charged by who called. */
	cr_assert_eq(charged(), BLOCK - 1);
	cr_assert_eq(put(&g_end, 10 * BLOCK), 1);
	cr_assert_eq(charged(), 2 * (BLOCK - 1));
	cr_assert_eq(room_append(&g_id, &g_end, g_fd, "x", 1, false), 1);
	cr_assert_eq(charged(), 3 * (BLOCK - 1));
}

Test(vfs_room, holes_that_are_there_count, .init = begin)
{
	struct room_end e = {0};

	cr_assert_eq(ftruncate(g_fd, MUCH), 0);
	cr_assert_eq(put(&e, 0), 1);
	cr_assert_eq(charged(), BLOCK - 1);
	cr_assert_eq(room_map(&g_id, g_fd), -EDQUOT);
}

Test(vfs_room, fallocate_is_charged_in_blocks_and_for_what_lies_before, .init = begin)
{
	cr_assert_eq(room_fallocate(&g_id, g_fd, 0, BLOCK - 1, 2), 0);
	cr_assert_eq(charged(), 2 * BLOCK);
	cr_assert_eq(room_fallocate(&g_id, g_fd, 0, MUCH, BLOCK), 0);
	cr_assert_eq(charged(), 3 * BLOCK);
	cr_assert_eq(room_map(&g_id, g_fd), -EDQUOT);
	cr_assert_eq(
		room_fallocate(&g_id, g_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, BLOCK),
		0);
	cr_assert_eq(charged(), 3 * BLOCK);
}

/* More files than there are notes. (The number is a key, the descriptor is what is asked.) */
Test(vfs_room, without_a_note_room_is_charged_at_once, .init = begin)
{
	struct hostfs_id id = g_id;

	for (uint64_t size = 1; size <= 65536; size++, id.ino++) {
		cr_assert_eq(room_truncate(&id, NULL, g_fd, size), 0);
		cr_assert_eq(charged(), 0);
	}
	cr_assert_eq(room_truncate(&id, NULL, g_fd, 65536 + BLOCK), 0);
	cr_assert_eq(charged(), BLOCK);
	cr_assert_eq(room_truncate(&id, NULL, g_fd, MUCH), -EDQUOT);
	/* One of those is mapped, which cannot be noted: then all pay at once. */
	cr_assert_eq(room_truncate(&g_id, NULL, g_fd, 2 * BLOCK), 0);
	cr_assert_eq(charged(), BLOCK);
	cr_assert_eq(room_map(&id, g_fd), 0);
	cr_assert_eq(room_truncate(&g_id, NULL, g_fd, MUCH), -EDQUOT);
}
