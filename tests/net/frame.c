/* Frames, byte by byte: nothing here trusts the kernel's headers to agree with ours. */
#include "frame.h"

#include <assert.h>
#include <string.h>

static const uint8_t guest_mac[6] = { 0x02, 0x5e, 0, 0, 0, 2 };
static const uint8_t gateway_mac[6] = { 0x02, 0x5e, 0, 0, 0, 1 };

static void put16(uint8_t *at, unsigned int value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value >> 16);
	put16(at + 2, value & 0xffff);
}

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)get16(at) << 16 | get16(at + 2);
}

uint16_t frame_sum(const void *data, size_t len, uint32_t start)
{
	const uint8_t *bytes = data;
	uint64_t sum = start;

	for (size_t i = 0; i < len; i++)
		sum += (i & 1) ? bytes[i] : (uint32_t)bytes[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static uint32_t pseudo_sum(uint32_t source, uint32_t dest, uint8_t protocol, size_t len)
{
	return (source >> 16) + (source & 0xffff) + (dest >> 16) + (dest & 0xffff) + protocol +
	       (uint32_t)len;
}

static size_t put_l4(const struct frame_spec *spec, uint8_t *at)
{
	size_t header = spec->protocol == FRAME_TCP ? 20 : spec->protocol == FRAME_SCTP ? 12 : 8;
	size_t len = header + spec->payload;
	uint32_t pseudo = pseudo_sum(spec->source, spec->dest, spec->protocol, len);

	put16(at, spec->source_port);
	put16(at + 2, spec->dest_port);
	for (size_t i = 0; i < spec->payload; i++)
		at[header + i] = spec->content ? ((const uint8_t *)spec->content)[i] : (uint8_t)i;
	switch (spec->protocol) {
	case FRAME_TCP:
		put32(at + 4, 1000);
		at[12] = (uint8_t)((spec->tcp_offset ? spec->tcp_offset : 5) << 4);
		at[13] = spec->tcp_flags ? spec->tcp_flags : FRAME_SYN;
		put16(at + 14, 64000);
		put16(at + 16, (uint16_t)~frame_sum(at, len, pseudo));
		break;
	case FRAME_UDP:
		put16(at + 4, (unsigned int)((int)len + spec->udp_len));
		if (!spec->no_udp_checksum)
			put16(at + 6, (uint16_t)~frame_sum(at, len, pseudo));
		break;
	case FRAME_ICMP:
		at[0] = spec->icmp_type;
		at[1] = spec->icmp_code;
		put16(at + 2, 0);
		put16(at + 4, spec->source_port);
		put16(at + 2, (uint16_t)~frame_sum(at, len, 0));
		break;
	default:
		break;
	}
	return len;
}

static size_t put_ipv4(const struct frame_spec *spec, uint8_t *at)
{
	uint8_t version_ihl = spec->version_ihl ? spec->version_ihl : 0x45;
	size_t header = (version_ihl & 15) < 5 ? 20 : (size_t)(version_ihl & 15) * 4;
	size_t len = header + put_l4(spec, at + header);

	at[0] = version_ihl;
	put16(at + 2, (unsigned int)((int)len + spec->total_len));
	put16(at + 4, 77);
	put16(at + 6, spec->fragment);
	at[8] = 64;
	at[9] = spec->protocol;
	put32(at + 12, spec->source);
	put32(at + 16, spec->dest);
	memset(at + 20, 1, header - 20); /* no-operation options */
	put16(at + 10, (uint16_t)~frame_sum(at, header, 0));
	return len;
}

void frame_build(const struct frame_spec *spec, struct frame *out)
{
	uint8_t *at = out->data;

	memset(out, 0, sizeof(*out));
	memcpy(at, spec->dest_mac ? spec->dest_mac : gateway_mac, 6);
	memcpy(at + 6, spec->source_mac ? spec->source_mac : guest_mac, 6);
	at += 12;
	if (spec->vlan) {
		put16(at, 0x8100);
		put16(at + 2, spec->vlan);
		at += 4;
	}
	put16(at, spec->ethertype ? spec->ethertype : FRAME_IPV4);
	at += 2;
	at += put_ipv4(spec, at);
	out->len = (size_t)(at - out->data) + spec->padding - spec->cut;
	assert(out->len <= FRAME_MAX);
}

void frame_arp(const uint8_t mac[6], uint32_t sender, uint32_t target, bool answer,
	       struct frame *out)
{
	uint8_t *at = out->data;

	memset(out, 0, sizeof(*out));
	memset(at, 0xff, 6);
	memcpy(at + 6, mac ? mac : guest_mac, 6);
	put16(at + 12, FRAME_ARP);
	put16(at + 14, 1);
	put16(at + 16, FRAME_IPV4);
	at[18] = 6;
	at[19] = 4;
	put16(at + 20, answer ? 2 : 1);
	memcpy(at + 22, mac ? mac : guest_mac, 6);
	put32(at + 28, sender);
	put32(at + 38, target);
	out->len = 42;
}

void frame_ipv6(uint8_t next_header, const void *content, size_t len, struct frame *out)
{
	static const uint8_t source[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 0x77 };
	static const uint8_t dest[16] = { 0x20, 0x01, 0x0d, 0xb8, [5] = 1, [15] = 0x88 };
	uint8_t *at = out->data;

	memset(out, 0, sizeof(*out));
	memcpy(at, gateway_mac, 6);
	memcpy(at + 6, guest_mac, 6);
	put16(at + 12, FRAME_IPV6);
	at[14] = 0x60;
	put16(at + 18, (unsigned int)len);
	at[20] = next_header;
	at[21] = 64;
	memcpy(at + 22, source, 16);
	memcpy(at + 38, dest, 16);
	memcpy(at + 54, content, len);
	out->len = 54 + len;
	assert(out->len <= FRAME_MAX);
}

static bool l4_is_right(const struct frame_view *view, const uint8_t *l4, size_t len)
{
	uint32_t pseudo = pseudo_sum(view->source, view->dest, view->protocol, len);

	switch (view->protocol) {
	case FRAME_UDP:
		return get16(l4 + 6) == 0 || frame_sum(l4, len, pseudo) == 0xffff;
	case FRAME_TCP:
		return frame_sum(l4, len, pseudo) == 0xffff;
	case FRAME_ICMP:
		return frame_sum(l4, len, 0) == 0xffff;
	default:
		return true;
	}
}

bool frame_read(const uint8_t *data, size_t len, struct frame_view *ret)
{
	const uint8_t *ip = data + 14, *l4;
	size_t header, total, l4_header;

	*ret = (struct frame_view){ 0 };
	if (len < 14)
		return false;
	ret->ethertype = get16(data + 12);
	if (ret->ethertype != FRAME_IPV4 || len < 34)
		return false;
	header = (size_t)(ip[0] & 15) * 4;
	total = get16(ip + 2);
	if (header < 20 || total < header + 8 || total > len - 14)
		return false;
	l4 = ip + header;
	ret->source = get32(ip + 12);
	ret->dest = get32(ip + 16);
	ret->protocol = ip[9];
	if (ret->protocol == FRAME_ICMP) {
		ret->source_port = l4[0];
		ret->dest_port = l4[1];
	} else {
		ret->source_port = get16(l4);
		ret->dest_port = get16(l4 + 2);
	}
	if (ret->protocol == FRAME_TCP && total < header + 20)
		return false;
	ret->tcp_flags = ret->protocol == FRAME_TCP ? l4[13] : 0;
	l4_header = ret->protocol == FRAME_TCP ? (size_t)(l4[12] >> 4) * 4 : 8;
	ret->payload = l4 + l4_header;
	ret->payload_len = total - header - l4_header;
	ret->checksums_right =
		frame_sum(ip, header, 0) == 0xffff && l4_is_right(ret, l4, total - header);
	return true;
}
