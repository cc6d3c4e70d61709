/*
 * Ethernet frames for the network tests: built from a description that can be wrong in every way a
 * guest can think of, and read back with their checksums verified.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_MAX      2048
#define FRAME_TCP      6
#define FRAME_UDP      17
#define FRAME_ICMP     1
#define FRAME_SCTP     132
#define FRAME_SYN      0x02
#define FRAME_RST      0x04
#define FRAME_ACK      0x10
#define FRAME_IPV4     0x0800
#define FRAME_ARP      0x0806
#define FRAME_IPV6     0x86dd
#define FRAME_ECHO     8
#define FRAME_MORE     0x2000 /* fragments follow */
#define FRAME_DONT     0x4000 /* fragment */
#define FRAME_RESERVED 0x8000

struct frame {
	uint8_t data[FRAME_MAX];
	size_t len;
};

/* Zero means what a well-behaved guest would send. Addresses in host byte order. */
struct frame_spec {
	const uint8_t *source_mac, *dest_mac;
	uint16_t ethertype; /* 0: IPv4 */
	uint16_t vlan;	    /* tag in front, 0: none */
	uint32_t source, dest;
	uint8_t protocol;
	uint16_t source_port, dest_port;
	uint8_t tcp_flags; /* 0: SYN */
	uint8_t icmp_type, icmp_code;
	uint16_t fragment;   /* flags and offset */
	uint16_t payload;    /* bytes */
	const void *content; /* of the payload; NULL: a pattern */
	uint8_t version_ihl; /* 0: 0x45 */
	uint8_t tcp_offset;  /* in words; 0: 5 */
	int total_len;	     /* added to the IPv4 length */
	int udp_len;	     /* added to the UDP length */
	bool no_udp_checksum;
	uint16_t padding; /* bytes after the packet */
	uint16_t cut;	  /* bytes missing at the end */
};

void frame_build(const struct frame_spec *spec, struct frame *out);

/* A question "who has target", or with answer set "I have sender". */
void frame_arp(const uint8_t mac[6], uint32_t sender, uint32_t target, bool answer,
	       struct frame *out);

/* IPv6 from a guest that has made itself an address: next_header and what follows it. */
void frame_ipv6(uint8_t next_header, const void *content, size_t len, struct frame *out);

struct frame_view {
	uint16_t ethertype;
	uint32_t source, dest;
	uint8_t protocol;
	uint16_t source_port, dest_port; /* of ICMP: type and code */
	uint8_t tcp_flags;
	const uint8_t *payload; /* of TCP, UDP or ICMP */
	size_t payload_len;
	bool checksums_right; /* IPv4's and the protocol's */
};

/* False when it is no IPv4 frame (ethertype is set all the same, if there is one). */
bool frame_read(const uint8_t *data, size_t len, struct frame_view *ret);
uint16_t frame_sum(const void *data, size_t len, uint32_t start); /* one's complement, folded */
