/* The egress program's maps; abi.h says what is in them. Included by egress.bpf.c alone. */
#pragma once

/* Which slot is behind a device: ifindex to index. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, EGRESS_SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, EGRESS_SLOTS);
	__type(key, __u32);
	__type(value, struct egress_slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct egress_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, EGRESS_RULES);
	__type(key, struct egress_rule_key);
	__type(value, __u32);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, EGRESS_RULES);
	__type(key, struct egress_learned_key);
	__type(value, struct egress_learned);
} learned SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct egress_range_key);
	__type(value, __u32);
} ranges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, EGRESS_MEMBERS);
	__type(key, struct egress_member_key);
	__type(value, __u32);
} members SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, EGRESS_SLOTS);
	__type(key, __u32);
	/* BTF does not follow named types in here: sizes instead. */
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_LRU_HASH);
			__uint(max_entries, EGRESS_FLOWS);
			__uint(key_size, sizeof(struct egress_flow_key));
			__uint(value_size, sizeof(struct egress_flow));
		});
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, EGRESS_SLOTS);
	__type(key, __u32);
	__type(value, struct egress_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");
