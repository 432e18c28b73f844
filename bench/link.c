/* What a plain program of C does with a link: the comparison for `bench/run --only live`.
 *
 *   link send IF PACKETS   sends 60-byte UDP frames to 10,000 addresses in turn, as fast as it can; prints those that were sent
 *   link read IF           counts frames from a ring of TPACKET_V3 (packet_mmap.rst of the kernel) until SIGINT; prints those that
 *                          were counted, and those that the kernel dropped
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { TARGETS = 10000, FRAME = 60, BATCH = 64, BLOCK = 1 << 20, BLOCKS = 128 };

static volatile sig_atomic_t stopped;

static void stop(int number) {
    (void)number;
    stopped = 1;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int open_link(const char *interface, int protocol) {
    int link = socket(AF_PACKET, SOCK_RAW, 0);
    if (link < 0)
        fail("socket");
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(protocol)};
    at.sll_ifindex = if_nametoindex(interface);
    if (protocol == 0 && bind(link, (struct sockaddr *)&at, sizeof at) < 0)
        fail("bind");
    return link;
}

static void send_frames(const char *interface, long packets) {
    static uint8_t frames[TARGETS][FRAME];
    static const uint8_t head[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1};
    static const uint8_t udp[] = {4, 0, 5, 154, 0, 26, 0, 0};
    for (int n = 0; n < TARGETS; n++) {
        uint8_t *frame = frames[n];
        uint16_t target[2] = {htons(0x0a01), htons(n)};
        memcpy(frame, head, sizeof head);
        memcpy(frame + 30, target, 4);
        memcpy(frame + 34, udp, sizeof udp);
        uint32_t sum = 0;
        for (int at = 14; at < 34; at += 2)
            sum += frame[at] << 8 | frame[at + 1];
        sum = (sum >> 16) + (sum & 0xffff);
        uint16_t checksum = htons(~((sum >> 16) + sum));
        memcpy(frame + 24, &checksum, 2);
    }
    int link = open_link(interface, 0), on = 1;
    setsockopt(link, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    struct iovec parts[BATCH];
    struct mmsghdr messages[BATCH];
    memset(messages, 0, sizeof messages);
    long sent = 0;
    for (long next = 0; next < packets; next += BATCH) {
        for (int n = 0; n < BATCH; n++) {
            parts[n] = (struct iovec){frames[(next + n) % TARGETS], FRAME};
            messages[n].msg_hdr.msg_iov = &parts[n];
            messages[n].msg_hdr.msg_iovlen = 1;
        }
        int done = sendmmsg(link, messages, BATCH, 0);
        sent += done > 0 ? done : 0;
    }
    printf("%ld\n", sent);
}

static void read_frames(const char *interface) {
    int link = open_link(interface, ETH_P_ALL), version = TPACKET_V3;
    if (setsockopt(link, SOL_PACKET, PACKET_VERSION, &version, sizeof version) < 0)
        fail("PACKET_VERSION");
    struct tpacket_req3 ring = {.tp_block_size = BLOCK, .tp_block_nr = BLOCKS, .tp_frame_size = 2048};
    ring.tp_frame_nr = BLOCK / 2048 * BLOCKS;
    ring.tp_retire_blk_tov = 10;
    if (setsockopt(link, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring) < 0)
        fail("PACKET_RX_RING");
    uint8_t *blocks = mmap(NULL, (size_t)BLOCK * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, link, 0);
    if (blocks == MAP_FAILED)
        fail("mmap");
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    at.sll_ifindex = if_nametoindex(interface);
    if (bind(link, (struct sockaddr *)&at, sizeof at) < 0)
        fail("bind");
    unsigned long frames = 0, bytes = 0;
    for (unsigned next = 0;; next = (next + 1) % BLOCKS) {
        struct tpacket_block_desc *block = (void *)(blocks + (size_t)next * BLOCK);
        while (!(block->hdr.bh1.block_status & TP_STATUS_USER)) {
            struct pollfd wait = {.fd = link, .events = POLLIN | POLLERR};
            if (stopped)
                goto end;
            poll(&wait, 1, 100);
        }
        struct tpacket3_hdr *frame = (void *)((uint8_t *)block + block->hdr.bh1.offset_to_first_pkt);
        for (unsigned n = 0; n < block->hdr.bh1.num_pkts; n++) {
            frames++;
            bytes += frame->tp_len;
            frame = (void *)((uint8_t *)frame + frame->tp_next_offset);
        }
        block->hdr.bh1.block_status = TP_STATUS_KERNEL;
    }
end:;
    struct tpacket_stats_v3 counts;
    socklen_t size = sizeof counts;
    getsockopt(link, SOL_PACKET, PACKET_STATISTICS, &counts, &size);
    printf("%lu %u %lu\n", frames, counts.tp_drops, bytes);
}

int main(int count, char **words) {
    struct sigaction end = {.sa_handler = stop};
    sigaction(SIGINT, &end, NULL);
    if (count == 4 && strcmp(words[1], "send") == 0)
        send_frames(words[2], atol(words[3]));
    else if (count == 3 && strcmp(words[1], "read") == 0)
        read_frames(words[2]);
    else
        return 2;
    return 0;
}
